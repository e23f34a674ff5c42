// Package uploads holds the bars of modules that arrive: what those who call actors
// notice of them.
package uploads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
)

// Bars returns the bars of this area in order.
func Bars() []bar.Bar {
	return []bar.Bar{{
		Name: "uploads.1", Title: "calls of a warm actor, 200 a second, while four modules of 31 MB are uploaded at any time, against the same calls alone",
		Checks: []bar.Check{
			{Name: "turns, p99", Unit: "µs", Want: bar.AtMost, Target: 2},
			{Name: "read-only, p99", Unit: "µs", Want: bar.AtMost, Target: 2},
		},
		Run: neighbour,
	}}
}

const (
	// rate is of the neighbour's calls in a second: few, so that what it waits for is
	// not itself.
	rate = 200
	// uploaders are how many modules are on their way at any time.
	uploaders = 4
)

// neighbour is uploads.1.
func neighbour(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	dir, remove, err := r.Folder()
	if err != nil {
		return err
	}
	defer remove()
	s, err := r.Serve(ctx, "--data-dir", dir)
	if err != nil {
		return err
	}
	module := large()
	for run := 1; run <= r.Runs && err == nil; run++ {
		for _, call := range []wire.Spec{
			{Method: "Add", Payload: "1"},
			{Method: "Get", ReadOnly: true},
		} {
			if err = compare(ctx, r, rec, run, s, call, module); err != nil {
				break
			}
		}
	}
	return errors.Join(err, s.Close())
}

// compare measures a call alone and beside uploads.
func compare(ctx context.Context, r *rig.Rig, rec *bar.Record, run int, s *rig.Server, call wire.Spec, module []byte) error {
	what := "turns"
	if call.ReadOnly {
		what = "read-only"
	}
	call.URL, call.Protocol = s.URL, wire.Unary
	call.Plan = load.Plan{
		Outstanding: 16, Actors: 1, Rate: rate, Warmup: r.Warmup, Duration: r.Duration, Watch: map[string]int{"server": s.PID},
	}
	measure := func(how string) (load.Result, error) {
		res, err := role.Call[load.Result](ctx, wire.Role, call)
		if err == nil {
			rec.Measured(what+", "+how, run, res)
		}
		return res, err
	}
	alone, err := measure("alone")
	if err != nil {
		return err
	}
	var beside load.Result
	refused, err := during(ctx, s.URL, module, func() (err error) {
		beside, err = measure("beside uploads")
		return err
	})
	if err != nil {
		return err
	}
	if refused == 0 {
		return errors.New("no upload was answered meanwhile; measure longer: -duration 10s")
	}
	rec.Note("%s, run %d: %d uploads were answered meanwhile", what, run, refused)
	const perMicro = 1000
	rec.Compare(what+", p99", float64(beside.P99.Nanoseconds())/perMicro, float64(alone.P99.Nanoseconds())/perMicro)
	return nil
}

// during uploads the module again and again while f runs, and returns how often it was
// refused, which it is each time.
func during(ctx context.Context, url string, module []byte, f func() error) (refused int64, err error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	defer client.CloseIdleConnections()
	service := greenroomv1connect.NewModuleServiceClient(client, url)
	until, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	var n atomic.Int64
	for range uploaders {
		group.Go(func() error {
			for until.Err() == nil {
				err := upload(until, service, module)
				switch {
				case until.Err() != nil:
				case connect.CodeOf(err) == connect.CodeInvalidArgument:
					n.Add(1)
				default:
					return fmt.Errorf("an upload that is to be refused: %w", err)
				}
			}
			return nil
		})
	}
	err = f()
	stop()
	return n.Load(), errors.Join(err, group.Wait())
}

// upload sends a module and returns the server's answer.
func upload(ctx context.Context, service greenroomv1connect.ModuleServiceClient, module []byte) error {
	stream := service.Upload(ctx)
	defer stream.CloseResponse() //nolint:errcheck // Receive has said it
	err := stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{
		Header: &greenroomv1.UploadHeader{Size: int64(len(module))},
	}})
	const chunkBytes = 256 << 10
	for chunk := range slices.Chunk(module, chunkBytes) {
		if err == nil {
			err = stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: chunk}})
		}
	}
	if err == nil {
		err = stream.CloseRequest()
	}
	if err != nil && !errors.Is(err, io.EOF) { // on EOF the reason comes from Receive
		return err
	}
	for err = nil; err == nil; {
		_, err = stream.Receive()
	}
	return err
}

// large is a guest of 31 MB that is read whole and metered far, and refused then: of as
// many functions as there may be, with nothing but memory.fill in them.
func large() []byte {
	const functions, times = 249_000, 14
	body := bytes.Repeat([]byte{0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x0b, 0}, times)
	return wasmtest.Guest{More: func(b *wasmtest.Builder) {
		typ := b.Type(nil, nil)
		for range functions {
			b.FuncOf(typ, 0, body...)
		}
	}}.Bytes()
}

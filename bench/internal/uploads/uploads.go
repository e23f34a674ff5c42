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
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
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
		Run: bar.Of(neighbour),
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
func neighbour(b *bar.B) {
	s, module := b.ServeEmbedded(b.Guest()), large()
	b.Each(func(run int) {
		compare(b, run, s, "turns", wire.Spec{Method: "Add", Payload: "1"}, module)
		compare(b, run, s, "read-only", wire.Spec{Method: "Get", ReadOnly: true}, module)
	})
}

// compare measures a call alone and beside uploads.
func compare(b *bar.B, run int, s *rig.Server, what string, call wire.Spec, module []byte) {
	call.URL, call.Protocol = s.URL, wire.Unary
	call.Plan = b.Plan(16, 1, map[string]int{"server": s.PID})
	call.Plan.Rate = rate
	alone := b.Measure(what+", alone", run, wire.Role, call)
	var beside load.Result
	refused := must.Get(during(b.Context(), s.URL, module, func() error {
		return must.Catch(func() { beside = b.Measure(what+", beside uploads", run, wire.Role, call) })
	}))
	if refused == 0 {
		must.Check(errors.New("no upload was answered meanwhile; measure longer: -duration 10s"))
	}
	b.Note("%s, run %d: %d uploads were answered meanwhile", what, run, refused)
	b.Compare(what+", p99", bar.Micros(beside.P99), bar.Micros(alone.P99))
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

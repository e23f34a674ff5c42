//go:build linux && !race

// Making modules of 31 MiB takes the race detector a minute; what is tried is another process.

package crash_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/greenroom-run/greenroom/abi/manifest"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/crash"
)

// The most that a server and one of its compilers may have resident, added up,
// whatever is uploaded.
const mostMemory = 1 << 30

// startForUploads starts a server and a client for its modules, which end with the test.
func startForUploads(t *testing.T) (server *crash.Process, modules greenroomv1connect.ModuleServiceClient, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	server, err := crash.Start(t.Context(), crash.Options{Binary: binary, Args: append([]string{"--data-dir", t.TempDir()}, patient...), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Kill()
	})
	return server, greenroomv1connect.NewModuleServiceClient(client, server.URL), log
}

// Every shape of modules that is known to exhaust compilers: a server refuses or
// takes each of them, keeps its memory, and answers calls afterwards. They are guests
// as large as an upload may be; with GREENROOM_BOMBS=all (make soak) also plug-ins,
// and of both also the smallest that are refused unseen and those that are compiled.
func TestBombsOnAServer(t *testing.T) {
	const largest = 31 << 20
	ctx := t.Context()
	server, modules, log := startForUploads(t)

	upload := func(name string, wasm []byte, refused bool) {
		t.Helper()
		err := uploadTo(ctx, modules, wasm)
		switch {
		case err == nil && refused:
			t.Errorf("%s was taken", name)
		case err != nil && connect.CodeOf(err) != connect.CodeInvalidArgument:
			t.Errorf("%s: %v", name, err)
		}
	}
	all := os.Getenv("GREENROOM_BOMBS") == "all"
	for _, b := range wasmtest.Bombs() {
		upload(b.Name+", large", b.Sized(largest), true)
		if all {
			upload(b.Name+", big", b.Make(b.Big), true)
			upload(b.Name+", small", b.Make(b.Small), false)
		}
	}
	if all {
		plugin := func(wasm []byte) []byte {
			described, err := manifest.Embed(wasm, []byte(wasmtest.Manifest))
			if err != nil {
				t.Fatal(err)
			}
			return described
		}
		for _, b := range wasmtest.Bombs(wasmtest.PluginImport()) {
			upload(b.Name+", large plug-in", plugin(b.Sized(largest)), true)
			upload(b.Name+", big plug-in", plugin(b.Make(b.Big)), true)
			upload(b.Name+", small plug-in", plugin(b.Make(b.Small)), false)
		}
	}

	deploy := exec.CommandContext(ctx, binary, "deploy", guest, "--server", server.URL)
	if out, err := deploy.CombinedOutput(); err != nil {
		t.Fatalf("deploy: %v\n%s", err, out)
	}
	if acked := acknowledgements(ctx, server.URL, 1); acked < 1 {
		t.Errorf("%d calls were answered afterwards\n%s", acked, log)
	}
	own := memory(t, server.PID(), "VmHWM")
	if err := server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	// The larger one of the server's and its children's.
	most := server.State().SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("the server had at most %d MiB, the largest process of it %d MiB", own>>20, most>>20)
	if own+most > mostMemory {
		t.Errorf("the server had %d MiB, a process of it %d MiB", own>>20, most>>20)
	}
}

// The most that uploads may cost a server above what it keeps of them, however large
// they are and however many come at once.
const mostOfUploads = 64 << 20

// Modules that become many times their size once they are metered, such whose outline
// is large, and one that is taken: as large as modules may be, and four at once. The
// server keeps its memory: modules wait on disk, one at a time is in memory while it is
// read, and another process meters and compiles it.
func TestUploadsCostAServerLittle(t *testing.T) {
	ctx := t.Context()
	server, modules, _ := startForUploads(t)
	if err := uploadTo(ctx, modules, wasmtest.Guest{}.Bytes()); err != nil { // what the first one alone costs
		t.Fatal(err)
	}
	// of returns a guest of as many functions as there may be, which are cheap to compile.
	of := func(times int, instruction ...byte) []byte {
		const functions = 249_000
		body := bytes.Repeat(instruction, times)
		return wasmtest.Guest{More: func(b *wasmtest.Builder) {
			typ := b.Type(nil, nil)
			for range functions {
				b.FuncOf(typ, 0, body...)
			}
		}}.Bytes()
	}
	before := memory(t, server.PID(), "VmRSS")
	for _, tc := range []struct {
		name  string
		wasm  []byte
		taken bool
	}{
		{"memory.fill", of(14, 0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x0b, 0), false},
		{"memory.grow", of(24, 0x41, 0, 0x40, 0, 0x1a), false},
		{"loops", of(8, 0x03, 0x40, 0x0b), false},
		{"exports", wasmtest.Guest{More: func(b *wasmtest.Builder) {
			f := b.Func("", nil, nil, 0)
			for n := range 99_000 {
				b.Export(fmt.Sprintf("%0300d", n), 0, f)
			}
		}}.Bytes(), false},
		{"text", wasmtest.Guest{More: func(b *wasmtest.Builder) {
			text := make([]byte, 31<<20)
			_, _ = rand.NewChaCha8([32]byte{}).Read(text)
			b.Custom("text", text)
		}}.Bytes(), true},
	} {
		resetPeak(t, server.PID())
		var uploads errgroup.Group
		for n := range 4 {
			uploads.Go(func() error {
				wasm := tc.wasm
				if tc.taken && n > 1 { // two are the same, and two are others
					wasm = append(slices.Clip(tc.wasm), wasmtest.Section(0, []byte{1, byte('0' + n)})...)
				}
				err := uploadTo(ctx, modules, wasm)
				if refused := connect.CodeOf(err) == connect.CodeInvalidArgument; err != nil && !refused || refused == tc.taken {
					return fmt.Errorf("got %w", err)
				}
				return nil
			})
		}
		if err := uploads.Wait(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		peak, kept := memory(t, server.PID(), "VmHWM"), before
		if tc.taken { // the store keeps more of it in its buffers and its cache
			kept = memory(t, server.PID(), "VmRSS")
		}
		cost := peak - kept
		t.Logf("%s, four of %d MiB: %d MiB beside the %d that it has (%d before)", tc.name, len(tc.wasm)>>20, cost>>20, kept>>20, before>>20)
		if cost > mostOfUploads {
			t.Errorf("four uploads of %d MiB of %s cost the server %d MiB", len(tc.wasm)>>20, tc.name, cost>>20)
		}
	}
}

// resetPeak makes what a process has resident now the most that it has had.
func resetPeak(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "clear_refs"), []byte("5"), 0); err != nil {
		t.Skip("the system does not measure peaks of memory:", err)
	}
}

// uploadTo uploads a module in one piece after another.
func uploadTo(ctx context.Context, modules greenroomv1connect.ModuleServiceClient, wasm []byte) error {
	stream := modules.Upload(ctx)
	defer stream.CloseResponse()
	err := stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Header{
		Header: &greenroomv1.UploadHeader{Size: int64(len(wasm))},
	}})
	for chunk := range slices.Chunk(wasm, 256<<10) {
		if err == nil {
			err = stream.Send(&greenroomv1.UploadRequest{Content: &greenroomv1.UploadRequest_Chunk{Chunk: chunk}})
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // on EOF the reason comes from Receive
		return err
	}
	if err := stream.CloseRequest(); err != nil {
		return err
	}
	for {
		if _, err := stream.Receive(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// acknowledgements increments a counter until so many calls are answered.
func acknowledgements(ctx context.Context, url string, n int64) int64 {
	ctx, cancel := context.WithTimeout(ctx, roundDeadline)
	defer cancel()
	ledger := crash.NewLedger("after", 1)
	ledger.Load(ctx, crash.CounterTarget(url), 1, func(total int64) {
		if total >= n {
			cancel()
		}
	})
	return ledger.Acked()
}

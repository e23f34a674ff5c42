package node_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/node"
)

// logging is a guest that logs the start of its manifest as a warning and then
// does what ends does.
func logging(ends []byte) []byte {
	return wasmtest.Guest{
		Imports: []wasmtest.Import{wasmtest.Host("log", "iii", "i")},
		Turn: wasmtest.Code(
			wasmtest.I32Const(4), wasmtest.I32Const(wasmtest.ManifestAt), wasmtest.I32Const(8), wasmtest.Call(0), wasmtest.Drop,
			ends,
		),
	}.Bytes()
}

func tail(ctx context.Context, t *testing.T, r *running, req *greenroomv1.TailRequest) *connect.ServerStreamForClient[greenroomv1.TailResponse] {
	t.Helper()
	client := h2c()
	t.Cleanup(client.CloseIdleConnections)
	stream, err := greenroomv1connect.NewLogServiceClient(client, r.URL).Tail(ctx, connect.NewRequest(req))
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() { // the remembered lines, or none: the stream stands
		t.Fatal(stream.Err())
	}
	return stream
}

func TestLogsAreFollowed(t *testing.T) {
	r := start(t, node.Config{GuestLog: func(host.GuestLog) {}})
	r.deploy(t, "", logging(wasmtest.I32Const(0)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream := tail(ctx, t, r, &greenroomv1.TailRequest{ActorType: "T", ActorId: "mine", Follow: true})
	if n := len(stream.Msg().Lines); n != 0 {
		t.Errorf("%d lines before any was logged", n)
	}
	r.mustCall(t, "", "T", "other", "Do", "", "")
	r.mustCall(t, "", "T", "mine", "Do", "", "")
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	lines := stream.Msg().Lines
	if len(lines) != 1 || lines[0].Text != `{"abi":1` || lines[0].Actor.Id != "mine" || lines[0].Method != "Do" || lines[0].Level != 4 || lines[0].InvocationId == "" {
		t.Errorf("followed %v", lines)
	}
	cancel()

	past := tail(t.Context(), t, r, &greenroomv1.TailRequest{Last: 10})
	if n := len(past.Msg().Lines); n != 2 {
		t.Errorf("%d remembered lines, want 2", n)
	}
	if late := tail(t.Context(), t, r, &greenroomv1.TailRequest{Last: 10, Since: timestamppb.New(past.Msg().Lines[1].Time.AsTime().Add(time.Nanosecond))}); len(late.Msg().Lines) != 0 {
		t.Errorf("lines since the last one: %v", late.Msg().Lines)
	}
	if late := tail(t.Context(), t, r, &greenroomv1.TailRequest{Last: 10, Since: past.Msg().Lines[1].Time}); len(late.Msg().Lines) != 1 {
		t.Errorf("lines since the last one, with it: %v", late.Msg().Lines)
	}
	if past.Receive() || past.Err() != nil {
		t.Errorf("a tail that does not follow goes on: %v", past.Err())
	}
	none := tail(t.Context(), t, r, &greenroomv1.TailRequest{App: "other", Last: 10})
	if n := len(none.Msg().Lines); n != 0 {
		t.Errorf("%d lines of another app", n)
	}
}

// TestFailedTurnsAreLogged looks for each failed turn, once, with its kind, its
// request and how to raise the limit that it met: where guests' logs are followed
// and in the server's own log.
func TestFailedTurnsAreLogged(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ends   []byte
		limits host.Limits
		kind   string
		want   []string
	}{
		{"trap", wasmtest.Code(wasmtest.Unreachable), host.Limits{}, "guest_trap", []string{"failed: guest_trap: ", "unreachable"}},
		{"fuel", wasmtest.Forever(), host.Limits{Fuel: 10_000}, "out_of_fuel", []string{"at most 10000", "--limit default/T:turn-fuel="}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log syncBuffer
			r := start(t, node.Config{Limits: tc.limits, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			r.deploy(t, "", logging(wasmtest.Code(tc.ends, wasmtest.I32Const(0))))
			_, err := r.call(t.Context(), "", "T", "x", "Do", "")
			if detail(err).GetKind() != tc.kind {
				t.Fatalf("got %v", err)
			}
			lines := tail(t.Context(), t, r, &greenroomv1.TailRequest{Last: 10}).Msg().Lines
			if len(lines) != 2 { // the guest's own, and the failure
				t.Fatalf("logged %v", lines)
			}
			failed := lines[1]
			if failed.Level != 4 || failed.Actor.Id != "x" || failed.InvocationId == "" || failed.InvocationId != lines[0].InvocationId || failed.Run != 1 {
				t.Errorf("logged %v", failed)
			}
			for _, want := range tc.want {
				if !strings.Contains(failed.Text, want) {
					t.Errorf("%q does not say %q", failed.Text, want)
				}
			}
			text := log.String()
			for _, want := range []string{`"level":"WARN","msg":"turn failed"`, `"kind":"` + tc.kind + `"`, `"request":"` + failed.InvocationId + `"`} {
				if !strings.Contains(text, want) {
					t.Errorf("the server's log does not have %s:\n%s", want, text)
				}
			}
			// What nothing serves is no turn, whatever names callers make up.
			_, _ = r.call(t.Context(), "", "Unheard", "x", "Do", "")
			if strings.Contains(log.String(), "Unheard") {
				t.Error("a made-up type is in the server's log")
			}
		})
	}
}

// syncBuffer is a buffer for a logger.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

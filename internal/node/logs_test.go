package node_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

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
	if past.Receive() || past.Err() != nil {
		t.Errorf("a tail that does not follow goes on: %v", past.Err())
	}
	none := tail(t.Context(), t, r, &greenroomv1.TailRequest{App: "other", Last: 10})
	if n := len(none.Msg().Lines); n != 0 {
		t.Errorf("%d lines of another app", n)
	}
}

// TestTrapsAreLogged looks for why a guest trapped, and in which function.
func TestTrapsAreLogged(t *testing.T) {
	r := start(t, node.Config{GuestLog: func(host.GuestLog) {}})
	r.deploy(t, "", logging(wasmtest.Code(wasmtest.Unreachable)))
	if _, err := r.call(t.Context(), "", "T", "x", "Do", ""); detail(err).GetKind() != "guest_trap" {
		t.Fatalf("got %v", err)
	}
	lines := tail(t.Context(), t, r, &greenroomv1.TailRequest{Last: 10, MinLevel: 8}).Msg().Lines
	if len(lines) != 1 || !strings.Contains(lines[0].Text, "unreachable") || lines[0].Actor.Id != "x" {
		t.Errorf("logged %v", lines)
	}
}

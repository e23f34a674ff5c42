package node_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestTooLargeNamesLimitAndSetting: what is larger than a limit is refused with the limit
// and what sets it, over Connect and over plain HTTP, and in the same words by a node that
// passed the call on.
func TestTooLargeNamesLimitAndSetting(t *testing.T) {
	url := pgtest.URL(t)
	config := func() node.Config {
		return inCluster(url, func(c *node.Config) { c.Limits = host.Limits{StateBytes: 1000, PayloadBytes: 3000} })
	}
	first := start(t, config())
	first.deploy(t, "", build(t, filepath.Join("testdata", "template"), guestbuild.Go))
	second := start(t, config())
	first.mustCall(t, "", "Letter", "ann", "Write", `"{{printf \"%4000s\" \"x\"}}"`, ``)
	for name, tc := range map[string]struct {
		method, payload string
		status          int
		says            []string
	}{
		"payload": {"Write", strings.Repeat("x", 3001), http.StatusRequestEntityTooLarge, []string{"3000 are allowed", "--max-payload", "--limit default/Letter:max-payload=…"}},
		"reply":   {"Render", "", http.StatusTooManyRequests, []string{"4002 bytes", "3000 bytes", "--max-payload", "--limit default/Letter:max-payload=…"}},
		"state":   {"Write", `"` + strings.Repeat("x", 2000) + `"`, http.StatusConflict, []string{"1000 are allowed", "--max-state", "--limit default/Letter:max-state=…"}},
	} {
		messages := map[string]bool{}
		for _, n := range []*running{first, second} {
			res := put(t, n.URL+"/v2.0/actors/default/Letter/ann/method/"+tc.method, tc.payload)
			for _, part := range tc.says {
				if !strings.Contains(res.body, part) {
					t.Errorf("%s: %s %s lacks %q", name, res.Status, res.body, part)
				}
			}
			if res.StatusCode != tc.status {
				t.Errorf("%s: %s", name, res.Status)
			}
			_, err := n.call(t.Context(), "", "Letter", "ann", tc.method, tc.payload)
			messages[err.Error()] = true
		}
		if len(messages) != 1 {
			t.Errorf("%s: %v", name, messages)
		}
	}
}

// TestDeadlineSaysWhoSetIt: a call that a deadline ends is told how long that was, and
// which header or flag set it, in every protocol, and also by a node that passed it on.
func TestDeadlineSaysWhoSetIt(t *testing.T) {
	url := pgtest.URL(t)
	config := func() node.Config {
		return inCluster(url, func(c *node.Config) {
			c.Overrides = map[host.Scope]host.Limits{{App: "short"}: {TurnDeadline: 100 * time.Millisecond}}
		})
	}
	first := start(t, config())
	loops := wasmtest.Guest{Turn: wasmtest.Code(wasmtest.Forever(), wasmtest.I32Const(0))}.Bytes()
	first.deploy(t, "default", loops)
	first.deploy(t, "short", loops)
	client := h2c()
	t.Cleanup(client.CloseIdleConnections)
	for i, n := range []*running{first, start(t, config())} {
		invoke := func(app, header, value string, opts ...connect.ClientOption) string {
			req := connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{App: app, Type: "T", Id: "x"}, Method: "Do"})
			req.Header().Set(header, value)
			_, err := greenroomv1connect.NewActorServiceClient(client, n.URL, opts...).Invoke(t.Context(), req)
			if connect.CodeOf(err) != connect.CodeDeadlineExceeded || detail(err).GetKind() != "deadline" {
				t.Errorf("%v", err)
			}
			return err.Error()
		}
		stream := n.actors.InvokeStream(t.Context())
		if err := stream.Send(&greenroomv1.InvokeStreamRequest{Invocations: []*greenroomv1.StreamInvocation{
			{Id: 1, Actor: &greenroomv1.ActorKey{Type: "T", Id: "x"}, Method: "Do", TimeoutMs: 50},
		}}); err != nil {
			t.Fatal(err)
		}
		var replies []*greenroomv1.StreamReply
		for len(replies) == 0 { // the first message has none
			res, err := stream.Receive()
			if err != nil {
				t.Fatal(err)
			}
			replies = res.GetReplies()
		}
		for name, tc := range map[string]struct{ got, want string }{
			"Connect":   {invoke("default", "Connect-Timeout-Ms", "50"), "its caller set 50ms, by Connect-Timeout-Ms; give"},
			"gRPC":      {invoke("default", "Grpc-Timeout", "50m", connect.WithGRPC()), "its caller set 50ms, by grpc-timeout; give"},
			"HTTP":      {put(t, n.URL+"/v2.0/actors/default/T/x/method/Do", "", "Connect-Timeout-Ms", "50").body, "its caller set 50ms, by Connect-Timeout-Ms; give"},
			"a stream":  {replies[0].GetError().GetMessage(), "its caller set 50ms, by timeout_ms; give"},
			"turn":      {invoke("short", "Accept-Language", "en"), "turns of this type may take 100ms, by --turn-deadline or --limit short/T:turn-deadline=… of the server"},
			"HTTP turn": {put(t, n.URL+"/v2.0/actors/short/T/x/method/Do", "").body, "turns of this type may take 100ms, by --turn-deadline or --limit short/T:turn-deadline=… of the server"},
		} {
			if !strings.Contains(tc.got, "the turn did not finish before its deadline: "+tc.want) {
				t.Errorf("node %d, %s: %s", i, name, tc.got)
			}
		}
	}
}

// TestStartOverItsLimit: the error of a call whose guest does not start in time names the start, and not the
// turn.
func TestStartOverItsLimit(t *testing.T) {
	dir := t.TempDir()
	first := start(t, node.Config{DataDir: dir})
	first.deploy(t, "default", wasmtest.Guest{Init: wasmtest.Code(wasmtest.I32Const(0), wasmtest.Drop), Turn: wasmtest.I32Const(0)}.Bytes())
	first.mustCall(t, "default", "T", "x", "Do", "", "")
	stop(t, first.Node)

	const limit = time.Nanosecond // is over before the guest can begin
	second := start(t, node.Config{DataDir: dir, StartTime: limit})
	_, err := second.call(t.Context(), "default", "T", "x", "Do", "")
	if detail(err).GetKind() != "deadline" || !strings.Contains(err.Error(), "the guest did not start within 1ns") || !strings.Contains(err.Error(), "init functions") {
		t.Errorf("%v", err)
	}
}

// TestAppAtItsMemory: an app whose guests have all the memory that those of one app may
// have is refused with the flag, while another app's call finds its own.
func TestAppAtItsMemory(t *testing.T) {
	r := start(t, node.Config{GuestMemory: 40 << 20, GuestMemoryPerApp: 20 << 20})
	const pages = 12 << 20 / 65536
	r.deploy(t, "greedy", wasmtest.Guest{Pages: pages, Turn: wasmtest.Code(wasmtest.Forever(), wasmtest.I32Const(0))}.Bytes())
	r.deploy(t, "modest", wasmtest.Guest{Pages: pages, Turn: wasmtest.I32Const(0)}.Bytes())
	ctx, stop := context.WithCancel(t.Context())
	ends := make(chan error, 2)
	for _, id := range []string{"a", "b"} {
		go func() {
			_, err := r.call(ctx, "greedy", "T", id, "Do", "")
			ends <- err
		}()
	}
	err := <-ends
	if connect.CodeOf(err) != connect.CodeUnavailable || detail(err).GetKind() != "overloaded" || !strings.Contains(err.Error(), "20971520 bytes") || !strings.Contains(err.Error(), "--max-memory-per-app") {
		t.Errorf("the second turn of the app: %v", err)
	}
	r.mustCall(t, "modest", "T", "a", "Do", "", "")
	stop()
	if err := <-ends; connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("the first turn of the app: %v", err)
	}
}

// TestBodyThatCannotBeCalledWithIsNotRead: a payload for which the memory of calls has no room is
// refused before the client is asked for it.
func TestBodyThatCannotBeCalledWithIsNotRead(t *testing.T) {
	cfg := node.Config{CallMemory: 1 << 20, Limits: host.Limits{PayloadBytes: 256 << 10}}
	cfg.Server.MaxRequestsBytes = 64 << 20 // or the body would not fit into the memory of requests
	r := start(t, cfg)
	body := strings.NewReader(strings.Repeat("0", 2<<20))
	all := body.Len()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.URL+"/v2.0/actors/default/Counter/a/method/Add", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: time.Hour}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if sent := all - body.Len(); res.StatusCode != http.StatusTooManyRequests || sent > 0 {
		t.Errorf("%s, and %d bytes were sent", res.Status, sent)
	}
}

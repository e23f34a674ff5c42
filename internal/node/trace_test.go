package node_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/engine/wasm/wasmtest"
	"github.com/greenroom-run/greenroom/internal/node"
)

const traceID = "0af7651916cd43dd8448eb211c80319c"

// inTrace calls an actor in a trace, over plain HTTP.
func (r *running) inTrace(t *testing.T, app, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/v2.0/actors/"+app+"/T/"+id+"/method/Do", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
	req.Header.Set("Tracestate", "a=1")
	conn := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := conn.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

// TestTraceGoesOut: the HTTP requests of a guest belong to the trace of the call, each with
// a span of its own; those of calls without a trace have none.
func TestTraceGoesOut(t *testing.T) {
	r := start(t, node.Config{})
	var parents, states []string
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		parents, states = append(parents, req.Header.Get("Traceparent")), append(states, req.Header.Get("Tracestate"))
	}))
	defer target.Close()
	r.deploy(t, "shop", sender(abi.HTTPRequest{Method: "POST", URL: target.URL}, `{"http":["http://127.0.0.1:*"]}`))
	grant := &greenroomv1.GrantHTTPRequest{App: "shop", Host: "http://127.0.0.1:*", Private: true}
	if _, err := r.settings.GrantHTTP(t.Context(), connect.NewRequest(grant)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.inTrace(t, "shop", "x")
	}
	if len(parents) != 2 || parents[0] == parents[1] || states[0] != "a=1" {
		t.Fatalf("sent %q, %q", parents, states)
	}
	for _, p := range parents {
		if !strings.HasPrefix(p, "00-"+traceID+"-") || !strings.HasSuffix(p, "-01") || strings.Contains(p, "b7ad6b7169203331") {
			t.Errorf("sent %s", p)
		}
	}
	if _, err := r.call(t.Context(), "shop", "T", "x", "Do", ""); err != nil {
		t.Fatal(err)
	}
	if len(parents) != 3 || parents[2] != "" {
		t.Errorf("of no trace: sent %q", parents)
	}
}

// TestTraceInGuestLogs: what a guest logs, and how its turn fails, names the trace of the
// call, in the server's log and where guests' logs are followed.
func TestTraceInGuestLogs(t *testing.T) {
	var log syncBuffer
	r := start(t, node.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r.deploy(t, "", logging(wasmtest.Code(wasmtest.Unreachable, wasmtest.I32Const(0))))
	r.inTrace(t, "default", "x")
	lines := tail(t.Context(), t, r, &greenroomv1.TailRequest{Last: 10}).Msg().Lines
	if len(lines) != 2 || lines[0].TraceId != traceID || lines[1].TraceId != traceID || lines[0].SpanId == "" || lines[0].SpanId != lines[1].SpanId {
		t.Fatalf("logged %v", lines)
	}
	for _, msg := range []string{"guest log", "turn failed"} {
		found := false
		for line := range strings.Lines(log.String()) {
			found = found || strings.Contains(line, `msg="`+msg+`"`) && strings.Contains(line, " trace_id="+traceID+" span_id="+lines[0].SpanId)
		}
		if !found {
			t.Errorf("no %q with its trace in the log:\n%s", msg, log.String())
		}
	}
}

package server

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	spanID   = "b7ad6b7169203331"
	asParent = "00-" + traceID + "-" + spanID + "-01"
)

// TestTraceContext: a call belongs to the trace that its caller names, whatever the
// protocol, with a span of the server's own; what is malformed is passed over.
func TestTraceContext(t *testing.T) {
	f := start(t, nil)
	h, url := f.host, f.url
	add := func(header http.Header) {
		header.Set("traceparent", asParent)
		header.Set("tracestate", "a=1")
	}
	request := func() *connect.Request[greenroomv1.InvokeRequest] {
		req := connect.NewRequest(&greenroomv1.InvokeRequest{Actor: &greenroomv1.ActorKey{Type: "Counter", Id: "a"}, Method: "Add"})
		add(req.Header())
		return req
	}
	calls := map[string]func(t *testing.T){
		"plain HTTP": func(t *testing.T) {
			do(t, client(t, false), http.MethodPost, url+"/v2.0/actors/default/Counter/a/method/Add", "", "traceparent", asParent, "tracestate", "a=1")
		},
		"InvokeStream, in the frame": func(t *testing.T) {
			st := open(t.Context(), t, url)
			inv := invocation(1, "a")
			inv.Traceparent, inv.Tracestate = asParent, "a=1"
			st.send(inv)
			st.receive(1)
		},
		"InvokeStream, of the stream": func(t *testing.T) {
			st := testStream{greenroomv1connect.NewActorServiceClient(client(t, true), url).InvokeStream(t.Context()), t}
			add(st.RequestHeader())
			defer func() { _ = st.CloseRequest(); _ = st.CloseResponse() }()
			st.send(invocation(1, "a"))
			st.receive(1)
		},
	}
	for name, opts := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		calls[name] = func(t *testing.T) {
			if _, err := greenroomv1connect.NewActorServiceClient(client(t, true), url, opts...).Invoke(t.Context(), request()); err != nil {
				t.Error(err)
			}
		}
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			call(t)
			inv, _ := h.last()
			got, state := inv.Trace.Headers()
			if !strings.HasPrefix(got, "00-"+traceID+"-") || !strings.HasSuffix(got, "-01") || strings.Contains(got, spanID) || state != "a=1" {
				t.Errorf("the host got %q, %q", got, state)
			}
		})
	}
	t.Run("none, or malformed", func(t *testing.T) {
		for _, headers := range [][]string{nil, {"traceparent", "nonsense"}, {"tracestate", "a=1"}} {
			do(t, client(t, false), http.MethodPost, url+"/v2.0/actors/default/Counter/a/method/Add", "", headers...)
			if inv, ok := h.last(); !ok || inv.Trace != nil {
				t.Errorf("with %q the host got %+v", headers, inv)
			}
		}
		twice := request()
		twice.Header().Add("traceparent", asParent)
		if _, err := greenroomv1connect.NewActorServiceClient(client(t, true), url).Invoke(t.Context(), twice); err != nil {
			t.Error(err)
		}
		if inv, ok := h.last(); !ok || inv.Trace != nil {
			t.Errorf("with two the host got %+v", inv)
		}
	})
}

// TestTraceInLogs: what the server logs of a request names its trace.
func TestTraceInLogs(t *testing.T) {
	f := start(t, nil)
	h, url, log := f.host, f.url, f.log
	h.fails(edge.ErrPanicked) // internal: the log has it
	do(t, client(t, false), http.MethodPost, url+"/v2.0/actors/default/Counter/a/method/Add", "", "traceparent", asParent)
	inv, _ := h.last()
	st := open(t.Context(), t, url)
	streamed := invocation(1, "a")
	streamed.Traceparent = asParent
	st.send(streamed)
	st.receive(1)
	other, _ := h.last()
	for _, want := range []struct {
		line string
		tr   *actor.Trace
	}{{"request served", inv.Trace}, {"request failed", inv.Trace}, {"request failed", other.Trace}} {
		found := false
		for line := range strings.Lines(log.String()) {
			found = found || strings.Contains(line, `msg="`+want.line+`"`) &&
				strings.Contains(line, " trace_id="+traceID+" span_id="+want.tr.SpanID().String()+" parent_span_id="+spanID)
		}
		if !found {
			t.Errorf("no %q with the trace %v in the log:\n%s", want.line, want.tr, log.String())
		}
	}
}

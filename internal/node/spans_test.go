package node_test

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/abi"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/server/spans"
)

// spanCollector is a collector of OTLP over HTTP.
type spanCollector struct {
	mu    sync.Mutex
	spans []*otlp.Span
}

func (c *spanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in otlp.TracesData
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &in)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// childrenOf returns the spans below a parent by name, in hex.
func (c *spanCollector) childrenOf(parent string) map[string]*otlp.Span {
	list := map[string]*otlp.Span{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.ParentSpanId) == parent {
			list[s.Name] = s
		}
	}
	return list
}

// TestSpansAreExported: a server exports the spans of a call, of its turn and of the turn's parts
// to a collector, as children of the caller's span; those of a guest's request under the ID that
// the request has named; and those of calls that came without a trace.
func TestSpansAreExported(t *testing.T) {
	var got spanCollector
	to := httptest.NewServer(&got)
	defer to.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	recorder, err := spans.FromEnvironment(t.Context(), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cfg := node.Config{}
	cfg.Server.Spans = recorder
	r := start(t, cfg)

	var asked string
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { asked = req.Header.Get("Traceparent") }))
	defer target.Close()
	r.deploy(t, "shop", sender(abi.HTTPRequest{Method: "POST", URL: target.URL}, `{"http":["http://127.0.0.1:*"]}`))
	grant := &greenroomv1.GrantHTTPRequest{App: "shop", Host: "http://127.0.0.1:*", Private: true}
	if _, err := r.settings.GrantHTTP(t.Context(), connect.NewRequest(grant)); err != nil {
		t.Fatal(err)
	}
	r.inTrace(t, "shop", "x")
	r.deploy(t, "", example(t, "counter", guestbuild.Go))
	r.mustCall(t, "", "Counter", "a", "Add", `{"amount": 1}`, `{"count":1}`)
	if err := recorder.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}

	calls := got.childrenOf("b7ad6b7169203331")
	if len(calls) != 1 {
		t.Fatalf("below the caller's span: %v", calls)
	}
	for _, call := range calls {
		if call.Kind != otlp.Span_SPAN_KIND_SERVER || hex.EncodeToString(call.TraceId) != traceID {
			t.Errorf("the call is %v", call)
		}
		below := got.childrenOf(hex.EncodeToString(call.SpanId))
		turn, request := below["T.Do"], below["HTTP request"]
		if len(below) != 2 || turn == nil || request == nil {
			t.Fatalf("below the call: %v", below)
		}
		if !strings.Contains(asked, hex.EncodeToString(request.SpanId)) {
			t.Errorf("the guest's request named the span %s, recorded is %x", asked, request.SpanId)
		}
		if turn.StartTimeUnixNano < call.StartTimeUnixNano || turn.EndTimeUnixNano > call.EndTimeUnixNano {
			t.Errorf("the turn %v is not within the call %v", turn, call)
		}
		if parts := got.childrenOf(hex.EncodeToString(turn.SpanId)); parts["load"] == nil || parts["guest"] == nil {
			t.Errorf("below the turn: %v", parts)
		}
	}
	add := slices.IndexFunc(got.spans, func(s *otlp.Span) bool { return s.Name == "Counter.Add" })
	if add < 0 {
		t.Fatal("no span of a call that came without a trace")
	}
	if parts := got.childrenOf(hex.EncodeToString(got.spans[add].SpanId)); parts["commit"] == nil {
		t.Errorf("below the turn that commits: %v", parts)
	}
	if root := got.childrenOf(""); len(root) == 0 {
		t.Error("its trace has no beginning")
	}
}

// recordedSpans are the spans that a recorder has exported.
type recordedSpans struct {
	mu    sync.Mutex
	spans []sdk.ReadOnlySpan
	added chan struct{} // closed when there is another one
}

// ExportSpans implements [sdk.SpanExporter].
func (r *recordedSpans) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, spans...)
	close(r.added)
	r.added = make(chan struct{})
	return nil
}

// Shutdown implements [sdk.SpanExporter].
func (*recordedSpans) Shutdown(context.Context) error { return nil }

func (r *recordedSpans) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = nil
}

// await waits for the span that is meant.
func (r *recordedSpans) await(t *testing.T, what string, which func(sdk.ReadOnlySpan) bool) sdk.ReadOnlySpan {
	t.Helper()
	for {
		r.mu.Lock()
		added, n := r.added, slices.IndexFunc(r.spans, which)
		if n >= 0 {
			defer r.mu.Unlock()
			return r.spans[n]
		}
		r.mu.Unlock()
		select {
		case <-added:
		case <-t.Context().Done():
			t.Fatalf("no span %s", what)
		}
	}
}

// TestFiringsAreLinked: what a sampled turn or caller has set, sent or published begins a trace of its
// own, whose first span has a link to the span of that call; what comes from a call that is not sampled
// has none.
func TestFiringsAreLinked(t *testing.T) {
	withStores(t, func(t *testing.T, cfg node.Config) {
		got := &recordedSpans{added: make(chan struct{})}
		cfg.Server.Spans = spans.New(sdk.ParentBased(sdk.AlwaysSample()), sdk.WithSyncer(got))
		r := start(t, cfg)
		for _, guest := range []string{"alarm", "post", "paper"} {
			r.deploy(t, "", build(t, filepath.Join("testdata", guest), guestbuild.Go))
		}
		r.mustCall(t, "", "Reader", "r", "Subscribe", `{"paper":"p"}`, "")

		calls := 0
		post := func(path, flags, body string) (parent trace.SpanID) {
			t.Helper()
			calls++
			parent[7] = byte(calls)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/v2.0/actors/default/"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Traceparent", "00-"+traceID+"-"+parent.String()+"-"+flags)
			conn := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			res, err := conn.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if text, _ := io.ReadAll(res.Body); res.StatusCode >= http.StatusBadRequest {
				t.Fatalf("%s: %s %s", path, res.Status, text)
			}
			return parent
		}
		for _, tt := range []struct{ path, body, firing string }{
			{"Alarm/a/method/Do", `{"set":[{"name":"n","method":"Ring"}]}`, "reminder Alarm.Ring"},
			{"Alarm/b/reminders/n", `{"method":"Ring"}`, "reminder Alarm.Ring"},
			{"Relay/any/method/Pass", `{"to":[{"Type":"Post","ID":"b"}]}`, "message Post.Take"},
			{"Post/c/send/Take", `1`, "message Post.Take"},
			{"Relay/any/method/Tell", `{"to":[{"Type":"Post","ID":"d"}]}`, "message Post.Take"},
			{"Paper/p/method/Publish", `1`, "event Reader.Issue"},
		} {
			for _, flags := range []string{"01", "00"} {
				got.reset()
				parent := post(tt.path, flags, tt.body)
				firing := got.await(t, tt.firing, func(s sdk.ReadOnlySpan) bool { return s.Name() == tt.firing })
				if firing.Parent().IsValid() || firing.SpanContext().TraceID().String() == traceID {
					t.Errorf("%s: the firing is in the trace of the call", tt.path)
				}
				if flags == "00" {
					if len(firing.Links()) != 0 {
						t.Errorf("%s: of a call that is not sampled the firing has the links %v", tt.path, firing.Links())
					}
					continue
				}
				call := got.await(t, "of the call", func(s sdk.ReadOnlySpan) bool { return s.Parent().SpanID() == parent })
				if l := firing.Links(); len(l) != 1 || l[0].SpanContext.TraceID() != call.SpanContext().TraceID() || l[0].SpanContext.SpanID() != call.SpanContext().SpanID() {
					t.Errorf("%s: the firing has the links %v; want one to %v", tt.path, l, call.SpanContext())
				}
			}
		}
	})
}

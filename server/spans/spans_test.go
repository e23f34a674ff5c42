package spans

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/call"
)

const sampled, unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

func record(sampler sdk.Sampler) (*Recorder, *tracetest.InMemoryExporter) {
	to := tracetest.NewInMemoryExporter()
	return New(sampler, sdk.WithSyncer(to)), to
}

// TestWhatIsSampled: a trace that arrives is sampled as its caller has it, or as the sampler says,
// and its span is a child with an ID of its own.
func TestWhatIsSampled(t *testing.T) {
	parentBased := sdk.ParentBased(sdk.NeverSample())
	for _, tt := range []struct {
		name    string
		sampler sdk.Sampler
		parent  string
		want    bool
	}{
		{"its caller's, sampled", parentBased, sampled, true},
		{"its caller's, not sampled", sdk.ParentBased(sdk.AlwaysSample()), unsampled, false},
		{"against its caller", sdk.NeverSample(), sampled, false},
		{"beyond its caller", sdk.AlwaysSample(), unsampled, true},
		{"of no caller", sdk.ParentBased(sdk.AlwaysSample()), "", true},
		{"of no caller, not sampled", parentBased, "", false},
	} {
		r, _ := record(tt.sampler)
		parent := actor.ParseTrace(tt.parent)
		got := r.Arrived(parent)
		if got.IsSampled() != tt.want || parent != nil && (got.Parent() != parent.SpanID() || got.SpanID() == parent.SpanID() || got.TraceID() != parent.TraceID()) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if parent == nil && !tt.want && got != nil {
			t.Errorf("%s: a trace that nobody records: %+v", tt.name, got)
		}
		for _, begun := range []*actor.Trace{got, r.Begin()} {
			if parent == nil && begun != nil && begun.TraceFlags()&trace.FlagsRandom == 0 {
				t.Errorf("%s: samplers further on do not learn that the ID is random: %v", tt.name, begun.TraceFlags())
			}
		}
	}
	if r := (*Recorder)(nil); r.Arrived(nil) != nil || !r.Arrived(actor.ParseTrace(sampled)).IsSampled() || r.Begin().IsSampled() || r.Stop(t.Context()) != nil {
		t.Error("a nil Recorder does not pass traces on as they are")
	}
}

// TestUnsampledCallsAllocateNothing: a call that names no trace and is not sampled costs a decision, and
// no memory.
func TestUnsampledCallsAllocateNothing(t *testing.T) {
	for name, sampler := range map[string]sdk.Sampler{
		"always_off": sdk.NeverSample(), "traceidratio": sdk.TraceIDRatioBased(1e-18), "parentbased": sdk.ParentBased(sdk.NeverSample()),
	} {
		r, _ := record(sampler)
		turn := r.Observer().TurnEnd
		if n := testing.AllocsPerRun(100, func() { turn(host.TurnEnd{Trace: r.Arrived(nil)}) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkUnsampledCall(b *testing.B) {
	r, _ := record(sdk.ParentBased(sdk.TraceIDRatioBased(1e-18)))
	turn := r.Observer().TurnEnd
	for b.Loop() {
		turn(host.TurnEnd{Trace: r.Arrived(nil)})
	}
}

// BenchmarkSampledCall is a call with its turn and three phases, which are encoded and thrown away.
func BenchmarkSampledCall(b *testing.B) {
	r := New(sdk.AlwaysSample(), sdk.WithBatcher(tracetest.NewNoopExporter()))
	observed := r.Observer().TurnEnd
	now := time.Now()
	phases := []host.Phase{{Name: call.PhaseGuest, From: now, To: now}, {Name: call.PhaseCommit, From: now, To: now}}
	for b.Loop() {
		t := r.Arrived(nil)
		observed(host.TurnEnd{Trace: t, Phases: phases, QueueWait: time.Millisecond})
		r.Record(Span{Trace: t, Began: now, Ended: now})
	}
	if err := r.Stop(b.Context()); err != nil {
		b.Error(err)
	}
}

// TestSpansOfATurn: the span of a call has the ID that its trace had all along, the turn is its
// child, and the phases are those of the turn; what took no time is no span.
func TestSpansOfATurn(t *testing.T) {
	r, to := record(sdk.ParentBased(sdk.AlwaysSample()))
	tr := r.Arrived(actor.ParseTrace(sampled))
	now := time.Now()
	e := host.TurnEnd{
		Key: actor.Key{App: "shop", Type: "Cart", ID: "ann"}, Method: "Add", Trace: tr, Lane: host.LaneWarm, Runs: 1, Fuel: 7,
		Duration: 10 * time.Millisecond, QueueWait: time.Millisecond, Err: errors.New("no"),
		Phases: []host.Phase{
			{Name: call.PhaseLoad, From: now, To: now.Add(time.Microsecond)},
			{Name: call.PhaseGuest, From: now, To: now.Add(time.Microsecond)},
			{Name: call.PhaseCommit, From: now, To: now.Add(time.Millisecond)},
		},
	}
	r.Observer().TurnEnd(e)
	r.Record(Span{Trace: tr, Name: "call", Kind: trace.SpanKindServer, Began: now, Ended: now.Add(time.Second)})
	got := to.GetSpans()
	var names []string
	for _, s := range got {
		names = append(names, s.Name)
		if s.SpanContext.TraceID() != tr.TraceID() {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
	if want := []string{"Cart.Add", "queue", "guest", "commit", "call"}; !slices.Equal(names, want) {
		t.Fatalf("recorded %q, want %q", names, want)
	}
	turn, served := got[0], got[4]
	if served.SpanContext.SpanID() != tr.SpanID() || served.Parent.SpanID() != tr.Parent() || !served.EndTime.Equal(now.Add(time.Second)) || served.SpanKind != trace.SpanKindServer {
		t.Errorf("the call: %+v", served)
	}
	if turn.Parent.SpanID() != tr.SpanID() || turn.Status.Description != "no" || turn.EndTime.Sub(turn.StartTime) != e.Duration {
		t.Errorf("the turn: %+v", turn)
	}
	for _, s := range got[1:4] {
		if s.Parent.SpanID() != turn.SpanContext.SpanID() {
			t.Errorf("%s is not of the turn", s.Name)
		}
	}
	to.Reset()
	e.Trace, e.Depth = tr.Child(), 1
	r.Observer().TurnEnd(e)
	r.Record(Span{Trace: r.Begin(), Name: "firing", Link: tr.Link()})
	got = to.GetSpans()
	if called := got[0]; called.SpanContext.SpanID() != e.Trace.SpanID() || called.Parent.SpanID() != tr.SpanID() {
		t.Errorf("a called turn is not the span of its trace, below its caller's: %+v", called)
	}
	for _, s := range got[1:4] {
		if s.Parent.SpanID() != e.Trace.SpanID() || s.SpanContext.SpanID() == e.Trace.SpanID() || len(s.Links) != 0 {
			t.Errorf("%s is not of the called turn", s.Name)
		}
	}
	if l := got[4].Links; len(l) != 1 || l[0].SpanContext.SpanID() != tr.SpanID() || l[0].SpanContext.TraceID() != tr.TraceID() {
		t.Errorf("the links of a firing are %v", l)
	}
	to.Reset()
	e.Trace = nil
	r.Observer().TurnEnd(e)
	r.Observer().Egress(host.EgressEnd{})
	r.Record(Span{})
	if got := to.GetSpans(); len(got) != 0 {
		t.Errorf("of no trace: %v", got)
	}
}

// TestSpansOfTells: the delivery of a volatile message is the span of its trace, with the message's link,
// and says why it failed.
func TestSpansOfTells(t *testing.T) {
	r, to := record(sdk.ParentBased(sdk.AlwaysSample()))
	link := actor.ParseTrace(sampled).Link()
	m := host.Told{To: actor.Key{App: "shop", Type: "Cart", ID: "ann"}, Method: "Add", Trace: r.Begin(), Link: link, Began: time.Now()}
	for _, m.Err = range []error{nil, errors.New("no")} {
		to.Reset()
		r.Observer().Told(m)
		got := to.GetSpans()
		if len(got) != 1 {
			t.Fatalf("%d spans", len(got))
		}
		s := got[0]
		if s.Name != "message Cart.Add" || s.SpanKind != trace.SpanKindConsumer || s.SpanContext.SpanID() != m.Trace.SpanID() || !s.StartTime.Equal(m.Began) || s.EndTime.Before(m.Began) {
			t.Errorf("the delivery: %+v", s)
		}
		if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != link.SpanID || s.Links[0].SpanContext.TraceID() != link.TraceID {
			t.Errorf("the links are %v", s.Links)
		}
		if failed := s.Status.Description == "no"; failed != (m.Err != nil) {
			t.Errorf("after %v the status is %v", m.Err, s.Status)
		}
	}
}

// TestEnvironment: the variables of OpenTelemetry switch export on, and a value that cannot be is
// an error that says what to change.
func TestEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"
	for _, tt := range []struct {
		env string
		on  bool
		err string
	}{
		{"", false, ""},
		{endpoint, true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/v1/traces", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{endpoint + " OTEL_TRACES_EXPORTER=none", false, ""},
		{endpoint + " OTEL_SDK_DISABLED=true", false, ""},
		{endpoint + " OTEL_TRACES_EXPORTER=zipkin", false, "use otlp or none"},
		{endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, "use http/protobuf"},
		{endpoint + " OTEL_TRACES_SAMPLER=often", false, "use always_on"},
		{endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=2", false, "from 0 to 1"},
		{endpoint + " OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.01", true, ""},
	} {
		t.Run(tt.env, func(t *testing.T) {
			for _, v := range strings.Fields(tt.env) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			r, err := FromEnvironment(t.Context(), "v1", slog.New(slog.DiscardHandler))
			if (r != nil) != tt.on || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, %v", r, err)
			}
			_ = r.Stop(t.Context())
		})
	}
}

// TestCollector: a batch goes to the collector with the headers of the environment, is sent again
// while the collector is not ready, and not when it is refused.
func TestCollector(t *testing.T) {
	var asked []*http.Request
	var bodies [][]byte
	status := []int{http.StatusServiceUnavailable, http.StatusOK}
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(z)
		if err != nil {
			t.Error(err)
		}
		asked, bodies = append(asked, r), append(bodies, body)
		w.WriteHeader(status[min(len(asked), len(status))-1])
		_, _ = io.WriteString(w, "why not")
	}))
	defer to.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL+"/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,x=1")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	c, err := newCollector()
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Nanosecond
	batch := []*otlp.ResourceSpans{{SchemaUrl: "s"}}
	if err := c.UploadTraces(t.Context(), batch); err != nil || len(asked) != 2 {
		t.Fatalf("sent %d times, %v", len(asked), err)
	}
	if r := asked[1]; r.URL.Path != "/v1/traces" || r.Header.Get("Api-Key") != "a b" || r.Header.Get("X") != "1" || !bytes.Equal(bodies[0], bodies[1]) {
		t.Errorf("%s with %v", r.URL, r.Header)
	}
	var got otlp.TracesData
	if err := proto.Unmarshal(bodies[1], &got); err != nil || len(got.ResourceSpans) != 1 || got.ResourceSpans[0].SchemaUrl != "s" {
		t.Errorf("the body is %v, %v", &got, err)
	}
	asked, status = nil, []int{http.StatusUnauthorized}
	if err := c.UploadTraces(t.Context(), batch); err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "why not") || len(asked) != 1 {
		t.Errorf("refused: sent %d times, %v", len(asked), err)
	}
	asked, status = nil, []int{http.StatusServiceUnavailable}
	if err := c.UploadTraces(t.Context(), batch); err == nil || len(asked) != exports {
		t.Errorf("never ready: sent %d times, %v", len(asked), err)
	}
	for name, value := range map[string]string{"ENDPOINT": "127.0.0.1:4318", "COMPRESSION": "zstd", "TIMEOUT": "1s"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			if _, err := newCollector(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		})
	}
}

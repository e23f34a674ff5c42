// Package spans records what calls and turns have taken their time for, and exports it as
// OpenTelemetry spans. docs/tracing.md says which there are.
//
// The IDs of spans are those of [actor.Trace], which travel with calls and stand in logs whether
// spans are recorded or not. So a span is not begun and ended: it is recorded when what it is of
// has ended, under the ID that its trace had all along. A call of a trace that is not sampled costs
// one test.
package spans

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/call"
)

// Recorder decides which traces are sampled, and records their spans. A nil *Recorder records
// none. Its methods may be called concurrently, and wait for nothing.
type Recorder struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
	sampler  sdk.Sampler
}

// New returns a Recorder of the traces that sampler takes. opts say where their spans go.
func New(sampler sdk.Sampler, opts ...sdk.TracerProviderOption) *Recorder {
	// What is recorded was sampled.
	p := sdk.NewTracerProvider(append(opts, sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(given{}))...)
	return &Recorder{tracer: p.Tracer("github.com/greenroom-run/greenroom"), provider: p, sampler: sampler}
}

// Stop exports what was recorded.
func (r *Recorder) Stop(ctx context.Context) error {
	if r == nil {
		return nil
	}
	return r.provider.Shutdown(ctx)
}

// Arrived returns the trace of what has arrived from the span of parent, which may be nil: a child,
// or a new trace if it is sampled; nil for none.
func (r *Recorder) Arrived(parent *actor.Trace) *actor.Trace {
	if r == nil {
		return parent.Child()
	}
	if parent == nil { // most calls, and most of them are not sampled: that costs no allocation
		id := newTraceID()
		if !r.samples(context.Background(), id) {
			return nil
		}
		return root(id, trace.FlagsRandom|trace.FlagsSampled)
	}
	child := parent.Child()
	sampled := r.samples(parent.Context(context.Background()), parent.TraceID())
	if sampled != child.IsSampled() {
		return parent.NewSpan(child.WithTraceFlags(child.TraceFlags().WithSampled(sampled)))
	}
	return child
}

// Begin returns a new trace, of what nobody has called for. It may not be sampled.
func (r *Recorder) Begin() *actor.Trace {
	if r == nil {
		return actor.NewTrace()
	}
	id := newTraceID()
	return root(id, trace.FlagsRandom.WithSampled(r.samples(context.Background(), id)))
}

// root returns the first span of a trace.
func root(id trace.TraceID, flags trace.TraceFlags) *actor.Trace {
	return (*actor.Trace)(nil).NewSpan(trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: newSpanID(), TraceFlags: flags}))
}

func (r *Recorder) samples(parent context.Context, id trace.TraceID) bool {
	return r.sampler.ShouldSample(sdk.SamplingParameters{ParentContext: parent, TraceID: id}).Decision == sdk.RecordAndSample
}

// Span is what a Recorder records of a trace.
type Span struct {
	Trace        *actor.Trace // whose span it is
	Name         string
	Kind         trace.SpanKind
	Began, Ended time.Time
	Failed       string // why; empty: it has not
	Link         actor.SpanLink
	Attributes   []attribute.KeyValue
}

// Record records a span, if its trace is sampled.
func (r *Recorder) Record(s Span) {
	if r == nil || !s.Trace.IsSampled() {
		return
	}
	ctx := context.WithValue(context.Background(), givenKey{}, s.Trace)
	if id := s.Trace.Parent(); id.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, s.Trace.WithSpanID(id))
	}
	r.record(ctx, &s)
}

func (r *Recorder) record(parent context.Context, s *Span) context.Context {
	ctx, span := r.tracer.Start(parent, s.Name, trace.WithSpanKind(s.Kind), trace.WithTimestamp(s.Began), trace.WithAttributes(s.Attributes...))
	if to := s.Link.SpanContext(); to.IsValid() {
		span.AddLink(trace.Link{SpanContext: to})
	}
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	span.End(trace.WithTimestamp(s.Ended))
	return ctx
}

// shortest is what a wait or a load takes at least to be a span of its own: a warm turn has none.
const shortest = 20 * time.Microsecond

// Observer returns what a host calls, to record its turns, the requests of its guests and the
// deliveries of volatile messages.
func (r *Recorder) Observer() host.Events {
	if r == nil {
		return host.Events{}
	}
	return host.Events{TurnEnd: r.turn, Egress: r.egress, Told: r.told}
}

// turn records a turn, as a child of the span of its call, and its phases. A called turn
// has no other span than its own, which has the ID of its trace: links and later spans name that ID.
func (r *Recorder) turn(e host.TurnEnd) {
	if !e.Trace.IsSampled() {
		return
	}
	s := Span{Name: e.Key.Type + "." + e.Method, Ended: time.Now()}
	s.Began = s.Ended.Add(-e.Duration)
	s.Attributes = append(ofActor(e.Key),
		attribute.String("greenroom.method", e.Method), attribute.String("greenroom.lane", string(e.Lane)),
		attribute.Int("greenroom.runs", e.Runs), attribute.Int64("greenroom.fuel", int64(min(e.Fuel, 1<<62))))
	if e.Method == "" {
		s.Name = e.Key.Type + " delete"
	}
	if e.Caller.ID != "" {
		s.Attributes = append(s.Attributes, attribute.String("greenroom.caller", e.Caller.Type+"/"+e.Caller.ID), attribute.Int("greenroom.depth", e.Depth))
	}
	if e.Err != nil {
		s.Failed = e.Err.Error()
	}
	ctx := e.Trace.Context(context.Background())
	if e.Depth > 0 {
		s.Trace = e.Trace
		r.Record(s)
	} else {
		ctx = r.record(ctx, &s)
	}
	if e.QueueWait >= shortest {
		r.record(ctx, &Span{Name: "queue", Began: s.Began, Ended: s.Began.Add(e.QueueWait)})
	}
	for _, p := range e.Phases {
		if p.Name != call.PhaseLoad || p.To.Sub(p.From) >= shortest {
			r.record(ctx, &Span{Name: string(p.Name), Began: p.From, Ended: p.To})
		}
	}
}

// told records the delivery of a volatile message.
func (r *Recorder) told(m host.Told) {
	s := Span{Trace: m.Trace, Name: "message " + m.To.Type + "." + m.Method, Kind: trace.SpanKindConsumer, Began: m.Began, Ended: time.Now(), Link: m.Link}
	if m.Err != nil {
		s.Failed = m.Err.Error()
	}
	r.Record(s)
}

// egress records an HTTP request of a guest, which has named its span to whom it called.
func (r *Recorder) egress(e host.EgressEnd) {
	if !e.Trace.IsSampled() {
		return
	}
	s := Span{Trace: e.Trace, Name: "HTTP request", Kind: trace.SpanKindClient, Ended: time.Now(), Attributes: append(ofActor(e.Key), attribute.String("greenroom.outcome", e.Outcome))}
	s.Began = s.Ended.Add(-e.Duration)
	if e.Outcome != "ok" {
		s.Failed = e.Outcome
	}
	r.Record(s)
}

func ofActor(k actor.Key) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("greenroom.app", k.App), attribute.String("greenroom.actor.type", k.Type), attribute.String("greenroom.actor.id", k.ID)}
}

// given is an [sdk.IDGenerator] that gives a span the IDs of the trace in its context, if there is
// one.
type given struct{}

type givenKey struct{}

func (given) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if t, ok := ctx.Value(givenKey{}).(*actor.Trace); ok {
		return t.TraceID(), t.SpanID()
	}
	return newTraceID(), newSpanID()
}

func (given) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if t, ok := ctx.Value(givenKey{}).(*actor.Trace); ok {
		return t.SpanID()
	}
	return newSpanID()
}

func newTraceID() (id trace.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

// newSpanID never returns the zero ID, which is none.
func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

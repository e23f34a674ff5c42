package actor

import (
	"context"
	cryptorand "crypto/rand"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Trace is a W3C trace context: the trace that a call belongs to, and in it the span of
// whoever has the call now. It does not change, and may be shared. A nil *Trace is a call
// of no trace; all methods take one, and cost nothing then.
type Trace struct {
	trace.SpanContext
	// parent is the parent of this span; zero for the first span of a trace.
	parent trace.SpanID
}

// maxTraceState bounds what is kept of a tracestate, in bytes: as much as the standard
// asks for. maxTraceEntry is what an entry may have that is kept where not all are.
const (
	maxTraceState = 512
	maxTraceEntry = 128
)

// ParseTrace reads the values of the headers traceparent and tracestate, the latter in
// as many parts as came. It returns nil for no traceparent, and for one that is not as
// the standard has it; a tracestate that is not is passed over alone.
func ParseTrace(traceparent string, tracestate ...string) *Trace {
	if traceparent == "" {
		return nil
	}
	carrier := traceCarrier{parent: traceparent, state: strings.Join(tracestate, ",")}
	if len(carrier.state) > maxTraceState {
		carrier.state = shortenTraceState(carrier.state)
	}
	sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), &carrier))
	if !sc.IsValid() {
		return nil
	}
	return &Trace{SpanContext: sc}
}

// shortenTraceState drops entries in the order that the standard gives: long ones, and
// then the last ones.
func shortenTraceState(state string) string {
	var kept []string
	size := 0
	for entry := range strings.SplitSeq(state, ",") {
		if len(entry) > maxTraceEntry {
			continue
		}
		if size += len(entry) + 1; size > maxTraceState+1 {
			break
		}
		kept = append(kept, entry)
	}
	return strings.Join(kept, ",")
}

// NewTrace begins a trace, of what nobody called for. It is not marked as sampled: who
// records spans decides that.
func NewTrace() *Trace {
	var id trace.TraceID
	cryptorand.Read(id[:]) // never fails: see crypto/rand
	return &Trace{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: newSpanID(), TraceFlags: trace.FlagsRandom})}
}

// IsSampled reports whether spans of the trace are recorded; false for nil.
func (t *Trace) IsSampled() bool { return t != nil && t.SpanContext.IsSampled() }

// Link returns the link to the span of t; zero if t is not sampled: then no span is recorded.
func (t *Trace) Link() SpanLink {
	if !t.IsSampled() {
		return SpanLink{}
	}
	return SpanLink{t.TraceID(), t.SpanID()}
}

// Parent returns the ID of the span that t's is a child of; zero for the first span of a trace, and
// where that is not known.
func (t *Trace) Parent() trace.SpanID { return t.parent }

// NewSpan returns the trace of a tracer's span whose parent is t; t may be nil.
func (t *Trace) NewSpan(sc trace.SpanContext) *Trace {
	span := &Trace{SpanContext: sc}
	if t != nil {
		span.parent = t.SpanID()
	}
	return span
}

// Child returns the trace of a child of t, with a span ID of its own; nil if t is
// nil.
func (t *Trace) Child() *Trace {
	if t == nil {
		return nil
	}
	return t.NewSpan(t.WithSpanID(newSpanID()).WithRemote(false))
}

// newSpanID never returns the zero ID, which is none.
func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		cryptorand.Read(id[:]) // never fails: see crypto/rand
	}
	return id
}

// Headers returns the values of the headers traceparent and tracestate that carry t on,
// empty for none.
func (t *Trace) Headers() (traceparent, tracestate string) {
	if t == nil {
		return "", ""
	}
	var carrier traceCarrier
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), t.SpanContext), &carrier)
	return carrier.parent, carrier.state
}

// Context returns a context in which t is the current span; ctx for nil.
func (t *Trace) Context(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, t.SpanContext)
}

// TraceOf returns the trace of the current span of a context; nil for none.
func TraceOf(ctx context.Context) *Trace {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		return &Trace{SpanContext: sc}
	}
	return nil
}

// IDs returns the IDs of the trace and the span in hex; empty for nil.
func (t *Trace) IDs() (traceID, spanID string) {
	if t == nil {
		return "", ""
	}
	return t.TraceID().String(), t.SpanID().String()
}

// AppendLog appends what a line of a log says of t: trace_id, span_id, and parent_span_id
// where that is known.
func (t *Trace) AppendLog(attrs []slog.Attr) []slog.Attr {
	if t == nil {
		return attrs
	}
	traceID, spanID := t.IDs()
	attrs = append(attrs, slog.String("trace_id", traceID), slog.String("span_id", spanID))
	if t.parent.IsValid() {
		attrs = append(attrs, slog.String("parent_span_id", t.parent.String()))
	}
	return attrs
}

// traceCarrier is the headers of a trace, one value each.
type traceCarrier struct{ parent, state string }

// Get implements [propagation.TextMapCarrier].
func (c *traceCarrier) Get(key string) string {
	if key == "traceparent" {
		return c.parent
	}
	return c.state
}

func (c *traceCarrier) Set(key, value string) {
	if key == "traceparent" {
		c.parent = value
		return
	}
	c.state = value
}

func (*traceCarrier) Keys() []string { return []string{"traceparent", "tracestate"} }

package actor

import (
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// SpanLink names the span of the call that set a reminder, sent a message or published an event, for the
// trace of what the call caused. The zero value names none.
type SpanLink struct {
	TraceID trace.TraceID
	SpanID  trace.SpanID
}

// SpanContext returns the context of the span, which was sampled; an invalid one for none.
func (l SpanLink) SpanContext() trace.SpanContext {
	if l == (SpanLink{}) {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: l.TraceID, SpanID: l.SpanID, TraceFlags: trace.FlagsSampled, Remote: true})
}

// String returns the two IDs in hex, as stores keep them; empty for none.
func (l SpanLink) String() string {
	if l == (SpanLink{}) {
		return ""
	}
	return l.TraceID.String() + "-" + l.SpanID.String()
}

// MarshalText implements [encoding.TextMarshaler].
func (l SpanLink) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// ParseSpanLink reads what String returns. Anything else is no link: nothing fails because of its
// trace.
func ParseSpanLink(text string) SpanLink {
	traceText, spanText, _ := strings.Cut(text, "-")
	traceID, err := trace.TraceIDFromHex(traceText)
	if err != nil {
		return SpanLink{}
	}
	spanID, err := trace.SpanIDFromHex(spanText)
	if err != nil {
		return SpanLink{}
	}
	return SpanLink{traceID, spanID}
}

// UnmarshalText implements [encoding.TextUnmarshaler], as ParseSpanLink.
func (l *SpanLink) UnmarshalText(text []byte) error {
	*l = ParseSpanLink(string(text))
	return nil
}

package actor

import (
	"context"
	"fmt"
	"time"
)

// Timeout is how long a caller has given a call, and by which header or field.
type Timeout struct {
	After time.Duration
	By    string
}

// TimeoutKey is the key of a call's [Timeout] in its context.
type TimeoutKey struct{}

// Context returns a context that says t. It does not end by itself.
func (t Timeout) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, TimeoutKey{}, t)
}

// CallersDeadline returns the error of a call that the deadline of its caller has ended:
// [ErrDeadline] with what ctx says of it.
func CallersDeadline(ctx context.Context) error {
	const remedy = "; give the call a longer timeout"
	if t, ok := ctx.Value(TimeoutKey{}).(Timeout); ok {
		return &ReasonError{ErrDeadline, fmt.Sprintf("its caller set %v, by %s%s", t.After, t.By, remedy)}
	}
	return &ReasonError{ErrDeadline, "its caller set it" + remedy}
}

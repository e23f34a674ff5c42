package actor

import (
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// Timer is a volatile call of a method of the actor itself, after a while or again and
// again: cheap, and kept in the memory of the actor's host alone. It is lost when the
// actor leaves memory, moves to another host or is deleted, and when the host ends; it
// does not keep its actor in memory, and its turns are no use of it. What must happen is
// for a [Reminder].
//
// A firing is a turn like another, one at a time with the actor's calls; see
// [Context.Cause]. One whose turn fails is not repeated; the next period fires all the
// same.
type Timer struct {
	// Name is 1 to 256 bytes without control characters. One timer of an actor has it:
	// setting it again replaces what there was.
	Name string
	// Method is what a firing runs, under the name that it is registered with. It must
	// not be read-only.
	Method string
	// In is the method's input: a [Payload] or []byte as it is, anything else as JSON,
	// nil for none. At most 65536 bytes.
	In any
	// After is when it fires first, from the end of the turn that sets it. 0: then, or
	// after one period.
	After time.Duration
	// Every is how long after the end of its last turn it fires again, at least a
	// millisecond; 0: it fires once.
	Every time.Duration
}

// ErrInvalidTimer is a timer that cannot be; its message says what to change. Compare
// with [errors.Is].
var ErrInvalidTimer = NewError(StatusInvalidArgument, "invalid_timer", "the timer cannot be")

// SetTimer sets a timer of the actor whose turn this is, in the place of one of the same
// name. It is part of the turn: when the turn fails, it was not set. An actor has at most
// 100 timers, with 262144 bytes together: [ErrTooMany], [ErrTooLarge]. What it refuses
// else is [ErrInvalidTimer].
//
//	actor.SetTimer(ctx, actor.Timer{Name: "flush", Method: "Flush", After: time.Second})
func SetTimer(ctx *Context, t Timer) error {
	in := ctx.live()
	f := abi.Reminder{Name: t.Name, Method: t.Method, DelayNano: int64(t.After), PeriodNano: int64(t.Every)}
	var err error
	if f.ContentType, f.Payload, err = in.values.input(t.In); err != nil {
		return fmt.Errorf("set timer %q: %w", t.Name, err)
	}
	_, err = timerResult(ctx, "set", t.Name, timerSet(ctx, abi.AppendReminder(nil, &f)))
	return err
}

// CancelTimer ends a timer of the actor, as part of the turn, and reports whether there
// was one. One that waits for its turn already does not fire any more.
func CancelTimer(ctx *Context, name string) (existed bool, err error) {
	return timerResult(ctx, "cancel", name, timerCancel(ctx, name))
}

// timerResult is what a function of timers has answered.
func timerResult(ctx *Context, op, name string, result int32) (bool, error) {
	if result >= 0 {
		return result == 1, nil
	}
	err := codeError(abi.Code(result))
	switch abi.Code(result) {
	case abi.CodeInvalid:
		err = ErrInvalidTimer.Messagef("%s", or(problem(ctx), ErrInvalidTimer.Message))
	case abi.CodeTooMany:
		err = ErrTooMany.Messagef("%s", or(problem(ctx), ErrTooMany.Message))
	case abi.CodeTooLarge:
		err = ErrTooLarge.Messagef("%s", or(problem(ctx), ErrTooLarge.Message))
	case abi.CodeNotReady:
		err = notReady(ctx)
	}
	return false, fault(op, "timer", name, err)
}

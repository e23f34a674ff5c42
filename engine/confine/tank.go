package confine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/meter"
)

const (
	// chunk is the fuel that a guest gets at a time, about a tenth of a millisecond's
	// work: what a guest may run beyond its deadline, and keep Go's scheduler and garbage
	// collector waiting. While guests run on all processors, each step of everything else
	// that the server does, and a request has some ten, waits for a part of it.
	chunk = 100_000
	// MaxDepth bounds a guest's calls in each other. It is enough for a
	// recursive walk over any document a turn could be given, and some
	// megabytes of native stack.
	MaxDepth = 10_000
)

// Tank is the fuel of one run of a guest, and its time. One goroutine uses it.
type Tank struct {
	ctx      context.Context
	halted   *atomic.Bool
	deadline time.Time // zero: none
	limit    uint64    // 0: none
	granted  uint64
	used     uint64 // at the last refill, or when the guest was stopped
	charged  uint64 // for what the host did since
	unseen   uint64 // charged since the time was looked at
	yielded  uint64 // used when others were last let in
	stopped  bool
}

// Fill begins a run, of at most so much fuel unless limit is 0, and returns its
// first grant. Once halted is true, where it is not nil, the run ends with
// [actor.ErrStopping].
func (t *Tank) Fill(ctx context.Context, limit uint64, halted *atomic.Bool) uint64 {
	*t = Tank{ctx: ctx, halted: halted, limit: limit}
	t.deadline, _ = ctx.Deadline()
	return t.first()
}

func (t *Tank) first() uint64 {
	t.granted, t.yielded = chunk, 0
	if t.limit > 0 {
		t.granted = min(chunk, t.limit)
	}
	return t.granted
}

// Lower bounds the run by so much fuel, counted from its begin, unless limit is 0 or above the bound that
// it has. A guest that has used more ends at its next refill.
func (t *Tank) Lower(limit uint64) {
	if limit > 0 && (t.limit == 0 || limit < t.limit) {
		t.limit = limit
	}
}

// Empty takes the first grant back, for a guest whose fuel is zero at first.
func (t *Tank) Empty() { t.granted = 0 }

// Begin is the first grant of a guest that asks for it itself. What an earlier
// run left over is gone: the same turn uses the same fuel, whatever ran before.
func (t *Tank) Begin() int64 {
	t.Check()
	return int64(t.first())
}

// End says what is left of the fuel at the end of a run that began with Begin.
// Like Refill it ends the guest by a panic if it has used too much.
func (t *Tank) End(remaining int64) { t.use(remaining) }

// Used is what was used at the last refill or the end.
func (t *Tank) Used() uint64 { return t.used }

// Spent is what was used when left is what the guest has.
func (t *Tank) Spent(remaining int64) uint64 {
	if t.stopped {
		return t.used
	}
	return uint64(int64(t.granted) - remaining)
}

// Stop is thrown through a guest to end it.
type Stop struct{ Err error }

func (s *Stop) Error() string { return s.Err.Error() }

func (s *Stop) Unwrap() error { return s.Err }

// Refill is what a metered guest calls when its fuel is below zero: it returns
// the new fuel, or ends the guest by a panic with a [*Stop]. Going through Go lets
// the scheduler and the garbage collector in; [engine.Yield] gives way to the turns that
// wait.
func (t *Tank) Refill(remaining int64) int64 {
	if remaining == meter.DepthExceeded {
		panic(&Stop{&actor.TrapError{Kind: actor.TrapStack, Message: fmt.Sprintf("call stack exhausted: the guest's calls are more than %d deep", MaxDepth)}})
	}
	remaining = t.use(remaining)
	t.yield()
	t.Check()
	grant := uint64(-remaining) + chunk
	if t.limit > 0 {
		grant = min(grant, t.limit-min(t.limit, t.granted)) // Lower may have come between
	}
	t.granted += grant
	return remaining + int64(grant)
}

// use brings what was used up to date and returns what is left of it.
func (t *Tank) use(remaining int64) int64 {
	remaining -= int64(t.charged)
	t.charged = 0
	t.used = uint64(int64(t.granted) - remaining)
	t.bound(t.used)
	return remaining
}

// bound ends the guest if so much is too much.
func (t *Tank) bound(used uint64) {
	if t.limit > 0 && used > t.limit {
		t.used = used
		t.stop(&actor.FuelError{Used: used, Limit: t.limit})
	}
}

// Charge charges for work of the host where the guest's own fuel cannot be reached:
// it is paid at the next refill or the end. Like Refill it ends the guest if its
// fuel or time is over, and lets others in, for each grant's worth of such work.
func (t *Tank) Charge(n uint64) {
	t.charged += n
	t.bound(t.used + t.charged)
	if t.unseen += n; t.unseen >= chunk {
		t.yield()
		t.Check()
	}
}

// yield lets others in.
func (t *Tank) yield() {
	used := t.used + t.charged
	engine.Yield(t.ctx, used-t.yielded)
	t.yielded = used
}

// Check ends the guest as Refill does if its time is over.
func (t *Tank) Check() {
	t.unseen = 0
	if err := t.over(); err != nil {
		t.used += t.charged
		t.stop(err)
	}
}

// over says why the guest's time is over, nil if it is not. The clock is asked
// besides the context, whose timer waits for a processor when all of them are busy.
func (t *Tank) over() error {
	switch {
	case t.halted != nil && t.halted.Load():
		return actor.ErrStopping
	case t.ctx.Err() != nil:
		return Ended(t.ctx)
	case !t.deadline.IsZero() && time.Until(t.deadline) <= 0:
		return actor.ErrDeadline
	}
	return nil
}

func (t *Tank) stop(err error) {
	t.stopped = true
	panic(&Stop{err})
}

// Ended says in the words of package actor why ctx has ended.
func Ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return actor.ErrDeadline
	}
	return actor.ErrCanceled
}

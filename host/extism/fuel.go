package extism

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/modules/meter"
)

const (
	// chunk is the fuel that a plug-in gets at a time, less than a millisecond's
	// work: what it may run beyond its deadline.
	chunk = 500_000
	// maxDepth bounds a plug-in's calls in each other, as in host/wasm.
	maxDepth = 10_000
	// fuelBegin is what refill is called with when an export begins. When one
	// ends it is called with the fuel left, which is not below zero then. See
	// [settle].
	fuelBegin = math.MinInt64 + 1
)

// tank is the fuel of one call of an export. What the kernel and the host do for
// a plug-in is not in it; it is bounded by the deadline.
type tank struct {
	ctx      context.Context
	deadline time.Time // zero: none
	limit    uint64    // 0: none
	granted  uint64
	used     uint64 // at the last refill, or at the end
}

// fill prepares a call.
func (t *tank) fill(ctx context.Context, limit uint64) {
	*t = tank{ctx: ctx, limit: limit}
	t.deadline, _ = ctx.Deadline()
}

// stop is thrown through a plug-in to end it.
type stop struct{ err error }

func (s *stop) Error() string { return s.err.Error() }

func (s *stop) Unwrap() error { return s.err }

// refill is what a metered plug-in calls: with fuel below zero when it needs more,
// and at the beginning and the end of an export. It returns the new fuel, or ends
// the plug-in.
func (t *tank) refill(left int64) int64 {
	switch left {
	case meter.DepthExceeded:
		panic(&stop{&actor.TrapError{Kind: actor.TrapStack, Message: fmt.Sprintf("call stack exhausted: the plug-in's calls are more than %d deep", maxDepth)}})
	case fuelBegin:
		// What an earlier call left over is gone: the same turn uses the same
		// fuel, whatever ran before.
		t.granted, left = 0, 0
	default:
		t.used = uint64(int64(t.granted) - left)
		if left >= 0 {
			return left
		}
	}
	if t.limit > 0 && t.used > t.limit {
		panic(&stop{&actor.FuelError{Used: t.used, Limit: t.limit}})
	}
	runtime.Gosched()
	t.check()
	grant := uint64(-left) + chunk
	if t.limit > 0 {
		grant = min(grant, t.limit-t.granted)
	}
	t.granted += grant
	return left + int64(grant)
}

// check ends the plug-in if its time is over. The clock is asked besides the
// context, whose timer waits for a processor when all of them are busy.
func (t *tank) check() {
	switch {
	case t.ctx.Err() != nil:
		panic(&stop{ended(t.ctx)})
	case !t.deadline.IsZero() && !time.Now().Before(t.deadline):
		panic(&stop{actor.ErrDeadline})
	}
}

func refill(c *call, s []uint64) { s[0] = uint64(c.instance.tank.refill(int64(s[0]))) }

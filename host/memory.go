package host

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// budget is an account of bytes with a bound. All methods may be called
// concurrently.
type budget struct {
	max  int64
	used atomic.Int64
}

// add counts n bytes that are there already, or with a negative n are gone.
func (b *budget) add(n int64) {
	if n != 0 {
		b.used.Add(n)
	}
}

// take counts n bytes more, or reports false if they pass the bound.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.max {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) over() bool { return b.used.Load() > b.max }

// callCost is what an admitted call takes beside its payload, with a reply of
// up to freeReply: the call, its caller's goroutine and what the server holds.
const callCost, freeReply = 2 << 10, 512

// callMemory is the account of Config.CallMemory. An eighth of it is common: whoever comes first
// has it, since to count for an app costs more than to count. Apps share the rest.
type callMemory struct {
	*fair.Account
	max    int64
	common budget
}

func newCallMemory(max int64) callMemory {
	common := max / 8
	return callMemory{
		Account: fair.NewAccount(fair.Bounds{Name: "bytes of calls", Total: max - common, Always: max / 64, Most: max}),
		max:     max, common: budget{max: common},
	}
}

// charges are what a call counts for in Config.CallMemory.
type charges struct {
	charged int64 // itself, from its admission to its answer
	loaded  int64 // the states that it loaded for itself alone
}

// charge counts a call that is being admitted, once, if there is memory for it.
// What its own actor refuses is not counted: it would take from others.
func (m *callMemory) charge(c *call) error {
	if c.charged > 0 {
		return nil
	}
	cost := c.cost()
	if c.common = m.common.take(cost); !c.common {
		if err := m.take(c.inv.Key.App, cost); err != nil {
			return err
		}
	}
	c.charged = cost
	return nil
}

// answered gives back what an answered call, or one that was never admitted, counted for.
func (m *callMemory) answered(c *call) {
	if c.common {
		m.common.add(-c.charged)
	} else {
		m.Give(c.inv.Key.App, c.charged)
	}
}

// take counts n bytes for an app, or returns [actor.ErrHostFull].
func (m *callMemory) take(app string, n int64) error { return errCallsFull(m.Take(app, n)) }

// check returns the error of a call of an app that takes n bytes more, and counts nothing.
func (m *callMemory) check(app string, n int64) error {
	if m.common.used.Load()+n <= m.common.max {
		return nil
	}
	return errCallsFull(m.Check(app, n))
}

// checkOver refuses a turn of an app that has more than it can take: replies are there
// before they are counted.
func (m *callMemory) checkOver(app string) error { return errCallsFull(m.Over(app)) }

func errCallsFull(full error) error {
	if full == nil {
		return nil
	}
	return fmt.Errorf("%w: %w; call less at once, or try again later", actor.ErrHostFull, full)
}

// replyCost is what a reply counts for that waits for a commit. Small ones are
// paid for with the call, so that most turns need not touch the account.
func replyCost(r *actor.Reply) int64 { return max(0, int64(len(r.Payload.Data))-freeReply) }

// actorShare is the part of Config.CallMemory that the calls of one actor may
// take: a hot one must leave room for the others. One call always fits.
const actorShare = 8

// activationCost is what an activation takes beside its state.
const activationCost = 2 << 10

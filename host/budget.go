package host

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// budget is an account of bytes with a bound. All methods may be called
// concurrently.
type budget struct {
	max  int64
	used atomic.Int64
}

// take adds n bytes, unless they pass the bound.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.max {
		return true
	}
	b.used.Add(-n)
	return false
}

// add counts n bytes that are there already, or with a negative n are gone.
func (b *budget) add(n int64) {
	if n != 0 {
		b.used.Add(n)
	}
}

func (b *budget) over() bool { return b.used.Load() > b.max }

// callCost is what an admitted call takes beside its payload, with a reply of
// up to freeReply: the call, its caller's goroutine and what the server holds.
const callCost, freeReply = 2 << 10, 512

// cost is what the call counts for in Config.CallMemory and in its actor's share.
func (c *call) cost() int64 { return callCost + int64(len(c.inv.Payload.Data)) }

// charge counts a call that is being admitted, once, if there is memory for it.
// What its own actor refuses is not counted: it would take from others.
func (h *Host) charge(c *call) error {
	if c.charged > 0 {
		return nil
	}
	cost := c.cost()
	if !h.memory.take(cost) {
		return h.errCallMemory()
	}
	c.charged = cost
	return nil
}

// replyCost is what a reply counts for that waits for a commit. Small ones are
// paid for with the call, so that most turns need not touch the account.
func replyCost(r *actor.Reply) int64 { return max(0, int64(len(r.Payload.Data))-freeReply) }

// actorShare is the part of Config.CallMemory that the calls of one actor may
// take: a hot one must leave room for the others. One call always fits.
const actorShare = 8

func (h *Host) errCallMemory() error {
	return fmt.Errorf("%w: calls take all of their %d bytes of memory; call less at once, or try again later", actor.ErrHostFull, h.memory.max)
}

func (h *Host) errStateMemory() error {
	return fmt.Errorf("%w: actors at work take all of their %d bytes of memory; try again later", actor.ErrHostFull, h.table.states.max)
}

// checkMemory says why no turn may begin now, nil if one may: what it would add is
// not known before it has run. States that nobody works on leave memory first.
func (h *Host) checkMemory() error {
	if h.memory.over() {
		return h.errCallMemory()
	}
	if h.table.states.over() && !h.evictToBudget() {
		return h.errStateMemory()
	}
	return nil
}

// evictToBudget evicts idle activations until the states in memory are within their
// bound, and reports whether that was enough.
func (h *Host) evictToBudget() bool {
	for h.table.states.over() {
		victim := h.table.evict()
		if victim == nil {
			return false
		}
		h.deactivated(victim, DeactivatePressure)
	}
	return true
}

// activationCost is what an activation takes beside its state, and freeState how
// much of a state that includes, so that turns of small ones need not touch the
// account.
const activationCost, freeState = 2 << 10, 1 << 10

func (l *loaded) cost() int64 {
	if l == nil || l.damage != nil {
		return 0
	}
	return max(0, int64(l.state.Memory())-freeState)
}

// weight is what the activation counts for in Config.StateMemory: every state
// that it holds, which may be four while it works.
func (a *activation) weight() int64 {
	w := activationCost + int64(len(a.key.ID)) + a.tip.cost()
	if a.loaded != a.tip {
		w += a.loaded.cost()
	}
	if a.shown != nil {
		w += a.shown.cost()
	}
	if f := a.member.Flight(); f != nil && f.Payload.after != a.tip && f.Payload.after != a.loaded {
		w += f.Payload.after.cost()
	}
	return w
}

// weigh brings the account up to date with what the activation holds. The caller
// has the shard's lock; the activation is in the table.
func (t *table) weigh(a *activation) {
	w := a.weight()
	t.states.add(w - a.weighed)
	a.weighed = w
}

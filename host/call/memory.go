package call

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Memory is the account of Config.CallMemory. An eighth of it is common: the calls that come first
// take it, since counting for an app costs more than counting for all. Apps share the rest.
type Memory struct {
	*fair.Account
	Max       int64
	common    atomic.Int64 // bytes of the common part that are taken
	maxCommon int64
}

// NewMemory returns memory for at most max bytes.
func NewMemory(max int64) Memory {
	common := max / 8
	return Memory{
		Account: fair.NewAccount(fair.Bounds{Name: "bytes of calls", Total: max - common, Always: max / 64, Most: max}),
		Max:     max, maxCommon: common,
	}
}

// Charge counts a call that is being admitted, once, if there is memory for it.
// What its own actor refuses is not counted: it would take from others.
func (m *Memory) Charge(c *Call) error {
	if c.Charged > 0 {
		return nil
	}
	cost := c.Cost()
	if c.common = m.common.Add(cost) <= m.maxCommon; !c.common {
		m.common.Add(-cost)
		if err := m.Take(c.Inv.Key.App, cost); err != nil {
			return err
		}
	}
	c.Charged = cost
	return nil
}

// Answered gives back what an answered call, or one that was never admitted, counted for.
func (m *Memory) Answered(c *Call) {
	if c.common {
		m.common.Add(-c.Charged)
	} else {
		m.Give(c.Inv.Key.App, c.Charged)
	}
}

// Total returns how many bytes are taken.
func (m *Memory) Total() int64 { return m.Used() + m.common.Load() }

// Take counts n bytes for an app, or returns [actor.ErrHostFull].
func (m *Memory) Take(app string, n int64) error { return errCallsFull(m.Account.Take(app, n)) }

// Check returns the error that an app's call of n bytes would get now, and counts nothing.
func (m *Memory) Check(app string, n int64) error {
	if m.common.Load()+n <= m.maxCommon {
		return nil
	}
	return errCallsFull(m.Account.Check(app, n))
}

// CheckOver refuses a turn of an app that has more than it can take: replies are there
// before they are counted.
func (m *Memory) CheckOver(app string) error { return errCallsFull(m.Account.Over(app)) }

func errCallsFull(full error) error {
	if full == nil {
		return nil
	}
	return fmt.Errorf("%w: %w; call less at once, or try again later", actor.ErrHostFull, full)
}

// ReplyCost is what a reply counts for that waits for a commit. Small ones are
// paid for with the call, so that most turns need not touch the account.
func ReplyCost(r *actor.Reply) int64 { return max(0, int64(len(r.Payload.Data))-freeReply) }

// ActorShare is the part of Config.CallMemory that the calls of one actor may
// take: a hot one must leave room for the others. One call always fits.
const ActorShare = 8

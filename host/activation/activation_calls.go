package activation

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
)

// Full reports whether no further turn may be folded for now. There is a flight
// then, whose landing sends the pending batch off. The caller has the shard's
// lock.
func (a *Activation) Full() bool {
	p := a.Member.Pending()
	if p == nil {
		return false
	}
	b := p.Payload
	return b.Replies > 0 && b.Replies >= b.Most || b.replyMemory >= maxReplyMemory
}

// Joins looks for an earlier call with the key of c whose commit is not durable
// yet; c is then answered like that one, and when that one is. The caller has
// the shard's lock.
func (a *Activation) Joins(c *call.Call) (r call.Result, ok bool) {
	for _, f := range []*Flight{a.Member.Pending(), a.Member.Flight()} {
		if f == nil {
			continue
		}
		if record := f.Payload.find(c); record != nil {
			return c.Recorded(record), true
		}
	}
	return call.Result{}, false
}

// GiveBackCalls answers all calls that wait at an activation that leaves; none of them
// has an effect. Its hook leaving stays, unless the actor is lost. The caller has the shard's lock.
func (a *Activation) GiveBackCalls(answered *call.Answers) {
	var hook *call.Call
	defer func() {
		if hook != nil {
			a.Calls.Again(&hook.Place, hook)
		}
	}()
	a.AcceptAside()
	for c := a.Calls.Take(); c != nil; c = a.Calls.Take() {
		if c.Op == call.OpLeave && !a.Lost {
			hook = c
			continue
		}
		c.Stats.Lane = c.Lane
		c.Result = call.Result{Err: actor.ErrNotOwner, Stats: c.Stats}
		c.Answer(answered)
	}
}

// SetAside has a call wait for another method set than the tip has. over is called if that takes too
// long. The caller has the shard's lock.
func (a *Activation) SetAside(c *call.Call, now time.Time, over func()) {
	if a.Calls.Aside() == 0 {
		a.awaited = awaited{a.Tip.MethodSet, a.Serving}
	}
	a.Calls.SetAside(&c.Place, c)
	c.WaitOutside(now, over)
}

// AcceptChanged has the calls that wait for another method set run again, before all others, if there
// may be one. The caller has the shard's lock.
func (a *Activation) AcceptChanged() {
	if a.Calls.Aside() > 0 && (a.Tip == nil || a.awaited != awaited{a.Tip.MethodSet, a.Serving}) {
		a.AcceptAside()
	}
}

// AcceptAside has the calls that wait for another method set run again, before all others. The caller
// has the shard's lock.
func (a *Activation) AcceptAside() {
	var calls []*call.Call
	for c := a.Calls.TakeAside(); c != nil; c = a.Calls.TakeAside() {
		c.EndOutside()
		calls = append(calls, c)
	}
	for _, c := range slices.Backward(calls) {
		a.Calls.Again(&c.Place, c)
	}
}

// maxReplyMemory bounds the replies that wait for one commit, recorded or not, in the
// same way.
const maxReplyMemory = 8 << 20

// ChainWaits reports whether a chain waits for the actor.
func (a *Activation) ChainWaits() bool {
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	return a.Calls.Has((*call.Call).Enlists)
}

// PauseFor pauses before a turn that goes again after a conflict, once for all
// the calls that do. It reports false when ctx ended first.
func (a *Activation) PauseFor(ctx context.Context, c *call.Call) bool {
	if c.Conflicts == 0 {
		a.paused = 0
		return true
	}
	if c.Conflicts <= a.paused {
		a.paused = min(a.paused, c.Conflicts)
		return ctx.Err() == nil
	}
	a.paused = c.Conflicts
	return Pause(ctx, c.Conflicts)
}

// Pause waits before the attempt that follows so many conflicts, not after the
// first, then for longer each time and never twice the same, so that writers
// that met once do not keep meeting. It reports false when ctx ended first.
func Pause(ctx context.Context, conflicts int) bool {
	const shortest, longest = time.Millisecond, 100 * time.Millisecond
	if conflicts <= 1 {
		return ctx.Err() == nil
	}
	d := min(shortest<<min(conflicts-1, 10), longest)
	select {
	case <-time.After(d/2 + rand.N(d/2)):
		return true
	case <-ctx.Done():
		return false
	}
}

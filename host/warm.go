package host

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/serving"
)

// warmTurn runs one attempt of a turn on the activation's tip.
func (ts *turns) warm(ctx *call.Context, a *activation.Activation, c *call.Call, s *serving.Type, readOnly bool, now time.Time) call.Outcome {
	if c.Cause == actor.CauseKeyedCall {
		if o, ok := ts.records.known(ctx, a, c); ok {
			return o
		}
	}
	if err := ts.checkMemory(a.Key.App); err != nil {
		return call.Failed(err)
	}
	l, err := ts.ensureLoaded(ctx, a, s)
	if err != nil {
		return call.Failed(err)
	}
	if l == nil {
		return call.Outcome{Retry: true}
	}
	if l.Damage != nil {
		return call.Failed(l.Damage)
	}
	if changed, err := ts.deployments.Fits(ctx, l, s); err != nil {
		o := call.Failed(err) // of the tip, which need not be the newest
		o.Resting, o.Since = !call.IsContextError(err), ts.ownership.Since(s, now, true)
		return o
	} else if changed {
		return call.Failed(call.ErrMoved)
	}
	if c.Op == call.OpMigrate && s.Migration(l) == nil { // another turn has done it, whose commit is waited for
		return call.Outcome{Under: s, Resting: true, Ended: now}
	}
	in, err := a.InstanceFor(ctx, s)
	if err != nil {
		return call.Failed(err)
	}
	t := ts.runs.get(c)
	defer ts.runs.put(t)
	if err := t.enter(ctx); err != nil {
		a.GiveBack(in, nil, time.Now())
		return call.Failed(err)
	}
	if !ts.ownership.StillHeld(a) { // the lease may have run out while the turn waited for any of that
		a.GiveBack(in, nil, time.Now())
		return call.Failed(actor.ErrNotOwner)
	}
	rev := a.Rev
	if readOnly { // its caches belong to no other turn
		rev = ts.table.Revisions.Next()
	}
	t.prepare(s, l, rev, readOnly, now)
	t.activation, t.began = a, now
	err = t.on(ctx, in, s.Migration(l))
	ran := time.Now()
	a.GiveBack(in, err, ran)
	o := call.Outcome{Under: s, Resting: true, Ended: ran}
	if err == nil {
		if err = ctx.ErrAt(ran); err == nil {
			o.Sealed, err = t.seal(s, l)
		}
	}
	if err != nil {
		// What the guest cached of its failed turn must never look current.
		a.Rev = ts.table.Revisions.Next()
		if t.recorded != nil {
			return call.Outcome{Result: *t.recorded, Ended: ran}
		}
		if errors.Is(err, actor.ErrDeadlock) && !c.Stats.Sent {
			return call.Outcome{Retry: true, Deadlock: true, Ended: ran}
		}
		if a.Chain != nil && (errors.Is(err, call.ErrDropped) || errors.Is(err, call.ErrMoved)) {
			return call.Outcome{Retry: true, Ended: ran}
		}
		o := call.Outcome{Result: call.Result{Err: err}, Resting: !call.IsContextError(err) && !errors.Is(err, actor.ErrDeadlock) && !errors.Is(err, actor.ErrStopping), Ended: ran}
		o.Fails, o.Since = c.Cause == actor.CauseKeyedCall && call.Unrecorded(err) && !errors.Is(err, call.ErrDropped), ts.ownership.Since(s, now, true)
		return o
	}
	if !readOnly {
		a.Rev = o.Sealed.Rev
	}
	o.Reply = o.Sealed.Reply
	o.Commits, o.Since = o.Sealed.Changed || c.Cause.Recorded(), ts.ownership.Since(s, now, c.Chained && c.Inv.Consistency == actor.ConsistencyStrong)
	return o
}

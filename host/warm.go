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
func (ts *turns) warm(ctx *call.Context, a *activation.Activation, c *call.Call, s *serving.Type, readOnly bool, now time.Time) outcome {
	if c.Cause == actor.CauseKeyedCall {
		if o, ok := ts.records.known(ctx, a, c); ok {
			return o
		}
	}
	if err := ts.checkMemory(a.Key.App); err != nil {
		return failed(err)
	}
	l, err := ts.ensureLoaded(ctx, a, s)
	if err != nil {
		return failed(err)
	}
	if l == nil {
		return outcome{retry: true}
	}
	if l.Damage != nil {
		return failed(l.Damage)
	}
	if changed, err := ts.deployments.Fits(ctx, l, s); err != nil {
		o := failed(err) // of the tip, which need not be the newest
		o.resting, o.since = !call.IsContextError(err), ts.ownership.Since(s, now, true)
		return o
	} else if changed {
		return failed(call.ErrMoved)
	}
	if c.Op == call.OpMigrate && s.Migration(l) == nil { // another turn has done it, whose commit is waited for
		return outcome{under: s, resting: true, ended: now}
	}
	in, err := a.InstanceFor(ctx, s)
	if err != nil {
		return failed(err)
	}
	t := ts.runs.get(c)
	defer ts.runs.put(t)
	if err := t.enter(ctx); err != nil {
		a.GiveBack(in, nil, time.Now())
		return failed(err)
	}
	if !ts.ownership.StillHeld(a) { // the lease may have run out while the turn waited for any of that
		a.GiveBack(in, nil, time.Now())
		return failed(actor.ErrNotOwner)
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
	o := outcome{under: s, resting: true, ended: ran}
	if err == nil {
		if err = ctx.ErrAt(ran); err == nil {
			o.sealed, err = t.seal(s, l)
		}
	}
	if err != nil {
		// What the guest cached of its failed turn must never look current.
		a.Rev = ts.table.Revisions.Next()
		if t.recorded != nil {
			return outcome{Result: *t.recorded, ended: ran}
		}
		if errors.Is(err, actor.ErrDeadlock) && !c.Stats.Sent {
			return outcome{retry: true, deadlock: true, ended: ran}
		}
		if a.Chain != nil && (errors.Is(err, call.ErrDropped) || errors.Is(err, call.ErrMoved)) {
			return outcome{retry: true, ended: ran}
		}
		o := outcome{Result: call.Result{Err: err}, resting: !call.IsContextError(err) && !errors.Is(err, actor.ErrDeadlock) && !errors.Is(err, actor.ErrStopping), ended: ran}
		o.fails, o.since = c.Cause == actor.CauseKeyedCall && call.Unrecorded(err) && !errors.Is(err, call.ErrDropped), ts.ownership.Since(s, now, true)
		return o
	}
	if !readOnly {
		a.Rev = o.sealed.rev
	}
	o.Reply = o.sealed.reply
	o.commits, o.since = o.sealed.changed || c.Cause.Recorded(), ts.ownership.Since(s, now, c.Chained && c.Inv.Consistency == actor.ConsistencyStrong)
	return o
}

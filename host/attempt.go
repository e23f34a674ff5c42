package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/serving"
)

// run runs one call of an activation, on the activation's worker. It begins anew
// as long as other writers come first, in the lanes that commit at once; what
// was sealed in the warm lane is for the caller to commit.
//
// now is when it begins.
func (ts *turns) run(a *activation.Activation, c *call.Call, now time.Time) call.Outcome {
	if c.Stats.Began.IsZero() && !c.Killed.Load() && c.Ctx.Err() == nil {
		c.Stats.Began = now
	}
	if c.Started.IsZero() {
		c.Started = now
	}
	ctx := c.Begin(now, c.Limit-now.Sub(c.Started))
	defer ctx.Stop()
	if ctx.ErrAt(now) != nil {
		if err := c.Overdue(ctx); c.Conflicts == 0 || errors.Is(err, actor.ErrStopping) {
			return call.Failed(err)
		}
	}
	if !a.PauseFor(ctx, c) {
		return call.Failed(conflicted(c.Conflicts))
	}
	for conflicts := 0; ; now = time.Now() {
		o := ts.attempt(ctx, a, c, now)
		if o.Err == nil || errors.Is(o.Err, actor.ErrAmbiguous) {
			return o
		}
		over := c.Overdue(ctx)
		switch {
		case over != nil && (call.IsContextError(o.Err) || errors.Is(o.Err, call.ErrMoved)):
			return call.Failed(over)
		case c.Stats.Sent:
			return o // and not again
		case errors.Is(o.Err, call.ErrMoved):
		case errors.Is(o.Err, actor.ErrStale):
			conflicts++
			if over != nil || !activation.Pause(ctx, conflicts) {
				return call.Failed(conflicted(conflicts))
			}
		default:
			return o
		}
	}
}

func conflicted(times int) error {
	return fmt.Errorf("%w, %d times until the turn's time was up", actor.ErrStale, times)
}

// attempt tries the call once, in the lane that its type has now. The turn began
// now.
func (ts *turns) attempt(ctx *call.Context, a *activation.Activation, c *call.Call, now time.Time) call.Outcome {
	s, err := ts.next(a)
	if c.Op == call.OpDelete && errors.Is(err, actor.ErrTypeNotFound) {
		// What nothing serves any more can still be removed.
		s, err = ts.deployments.Unserved(c.Inv.Key.App, c.Inv.Key.Type), nil
	}
	if err != nil {
		return call.Failed(err)
	}
	if s != a.Serving || s.Lane != serving.LaneWarm || c.Op == call.OpDelete {
		// A batch has one deployment, and only the warm lane builds on it.
		if dropped, err := a.AwaitCommits(ctx); err != nil || dropped {
			return call.Outcome{Result: call.Result{Err: err}, Retry: dropped}
		}
		a.Serving, a.Checked = s, serving.Unchecked
	}
	if err := ts.ownership.MayBegin(a, s, now); err != nil {
		return call.Failed(err)
	}
	switch {
	case c.Op == call.OpDelete:
		err := ts.delete(ctx, a, c, s, now)
		if err == nil || errors.Is(err, actor.ErrActorNotFound) {
			ts.timers.deleted(a.Key)
		}
		return call.Failed(err)
	case c.Op == call.OpFence && s.Lane == serving.LaneWarm:
		l, err := ts.ensureLoaded(ctx, a, s)
		return call.Outcome{Result: call.Result{Err: err}, Retry: l == nil && err == nil}
	case c.Op == call.OpMigrate && s.Lane == serving.LaneWarm:
		return ts.warm(ctx, a, c, s, false, now)
	case c.Op == call.OpFence, c.Op == call.OpMigrate:
		return call.Failed(nil)
	case c.Op == call.OpTimer:
		return ts.timer(ctx, a, c, s)
	}
	if c.Op == call.OpAll {
		if s.Lane != serving.LaneWarm {
			return call.Failed(notTogether(s))
		}
		c.Stats.Lane = s.Lane
		return ts.warm(ctx, a, c, s, false, now)
	}
	m, err := c.MethodOf(s)
	if err != nil {
		return call.Failed(err)
	}
	c.Stats.Lane = s.Lane
	switch c.Cause {
	case actor.CauseFiring:
		if o, over := ts.reminders.look(ctx, a, c); over {
			return o
		}
	case actor.CauseTimer:
		if o, over := ts.timers.look(ctx, a, c); over {
			return o
		}
	}
	var r call.Result
	switch s.Lane {
	case serving.LaneLocked:
		a.DropAll()
		r.Reply, r.Err = ts.locked.turn(ctx, c, s, m.ReadOnly)
		c.NotTimed(r.Err)
		r = ts.records.orRecorded(ctx, c, r)
	case serving.LaneStateless:
		a.DropAll()
		switch c.Cause {
		case actor.CauseFiring:
			r.Reply, r.Err = ts.stateless.firingTurn(ctx, c, s)
		case actor.CauseKeyedCall:
			r.Reply, r.Err = ts.stateless.keyedTurn(ctx, c, s)
			c.NotTimed(r.Err)
			r = ts.records.orRecorded(ctx, c, r)
		default:
			r.Reply, r.Err = ts.stateless.turn(ctx, c, s, nil)
		}
	default:
		return ts.warm(ctx, a, c, s, m.ReadOnly, now)
	}
	return call.Outcome{Result: r}
}

// timer runs a call that sets or cancels a timer, on the activation's worker.
func (ts *turns) timer(ctx context.Context, a *activation.Activation, c *call.Call, s *serving.Type) call.Outcome {
	c.Stats.Lane = s.Lane
	if s.Lane == serving.LaneWarm { // it is the activation that has it
		l, err := ts.ensureLoaded(ctx, a, s)
		if err == nil && l != nil && l.Damage != nil {
			err = l.Damage
		}
		if err != nil || l == nil {
			return call.Outcome{Result: call.Result{Err: err}, Retry: err == nil}
		}
	} else {
		a.DropAll()
	}
	err := ts.timers.ask(c, s)
	return call.Outcome{Result: call.Result{Err: err}, Resting: s.Lane == serving.LaneWarm, Ended: time.Now()}
}

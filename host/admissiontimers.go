package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/children"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
)

// admitTimer is admit for a call from outside that sets or cancels a timer.
func (ad *admission) admitTimer(c *call.Call) call.Result {
	if c.Inv.Key.IsAnonymous() {
		return call.Result{Err: children.ErrUnrelated}
	}
	var s *serving.Type
	var m serving.Method
	var err error
	if c.Set.Set == nil {
		s, err = ad.deployments.Of(c.Inv.Key.App, c.Inv.Key.Type)
	} else if s, m, err = ad.Find(c); err != nil {
		s, m, err = ad.FindNew(c, err)
	}
	if err == nil && m.Private {
		err = call.PrivateError(&c.Inv)
	}
	if err != nil {
		return call.Result{Err: err}
	}
	if s.Lane != serving.LaneStateless {
		return ad.queued(c, s, false)
	}
	ask := func(*call.Context, *call.Call, *serving.Type, *residency.Row) (actor.Reply, error) {
		c.Stats.Lane = serving.LaneStateless
		return actor.Reply{}, ad.timers.Ask(c, s)
	}
	return ad.alone(c, s, ask)
}

// fire admits the call that a timer asks for which is due.
func (ad *admission) fire(t *timer.Timer) {
	spec := t.Spec()
	s := ad.table.Shard(spec.Key)
	s.Mu.Lock()
	fires := !s.Timers.Tell(t) && s.Timers.Fires(t)
	s.Mu.Unlock()
	if !fires {
		return
	}
	c := &call.Call{Request: call.Request{
		Ctx: context.Background(), Op: call.OpInvoke, Cause: actor.CauseTimer, Arrived: time.Now(), Timer: t,
		Inv: actor.Invocation{ID: ad.newName(), Key: spec.Key, Method: spec.Method, Payload: spec.Payload},
	}}
	c.Receiver = &firing{ad, t}
	if r := ad.admitFired(c); !r.Later {
		ad.answering.Respond(c, r)
	}
}

// admitFired is admit for a timer that fires.
func (ad *admission) admitFired(c *call.Call) call.Result {
	s, m, err := ad.Find(c)
	if err != nil {
		return call.Result{Err: err}
	}
	if err := ad.admitted(c, s); err != nil {
		return call.Result{Err: err}
	}
	// As in admit.
	c.Inv.Key.App, c.Inv.Key.Type, c.Inv.Method = s.Deployment.App, s.Deployment.Type, m.Name
	if s.Lane != serving.LaneStateless {
		return ad.queued(c, s, false)
	}
	return ad.alone(c, s, func(ctx *call.Context, c *call.Call, s *serving.Type, warm *residency.Row) (actor.Reply, error) {
		if err := ad.timers.Begin(c); err != nil {
			return actor.Reply{}, err
		}
		return ad.stateless.Turn(ctx, c, s, warm)
	})
}

// firing is the receiver of a call that a timer asks for.
type firing struct {
	by    *admission
	timer *timer.Timer
}

// Answer implements [Receiver].
func (f *firing) Answer(_ actor.Reply, err error) {
	spec := f.timer.Spec()
	s := f.by.table.Shard(spec.Key)
	now := time.Now()
	s.Mu.Lock()
	fired, ok := s.Timers.Ended(f.timer, err, s.Actors[spec.Key] != nil, now)
	s.Mu.Unlock()
	if !ok {
		return
	}
	f.by.timerFired(fired)
	if err != nil {
		f.by.answering.Logger.Warn("timer failed", "app", spec.Key.App, "actor_type", spec.Key.Type, "actor_id", spec.Key.ID,
			"timer", spec.Name, "method", spec.Method, "removed", timer.Unserved(err), "error", err)
	}
}

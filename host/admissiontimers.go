package host

import (
	"context"
	cryptorand "crypto/rand"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
)

// admitTimer is admit for a call from outside that sets or cancels a timer.
func (ad *admission) admitTimer(c *call) result {
	var s *serving.Type
	var m serving.Method
	var err error
	if c.set.set == nil {
		s, err = ad.deployments.Of(c.inv.Key.App, c.inv.Key.Type)
	} else if s, m, err = ad.find(c); err != nil {
		s, m, err = ad.findNew(c, err)
	}
	if err == nil && m.Private {
		err = errPrivate(&c.inv)
	}
	if err != nil {
		return result{err: err}
	}
	if s.Lane != serving.LaneStateless {
		return ad.queued(c, s, false)
	}
	ask := func(*turnContext, *call, *serving.Type, *residency.Row) (actor.Reply, error) {
		c.stats.lane = serving.LaneStateless
		return actor.Reply{}, ad.timers.ask(c, s)
	}
	return ad.alone(c, s, ask)
}

// fire admits the call that a timer asks for which is due.
func (ad *admission) fire(t *timer.Timer) {
	spec := t.Spec()
	s := ad.table.shard(spec.Key)
	s.mu.Lock()
	fires := s.timers.Fires(t)
	s.mu.Unlock()
	if !fires {
		return
	}
	c := &call{request: request{
		ctx: context.Background(), op: opInvoke, cause: actor.CauseTimer, arrived: time.Now(), timer: t,
		inv: actor.Invocation{ID: cryptorand.Text(), Key: spec.Key, Method: spec.Method, Payload: spec.Payload},
	}}
	c.receiver = &firing{ad, t}
	if r := ad.admitFired(c); !r.later {
		ad.answering.respond(c, r)
	}
}

// admitFired is admit for a timer that fires.
func (ad *admission) admitFired(c *call) result {
	s, m, err := ad.find(c)
	if err != nil {
		return result{err: err}
	}
	// As in admit.
	c.inv.Key.App, c.inv.Key.Type, c.inv.Method = s.Deployment.App, s.Deployment.Type, m.Name
	if s.Lane != serving.LaneStateless {
		return ad.queued(c, s, false)
	}
	return ad.alone(c, s, func(ctx *turnContext, c *call, s *serving.Type, warm *residency.Row) (actor.Reply, error) {
		if err := ad.timers.begin(c); err != nil {
			return actor.Reply{}, err
		}
		return ad.stateless.turn(ctx, c, s, warm)
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
	s := f.by.table.shard(spec.Key)
	now := time.Now()
	s.mu.Lock()
	fired, ok := s.timers.Ended(f.timer, err, s.actors[spec.Key] != nil, now)
	s.mu.Unlock()
	if !ok {
		return
	}
	f.by.answering.events.TimerFired(fired)
	if err != nil {
		f.by.workers.logger.Warn("timer failed", "app", spec.Key.App, "actor_type", spec.Key.Type, "actor_id", spec.Key.ID,
			"timer", spec.Name, "method", spec.Method, "removed", timer.Unserved(err), "error", err)
	}
}

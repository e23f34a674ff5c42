package host

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/serving"
)

const (
	// maxLeaving is how long a hook leaving may take.
	maxLeaving = time.Second
	// leavingAtOnce is how many idle actors run their hook at the same time.
	leavingAtOnce = 64
)

// leaving runs the hooks leaving of the actors that one hand-over, or the stop of the host, lets go.
// Each is a call of the actor that comes after those that it has begun. What is not done when ctx ends
// fails, and the actors leave all the same.
type leaving struct {
	by      *Host
	ctx     context.Context
	end     context.CancelFunc
	began   time.Time
	idle    []*activation.Activation // with a hook, which work runs
	hooks   bool                     // there are some
	skipped atomic.Int64             // hooks for which there was no time
}

// newLeaving returns a leaving whose hooks end with ctx at the latest. The caller calls finish.
func newLeaving(ctx context.Context, h *Host) *leaving {
	l := &leaving{by: h, began: time.Now()}
	l.ctx, l.end = context.WithTimeout(ctx, h.life.leaving.left(l.began))
	return l
}

// finish stops what runs of the hooks.
func (l *leaving) finish() {
	l.end()
	if l.hooks {
		l.by.life.leaving.spend(time.Since(l.began))
	}
	if n := l.skipped.Load(); n > 0 {
		l.by.cfg.Logger.Warn("there was no time for the hooks of actors that leave", "actors", n)
	}
}

// over reports whether there is no time for further hooks. The context may end a moment after its deadline.
func (l *leaving) over() bool {
	deadline, _ := l.ctx.Deadline()
	return l.ctx.Err() != nil || !time.Now().Before(deadline)
}

// add has the hook of a run, if its type has one and its state is in memory. The caller has the
// shard's lock.
func (l *leaving) add(a *activation.Activation) {
	s := l.served(a)
	if s == nil || a.Key.IsAnonymous() || a.Loaded == nil && a.Tip == nil {
		return
	}
	l.hooks = true
	switch {
	case l.over():
		l.skipped.Add(1)
	case a.Idle():
		l.by.admission.workers.Reserve(a)
		l.idle = append(l.idle, a)
	default:
		l.by.admission.workers.Put(a, l.call(a, s))
	}
}

// served returns what serves an activation's type; nil if that has no hook leaving.
func (l *leaving) served(a *activation.Activation) *serving.Type {
	s, err := l.by.admission.deployments.Of(a.Key.App, a.Key.Type)
	if err != nil || s.Hooks.Leaving == "" || s.Lane != serving.LaneWarm {
		return nil
	}
	return s
}

func (l *leaving) call(a *activation.Activation, s *serving.Type) *call.Call {
	c := &call.Call{Request: call.Request{
		Ctx: l.ctx, Op: call.OpLeave, Arrived: time.Now(),
		Inv: actor.Invocation{ID: l.by.cfg.newName(), Key: a.Key, Method: s.Hooks.Leaving},
	}}
	c.BoundBy(s)
	if c.Limit > maxLeaving {
		c.Limit, c.LimitSetting = maxLeaving, "what hooks that run when an actor leaves may take"
	}
	c.Lane, c.Receiver = s.Lane, &left{l, c}
	return c
}

// work runs the hooks of the idle actors, some at the same time. It does not wait for them: each
// activation has work until its hook has ended.
func (l *leaving) work() {
	next := make(chan *activation.Activation, len(l.idle))
	for _, a := range l.idle {
		next <- a
	}
	close(next)
	for range min(leavingAtOnce, len(l.idle)) {
		go func() {
			for a := range next {
				var c *call.Call
				if s := l.served(a); s != nil {
					c = l.call(a, s)
				}
				l.by.admission.workers.Work(a, c)
			}
		}()
	}
}

// left is the receiver of a hook's end.
type left struct {
	by *leaving
	of *call.Call
}

// Answer implements [Receiver].
func (r *left) Answer(_ actor.Reply, err error) {
	switch {
	case err == nil:
		return
	case r.of.Stats.Runs == 0 && r.by.over():
		r.by.skipped.Add(1)
		return
	}
	level := slog.LevelWarn
	if errors.Is(err, actor.ErrNotOwner) { // the host has lost the actor, with whatever it says of that
		level = slog.LevelInfo
	}
	inv := &r.of.Inv
	r.by.by.cfg.Logger.Log(context.Background(), level, "the hook of a leaving actor failed", "app", inv.Key.App, "actor_type", inv.Key.Type, "actor_id", inv.Key.ID,
		"method", inv.Method, "invocation", inv.ID, "error", err)
}

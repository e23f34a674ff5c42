package standstill

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/server/rpc"
)

const (
	// beats is how many signs of life there are in the time after which the process is taken to
	// have stood still.
	beats = 5
	// after is for how long calls are refused once it goes on: by then, what had come before was
	// read.
	after = time.Second
)

// Guard knows whether the process stood still a moment ago. Before [Guard.Run] it never did. Its
// methods may be called concurrently.
type Guard struct {
	limit time.Duration
	log   *slog.Logger
	alive atomic.Pointer[time.Time] // the last sign of life; nil: none yet
	until atomic.Pointer[time.Time] // calls are refused until then; nil: they were never
}

// NewGuard returns a guard that takes the process to have stood still after a time without a sign of
// life: less than a lease of the cluster takes to run out, since until then calls are made nowhere
// else, and more than a busy machine keeps a process from running, if possible.
func NewGuard(limit time.Duration, log *slog.Logger) *Guard { return &Guard{limit: limit, log: log} }

// Run gives signs of life until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	tick := time.NewTicker(g.limit / beats)
	defer tick.Stop()
	for {
		g.beat(time.Now())
		select {
		case <-ctx.Done():
			g.alive.Store(nil)
			return
		case <-tick.C:
		}
	}
}

// beat is a sign of life. Only one goroutine calls it.
func (g *Guard) beat(now time.Time) {
	if last := g.alive.Load(); last != nil && between(*last, now) > g.limit {
		g.log.Warn("the process stood still: calls with idempotency keys that came meanwhile are refused, and safe to repeat", "for", between(*last, now).Round(time.Millisecond))
		until := now.Add(after)
		g.until.Store(&until) // before alive, which check reads first
	}
	g.alive.Store(&now)
}

// check returns the error of a call with an idempotency key that is read now, if it may have come
// before the process stood still.
func (g *Guard) check(now time.Time) error {
	last := g.alive.Load()
	if last == nil {
		return nil
	}
	until := g.until.Load()
	if between(*last, now) <= g.limit && (until == nil || !now.Before(*until)) {
		return nil
	}
	return &actor.ReasonError{Condition: actor.ErrStoodStill, Reason: fmt.Sprintf("the call may be from before; repeat it with the same idempotency key, %v from now or at another server", after)}
}

// between is the time from a to b, by the clock that shows more of it: one of them stops while a
// machine is suspended.
func between(a, b time.Time) time.Duration { return max(b.Sub(a), b.Round(0).Sub(a.Round(0))) }

// Host is a host whose calls are guarded.
type Host struct {
	rpc.Host
	Guard *Guard
}

// Invoke implements [rpc.Host].
func (h Host) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	if inv.IdempotencyKey != "" {
		if err := h.Guard.check(time.Now()); err != nil {
			return actor.Reply{}, err
		}
	}
	return h.Host.Invoke(ctx, inv)
}

// Begin implements [rpc.Host].
func (h Host) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	if inv.IdempotencyKey != "" {
		if err := h.Guard.check(time.Now()); err != nil {
			to.Answer(actor.Reply{}, err)
			return answered{}
		}
	}
	return h.Host.Begin(ctx, inv, to)
}

// answered is a call that is over.
type answered struct{}

// GiveUp implements [host.Begun].
func (answered) GiveUp() {}

// Messages are messages from outside, which are guarded as calls are.
type Messages struct {
	rpc.Messages
	Guard *Guard
}

// Send implements [rpc.Messages].
func (m Messages) Send(ctx context.Context, r *inbox.Request, idempotencyKey string) (actor.ReminderID, bool, error) {
	if idempotencyKey != "" {
		if err := m.Guard.check(time.Now()); err != nil {
			return actor.ReminderID{}, false, err
		}
	}
	return m.Messages.Send(ctx, r, idempotencyKey)
}

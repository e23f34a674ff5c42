package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// errMoved is an attempt that found another deployment in place than the one it
// began with: the turn starts over with that one.
var errMoved = errors.New("the deployment changed")

// turn runs one call of an activation to its answer, on the activation's worker.
// It begins anew as long as other writers come first.
func (h *Host) turn(a *activation, c *call) (actor.Reply, error) {
	if c.killed.Load() {
		return actor.Reply{}, actor.ErrStopping
	}
	if c.ctx.Err() != nil {
		return actor.Reply{}, contextError(c.ctx)
	}
	c.stats.began = h.cfg.Clock()
	limit := h.turnDeadline(&c.inv)
	ctx, cancel := c.begin(limit)
	defer cancel()
	for conflicts := 0; ; {
		reply, err := h.attempt(ctx, a, c)
		over := c.overdue(ctx, limit)
		switch {
		case err == nil, errors.Is(err, actor.ErrAmbiguous):
			return reply, err
		case over != nil && (isContextError(err) || errors.Is(err, errMoved)):
			return reply, over
		case errors.Is(err, errMoved):
		case errors.Is(err, actor.ErrStale):
			if over != nil || !pause(ctx, conflicts) {
				return reply, fmt.Errorf("%w, %d times until the turn's time was up", actor.ErrStale, conflicts+1)
			}
			conflicts++
		default:
			return reply, err
		}
	}
}

// turnDeadline is what bounds a turn from its start.
func (h *Host) turnDeadline(inv *actor.Invocation) time.Duration {
	if s, err := h.serving(inv.Key.App, inv.Key.Type); err == nil {
		return s.limits.TurnDeadline
	}
	return h.cfg.limits(inv.Key.App, inv.Key.Type).TurnDeadline
}

// attempt tries the call once, in the lane that its type has now.
func (h *Host) attempt(ctx context.Context, a *activation, c *call) (actor.Reply, error) {
	s, err := h.serving(c.inv.Key.App, c.inv.Key.Type)
	if c.op == opDelete {
		if errors.Is(err, actor.ErrTypeNotFound) {
			// What nothing serves any more can still be removed.
			s, err = &served{lane: LaneWarm, limits: h.cfg.limits(c.inv.Key.App, c.inv.Key.Type)}, nil
		}
		if err != nil {
			return actor.Reply{}, err
		}
		return actor.Reply{}, h.deleteTurn(ctx, a, c, s)
	}
	if err != nil {
		return actor.Reply{}, err
	}
	m, err := s.method(&c.inv)
	if err != nil {
		return actor.Reply{}, err
	}
	c.stats.lane = s.lane
	switch s.lane {
	case LaneLocked:
		h.keepNothing(a)
		return h.lockedTurn(ctx, c, s, m.readOnly)
	case LaneStateless:
		h.keepNothing(a)
		return h.statelessTurn(ctx, c)
	default:
		return h.warmTurn(ctx, a, c, s, m.readOnly)
	}
}

// pause waits before an attempt after conflicts earlier ones, for longer each
// time and never twice the same, so that writers that met once do not keep
// meeting. It reports false when ctx ended first.
func pause(ctx context.Context, conflicts int) bool {
	const shortest, longest = time.Millisecond, 100 * time.Millisecond
	if conflicts == 0 {
		return ctx.Err() == nil
	}
	d := min(shortest<<min(conflicts, 10), longest)
	return sleep(ctx, d/2+rand.N(d/2))
}

// sleep waits for d and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package host

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Timers returns how many timers are set.
func (h *Host) Timers() int { return h.timers.Count() }

// SetTimer sets a timer of an actor, in the place of one of the same name, and reports
// whether there was one. It is a turn of that actor, which this host has in memory then.
// The spec is the host's from then on. Errors are as those of Invoke; what cannot be, or
// is too much, is an [*actor.ArgumentError].
func (h *Host) SetTimer(ctx context.Context, spec actor.TimerSpec) (replaced bool, err error) {
	err = spec.Validate()
	if err != nil {
		return false, &actor.TurnError{Key: spec.Key, Err: err}
	}
	return h.askTimer(ctx, spec.Key, &timerRequest{name: spec.Name, set: &spec})
}

// CancelTimer cancels a timer of an actor, and reports whether there was one. Errors are
// as those of SetTimer.
func (h *Host) CancelTimer(ctx context.Context, key actor.Key, name string) (existed bool, err error) {
	if err := actor.ValidateTimerName(name); err != nil {
		return false, &actor.TurnError{Key: key, Err: err}
	}
	return h.askTimer(ctx, key, &timerRequest{name: name})
}

// GetTimer returns a timer that an actor has here, as turns that were answered have left
// it; actor.ErrTimerNotFound if there is none of that name. It is no turn, and takes no
// actor into memory. Errors are [*actor.TurnError]s.
func (h *Host) GetTimer(_ context.Context, key actor.Key, name string) (actor.Timer, error) {
	err := errors.Join(key.Validate(), actor.ValidateTimerName(name))
	if err == nil {
		var t actor.Timer
		if t, err = h.timers.get(key, name); err == nil {
			return t, nil
		}
	}
	return actor.Timer{}, &actor.TurnError{Key: key, Err: err}
}

func (h *Host) askTimer(ctx context.Context, key actor.Key, r *timerRequest) (bool, error) {
	c := &call{request: request{ctx: ctx, op: opTimer, inv: actor.Invocation{Key: key}, arrived: time.Now(), set: r}}
	if r.set != nil {
		c.inv.Method, c.inv.Payload = r.set.Method, r.set.Payload
	}
	if _, err := h.answering.conclude(c, h.admission.counted(c, h.admission.admitTimer)); err != nil {
		return false, err // what has begun may still write to r
	}
	return r.existed, nil
}

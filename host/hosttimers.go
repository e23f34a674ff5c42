package host

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
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
	return h.askTimer(ctx, spec.Key, &call.TimerRequest{Name: spec.Name, Set: &spec})
}

// CancelTimer cancels a timer of an actor, and reports whether there was one. Errors are
// as those of SetTimer.
func (h *Host) CancelTimer(ctx context.Context, key actor.Key, name string) (existed bool, err error) {
	if err := actor.ValidateTimerName(name); err != nil {
		return false, &actor.TurnError{Key: key, Err: err}
	}
	return h.askTimer(ctx, key, &call.TimerRequest{Name: name})
}

// GetTimer returns a timer that an actor has here, as turns that were answered have left
// it; actor.ErrTimerNotFound if there is none of that name. It is no turn, and takes no
// actor into memory. Errors are [*actor.TurnError]s.
func (h *Host) GetTimer(_ context.Context, key actor.Key, name string) (actor.Timer, error) {
	err := errors.Join(key.Validate(), actor.ValidateTimerName(name))
	if err == nil {
		var t actor.Timer
		if t, err = h.timers.Get(key, name); err == nil {
			return t, nil
		}
	}
	return actor.Timer{}, &actor.TurnError{Key: key, Err: err}
}

func (h *Host) askTimer(ctx context.Context, key actor.Key, r *call.TimerRequest) (bool, error) {
	c := &call.Call{Request: call.Request{Ctx: ctx, Op: call.OpTimer, Inv: actor.Invocation{Key: key}, Arrived: time.Now(), Set: r}}
	if r.Set != nil {
		c.Inv.Method, c.Inv.Payload = r.Set.Method, r.Set.Payload
	}
	if _, err := h.answering.Conclude(c, h.admission.counted(c, h.admission.admitTimer)); err != nil {
		return false, err // what has begun may still write to r
	}
	return r.Existed, nil
}

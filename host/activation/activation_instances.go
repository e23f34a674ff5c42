package activation

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/serving"
)

// InstanceFor returns the instance for the activation's next turn.
func (a *Activation) InstanceFor(ctx context.Context, s *serving.Type) (*instance.Instance, error) {
	if a.dedicated != nil {
		if s.Dedicated && a.dedicated.Pool() == s.Pool {
			return a.dedicated, nil
		}
		a.takeDedicated().Discard()
	}
	if !s.Dedicated {
		return s.Pool.Acquire(ctx)
	}
	in, err := s.Pool.Make(ctx, a.releaseDedicated)
	if err != nil {
		return nil, err
	}
	sh := a.Shard
	sh.Mu.Lock()
	a.dedicated = in
	sh.Mu.Unlock()
	return in, nil
}

// GiveBack ends the use of an instance whose run ended with err.
func (a *Activation) GiveBack(in *instance.Instance, err error, now time.Time) {
	switch {
	case !in.Dedicated():
		in.GiveBack(err, now)
	case instance.Broken(err):
		a.takeDedicated().Discard()
	}
}

// releaseDedicated takes its dedicated instance from an activation that has no work,
// and reports false if it has some, or another instance.
func (a *Activation) releaseDedicated(in *instance.Instance) bool {
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if !a.Idle() || a.dedicated != in {
		return false
	}
	a.dedicated = nil
	return true
}

// takeDedicated takes its dedicated instance from an activation. It is for the worker.
func (a *Activation) takeDedicated() *instance.Instance {
	s := a.Shard
	s.Mu.Lock()
	defer s.Mu.Unlock()
	in := a.dedicated
	a.dedicated = nil
	return in
}

// NestedInstance is InstanceFor for a called turn, whose caller waits with an instance of its own.
// What may wait is done by waiting. again means that another turn of the actor has its dedicated instance: then the caller discards
// the result.
func (a *Activation) NestedInstance(ctx context.Context, waiting func(func()), s *serving.Type, again bool) (in *instance.Instance, err error) {
	switch {
	case a == nil: // of a type that has no state
	case s.Dedicated && !again:
		if a.dedicated != nil && a.dedicated.Pool() == s.Pool {
			return a.dedicated, nil
		}
		waiting(func() { in, err = a.InstanceFor(ctx, s) })
		return in, err
	case a.dedicated != nil && !s.Dedicated:
		a.takeDedicated().Discard()
	}
	if in = s.Pool.Spare(); in == nil {
		waiting(func() { in, err = s.Pool.AcquireMore(ctx) })
	}
	return in, err
}

// DropAll drops the state and the instance of an activation: turns of the locked lane use neither.
func (a *Activation) DropAll() {
	if a.Loaded != nil { // it is drained: nobody else changes it
		a.DropState()
	}
	if a.dedicated != nil {
		a.takeDedicated().Discard()
	}
}

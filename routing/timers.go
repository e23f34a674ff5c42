package routing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// SetTimer sets a timer at the host that holds its actor: see [host.Host.SetTimer].
func (r *Router) SetTimer(ctx context.Context, spec actor.TimerSpec) (replaced bool, err error) {
	return r.timer(ctx, spec.Key, spec.Name, &spec, "")
}

// CancelTimer cancels a timer at the host that holds its actor: see
// [host.Host.CancelTimer].
func (r *Router) CancelTimer(ctx context.Context, key actor.Key, name string) (existed bool, err error) {
	return r.timer(ctx, key, name, nil, "")
}

// timer sets a timer, or cancels the one of that name if set is nil. from is the host
// that sent it, if one did.
func (r *Router) timer(ctx context.Context, key actor.Key, name string, set *actor.TimerSpec, from actor.HostID) (existed bool, err error) {
	local := func(ctx context.Context) (err error) {
		switch {
		case r.cfg.Timers == nil:
			err = &actor.TurnError{Key: key, Err: fmt.Errorf("%w: this host has no timers", actor.ErrUnavailable)}
		case set == nil:
			existed, err = r.cfg.Timers.CancelTimer(ctx, key, name)
		default:
			existed, err = r.cfg.Timers.SetTimer(ctx, *set)
		}
		return err
	}
	err = r.bring(ctx, key, from, local, func(ctx context.Context, p *peer, refusedBy actor.HostID) (err error) {
		existed, err = p.timer(ctx, key, name, set, refusedBy)
		return err
	})
	return existed, err
}

// GetTimer reads a timer at the host that holds its actor: see [host.Host.GetTimer].
func (r *Router) GetTimer(ctx context.Context, key actor.Key, name string) (actor.Timer, error) {
	return r.getTimer(ctx, key, name, "")
}

func (r *Router) getTimer(ctx context.Context, key actor.Key, name string, from actor.HostID) (t actor.Timer, err error) {
	local := func(ctx context.Context) (err error) {
		if r.cfg.Timers == nil {
			return &actor.TurnError{Key: key, Err: fmt.Errorf("%w: this host has no timers", actor.ErrUnavailable)}
		}
		t, err = r.cfg.Timers.GetTimer(ctx, key, name)
		return err
	}
	err = r.bring(ctx, key, from, local, func(ctx context.Context, p *peer, refusedBy actor.HostID) (err error) {
		t, err = p.getTimer(ctx, key, name, refusedBy)
		return err
	})
	return t, err
}

// GetTimer is [host.Host.GetTimer].
func (a *Accepted) GetTimer(ctx context.Context, key actor.Key, name string) (actor.Timer, error) {
	if err := a.refused(); err != nil {
		return actor.Timer{}, err
	}
	return a.r.getTimer(ctx, key, name, a.Peer)
}

func (p *peer) getTimer(ctx context.Context, key actor.Key, name string, refusedBy actor.HostID) (actor.Timer, error) {
	res, err := p.askTimer(ctx, key, &greenroomv1.ExchangeTimerRequest{Name: name, Read: true, RefusedBy: string(refusedBy)})
	if err != nil {
		return actor.Timer{}, err
	}
	now := time.Now()
	spec := DecodeTimer(key, name, res.GetTimer(), now)
	if spec == nil {
		return actor.Timer{}, &actor.TurnError{Key: key, Err: fmt.Errorf("%w: its host has answered without the timer", actor.ErrUnavailable)}
	}
	return actor.Timer{TimerSpec: *spec, Due: now.Add(res.GetDue().AsDuration()), Left: res.GetLeft()}, nil
}

// Timer is [host.Host.SetTimer], and [host.Host.CancelTimer] if set is nil.
func (a *Accepted) Timer(ctx context.Context, key actor.Key, name string, set *actor.TimerSpec) (existed bool, err error) {
	if err := a.refused(); err != nil {
		return false, err
	}
	return a.r.timer(ctx, key, name, set, a.Peer)
}

func (p *peer) timer(ctx context.Context, key actor.Key, name string, set *actor.TimerSpec, refusedBy actor.HostID) (existed bool, err error) {
	res, err := p.askTimer(ctx, key, &greenroomv1.ExchangeTimerRequest{Name: name, Set: EncodeTimer(set, time.Now()), RefusedBy: string(refusedBy)})
	return res.GetExisted(), err
}

// askTimer asks about a timer of an actor.
func (p *peer) askTimer(ctx context.Context, key actor.Key, req *greenroomv1.ExchangeTimerRequest) (*greenroomv1.ExchangeTimerResponse, error) {
	if p.protocol < protocolTrace {
		return nil, &actor.TurnError{Key: key, Err: noOwner("its host speaks a protocol without timers")}
	}
	req.Hello, req.Actor = p.hello(), protoKey(key)
	res, err := ask(ctx, p, p.unary.Timer, req)
	if err = p.unaryError(ctx, key, err); errors.As(err, new(*lostError)) {
		cond := actor.ErrAmbiguous
		if req.GetRead() {
			cond = actor.ErrUnavailable
		}
		err = &actor.TurnError{Key: key, Err: cond}
	}
	return res, err
}

// EncodeTimer returns a timer for another host, without actor and name; nil for nil. It has
// durations from now instead of times, since the clocks of hosts differ.
func EncodeTimer(s *actor.TimerSpec, now time.Time) *greenroomv1.ForwardedTimer {
	if s == nil {
		return nil
	}
	m := &greenroomv1.ForwardedTimer{
		Method: s.Method, ContentType: s.Payload.ContentType, Payload: s.Payload.Data,
		Every: durationpb.New(s.Schedule.Every), Times: s.Schedule.Times,
	}
	switch {
	case !s.Schedule.At.IsZero():
		m.After = durationpb.New(max(1, s.Schedule.At.Sub(now))) // 0 would be after Every
	case s.Schedule.After > 0:
		m.After = durationpb.New(s.Schedule.After)
	}
	if until := s.Schedule.Until; !until.IsZero() {
		m.Until = durationpb.New(until.Sub(now))
	}
	return m
}

// DecodeTimer returns the timer of an [EncodeTimer], with times of this host's clock.
func DecodeTimer(key actor.Key, name string, m *greenroomv1.ForwardedTimer, now time.Time) *actor.TimerSpec {
	if m == nil {
		return nil
	}
	s := &actor.TimerSpec{
		Key: key, Name: name, Method: m.GetMethod(), Payload: actor.Payload{ContentType: m.GetContentType(), Data: m.GetPayload()},
		Schedule: actor.Schedule{After: m.GetAfter().AsDuration(), Every: m.GetEvery().AsDuration(), Times: m.GetTimes()},
	}
	if m.Until != nil {
		s.Schedule.Until = now.Add(m.GetUntil().AsDuration())
	}
	return s
}

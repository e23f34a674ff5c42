package routing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

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
	err = r.alone(ctx, key, from, local, func(ctx context.Context, p *peer, refusedBy actor.HostID) (err error) {
		existed, err = p.timer(ctx, key, name, set, refusedBy)
		return err
	})
	return existed, err
}

// Timer is [host.Host.SetTimer], and [host.Host.CancelTimer] if set is nil.
func (a *Accepted) Timer(ctx context.Context, key actor.Key, name string, set *actor.TimerSpec) (existed bool, err error) {
	if err := a.refused(); err != nil {
		return false, err
	}
	return a.r.timer(ctx, key, name, set, a.Peer)
}

func (p *peer) timer(ctx context.Context, key actor.Key, name string, set *actor.TimerSpec, refusedBy actor.HostID) (existed bool, err error) {
	if p.protocol < protocolTrace {
		return false, &actor.TurnError{Key: key, Err: noOwner("its host speaks a protocol without timers")}
	}
	req := connect.NewRequest(&greenroomv1.ExchangeTimerRequest{
		Hello: p.hello(), Actor: protoKey(key), Name: name, Set: EncodeTimer(set), RefusedBy: string(refusedBy),
	})
	p.authorize(req.Header())
	setTrace(ctx, req.Header())
	res, err := p.unary.Timer(ctx, req)
	if err = p.unaryError(ctx, key, err); errors.As(err, new(*lostError)) {
		err = &actor.TurnError{Key: key, Err: actor.ErrAmbiguous}
	}
	if err != nil {
		return false, err
	}
	return res.Msg.GetExisted(), nil
}

// EncodeTimer returns a timer as hosts tell each other, without its actor and its name;
// nil for none.
func EncodeTimer(s *actor.TimerSpec) *greenroomv1.ForwardedTimer {
	if s == nil {
		return nil
	}
	m := &greenroomv1.ForwardedTimer{
		Method: s.Method, ContentType: s.Payload.ContentType, Payload: s.Payload.Data,
		After: durationpb.New(s.Schedule.After), Every: durationpb.New(s.Schedule.Every), Times: s.Schedule.Times,
	}
	if at := s.Schedule.At; !at.IsZero() {
		m.At = timestamppb.New(at)
	}
	if until := s.Schedule.Until; !until.IsZero() {
		m.Until = timestamppb.New(until)
	}
	return m
}

// DecodeTimer is the inverse of [EncodeTimer].
func DecodeTimer(key actor.Key, name string, m *greenroomv1.ForwardedTimer) *actor.TimerSpec {
	if m == nil {
		return nil
	}
	s := &actor.TimerSpec{
		Key: key, Name: name, Method: m.GetMethod(), Payload: actor.Payload{ContentType: m.GetContentType(), Data: m.GetPayload()},
		Schedule: actor.Schedule{After: m.GetAfter().AsDuration(), Every: m.GetEvery().AsDuration(), Times: m.GetTimes()},
	}
	moment := func(t *timestamppb.Timestamp) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.AsTime()
	}
	s.Schedule.At, s.Schedule.Until = moment(m.GetAt()), moment(m.GetUntil())
	return s
}

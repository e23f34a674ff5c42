package rpc

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/events"
)

// Subscribe implements ActorService.
func (a *actorService) Subscribe(ctx context.Context, req *connect.Request[greenroomv1.SubscribeRequest], stream *connect.ServerStream[greenroomv1.SubscribeResponse]) error {
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return err
	}
	after, err := afterOf(req.Msg)
	if err != nil {
		return err
	}
	position := ""
	send := func(list []actor.Event) error {
		msg := eventsMessage(list)
		position = msg.GetPosition()
		return stream.Send(msg)
	}
	return a.s.Events.Subscribe(ctx, key, after, events.Subscription{
		KeptOnly: req.Msg.GetKeptOnly(),
		Began: func(at actor.EventPosition) error {
			position = at.String()
			return stream.Send(&greenroomv1.SubscribeResponse{Position: position})
		},
		Deliver: func(list []actor.Event) error {
			if !req.Msg.GetJson() {
				return send(list)
			}
			return a.s.Calls.EventsInJSON(ctx, key, list, func(part []actor.Event) error {
				defer edge.ExchangeOf(ctx).ReleaseBody() // what the JSON form took
				return send(part)
			})
		},
		Idle: func() error { return stream.Send(&greenroomv1.SubscribeResponse{Position: position}) },
	})
}

// afterOf returns the position after which a subscription is to begin; nil for now.
func afterOf(m *greenroomv1.SubscribeRequest) (*actor.EventPosition, error) {
	switch from := m.GetFrom().(type) {
	case *greenroomv1.SubscribeRequest_Start:
		return &actor.EventPosition{}, nil
	case *greenroomv1.SubscribeRequest_After:
		at, err := actor.ParseEventPosition(from.After)
		return &at, err
	}
	return nil, nil //nolint:nilnil // from now on
}

// eventsMessage returns the message with events; list is not empty.
func eventsMessage(list []actor.Event) *greenroomv1.SubscribeResponse {
	msg := &greenroomv1.SubscribeResponse{Events: make([]*greenroomv1.ActorEvent, len(list))}
	for i := range list {
		e := &list[i]
		msg.Position = e.Position.String()
		msg.Events[i] = &greenroomv1.ActorEvent{
			Position: msg.Position, Name: e.Name, Payload: e.Payload.Data, ContentType: e.Payload.ContentType, PublishedAt: timestamppb.New(e.At), Life: e.Life,
		}
	}
	return msg
}

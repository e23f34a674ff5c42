package rpc

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/server/events"
)

// Subscribe implements ActorService.
func (a *actorService) Subscribe(ctx context.Context, req *connect.Request[greenroomv1.SubscribeRequest], stream *connect.ServerStream[greenroomv1.SubscribeResponse]) error {
	key := keyOf(req.Msg.GetActor())
	if err := key.Validate(); err != nil {
		return err
	}
	var after *actor.EventPosition
	switch from := req.Msg.GetFrom().(type) {
	case *greenroomv1.SubscribeRequest_Start:
		after = &actor.EventPosition{}
	case *greenroomv1.SubscribeRequest_After:
		at, err := actor.ParseEventPosition(from.After)
		if err != nil {
			return err
		}
		after = &at
	}
	position := ""
	return a.s.Events.Subscribe(ctx, key, after, events.Subscription{
		KeptOnly: req.Msg.GetKeptOnly(),
		Began: func(at actor.EventPosition) error {
			position = at.String()
			return stream.Send(&greenroomv1.SubscribeResponse{Position: position})
		},
		Deliver: func(list []actor.Event) error {
			msg := &greenroomv1.SubscribeResponse{Events: make([]*greenroomv1.ActorEvent, len(list))}
			for i := range list {
				e := &list[i]
				position = e.Position.String()
				msg.Events[i] = &greenroomv1.ActorEvent{
					Position: position, Name: e.Name, Payload: e.Payload.Data, ContentType: e.Payload.ContentType, PublishedAt: timestamppb.New(e.At), Life: e.Life,
				}
			}
			msg.Position = position
			return stream.Send(msg)
		},
		Idle: func() error { return stream.Send(&greenroomv1.SubscribeResponse{Position: position}) },
	})
}

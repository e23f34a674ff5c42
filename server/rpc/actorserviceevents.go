package rpc

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Feed gives subscribers the events of actors. [*feed.Feed] does.
type Feed interface {
	Newest(ctx context.Context, key actor.Key) (actor.EventPosition, error)
	Subscribe(ctx context.Context, key actor.Key, after actor.EventPosition, deliver func([]actor.Event) error) error
}

// Subscription is one that a server serves.
type Subscription struct {
	// Began is called with the position at which it begins, before the first event.
	Began func(actor.EventPosition) error
	// Deliver is called with events in their order, and Idle where nothing was sent for a while;
	// never two of the three at once.
	Deliver func([]actor.Event) error
	Idle    func() error
}

// idleEvery is how long nothing is sent on a subscription.
const idleEvery = 25 * time.Second

// Subscribe serves a subscription to an actor's events after a position, or, if that is nil, to
// what is published from now on. It ends with nil when the server begins to stop.
func (s *Services) Subscribe(ctx context.Context, key actor.Key, after *actor.EventPosition, to Subscription) error {
	if s.Feed == nil {
		return &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no events"}
	}
	if err := s.subscriptions.Enter(key.App); err != nil {
		return err
	}
	defer s.subscriptions.Leave(key.App)
	if after == nil {
		newest, err := s.Feed.Newest(ctx, key)
		if err != nil {
			return err
		}
		after = &newest
	}
	if err := to.Began(*after); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	sent := make(chan []actor.Event)
	ended := make(chan error, 1)
	taken := make(chan error)
	go func() {
		ended <- s.Feed.Subscribe(ctx, key, *after, func(events []actor.Event) error {
			select {
			case sent <- events:
				return <-taken
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	for {
		var err error
		select {
		case events := <-sent:
			idle.Reset(idleEvery)
			err = to.Deliver(events)
			taken <- err
		case <-idle.C:
			err = to.Idle()
		case err := <-ended:
			if s.draining.Err() != nil {
				return nil
			}
			return err
		}
		if err != nil {
			cancel()
			<-ended
			return err
		}
	}
}

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
	return a.s.Subscribe(ctx, key, after, Subscription{
		Began: func(at actor.EventPosition) error {
			position = at.String()
			return stream.Send(&greenroomv1.SubscribeResponse{Position: position})
		},
		Deliver: func(events []actor.Event) error {
			msg := &greenroomv1.SubscribeResponse{Events: make([]*greenroomv1.ActorEvent, len(events))}
			for i := range events {
				e := &events[i]
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

// newSubscriptions returns the places of subscriptions to events.
func newSubscriptions(limit int64) edge.Places {
	return edge.NewPlaces(streamBounds("subscriptions to events", limit), "end others, or use another server")
}

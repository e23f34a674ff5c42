package rpc

import (
	"context"
	"errors"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/store"
)

const (
	// subscriptionPage is how many subscriptions a page has at most: each costs a read of its
	// publisher's events.
	subscriptionPage = 100
	// publishersAtOnce is how many of those reads a request has under way.
	publishersAtOnce = 8
)

// errNoSubscriptions refuses lists where there are no reminders, or no events.
var errNoSubscriptions = &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no subscriptions"}

// ListSubscriptions implements ActorService.
func (a *actorService) ListSubscriptions(ctx context.Context, req *connect.Request[greenroomv1.ListSubscriptionsRequest]) (*connect.Response[greenroomv1.ListSubscriptionsResponse], error) {
	list := pageList{greenroomv1connect.ActorServiceListSubscriptionsProcedure, edge.AppOf(req.Msg.GetApp()), req.Msg.GetType()}
	after, err := parsePageToken(list, req.Msg.GetPageToken(), afterReminder)
	if err != nil {
		return nil, err
	}
	if a.s.Reminders == nil || a.s.Feed == nil {
		return nil, errNoSubscriptions
	}
	found, next, err := a.s.Reminders.List(ctx, store.ReminderQuery{
		App: list.app, Type: list.typ, ID: req.Msg.GetId(), Cursors: true, After: after, Limit: min(pageSize(req.Msg.GetPageSize()), subscriptionPage),
	})
	if err != nil {
		return nil, err
	}
	newest, err := a.newestEvents(ctx, found)
	if err != nil {
		return nil, err
	}
	msg := &greenroomv1.ListSubscriptionsResponse{Subscriptions: make([]*greenroomv1.Subscription, len(found))}
	for i := range found {
		msg.Subscriptions[i] = a.subscriptionToProto(&found[i], newest[i])
	}
	if next.Name != "" {
		msg.NextPageToken = pageToken(list, reminderPosition(next))
	}
	return uncached(msg), nil
}

// newestEvents reads the position of the newest event of each cursor's publisher.
func (a *actorService) newestEvents(ctx context.Context, cursors []actor.Reminder) ([]actor.EventPosition, error) {
	newest, errs := make([]actor.EventPosition, len(cursors)), make([]error, len(cursors))
	places := make(chan struct{}, publishersAtOnce)
	var reading sync.WaitGroup
	for i := range cursors {
		places <- struct{}{}
		reading.Go(func() {
			defer func() { <-places }()
			newest[i], errs[i] = a.s.Feed.Newest(ctx, cursors[i].Cursor.Publisher)
		})
	}
	reading.Wait()
	return newest, errors.Join(errs...)
}

func (a *actorService) subscriptionToProto(r *actor.Reminder, newest actor.EventPosition) *greenroomv1.Subscription {
	c := r.Cursor
	m := &greenroomv1.Subscription{
		Subscriber: keyToProto(r.Key), Publisher: keyToProto(c.Publisher), Method: r.Method,
		Position: positionToProto(c.After), Newest: positionToProto(newest), Behind: newest != c.After,
		Failures: r.Failures, LastError: r.LastError, UpdatedAt: timestamppb.New(r.UpdatedAt),
	}
	if _, _, err := a.s.Modules.Current(c.Publisher.App, c.Publisher.Type); errors.Is(err, actor.ErrTypeNotFound) {
		m.PublisherTypeMissing = true
	}
	if r.Failures > 0 {
		m.NextAttempt = timestamppb.New(r.FireAt)
	}
	return m
}

// positionToProto returns a position for callers; empty for the one before all events.
func positionToProto(at actor.EventPosition) string {
	if at == (actor.EventPosition{}) {
		return ""
	}
	return at.String()
}

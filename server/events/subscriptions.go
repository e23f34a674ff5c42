package events

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Feed gives subscribers the events of actors. [*feed.Feed] does.
type Feed interface {
	Newest(ctx context.Context, key actor.Key) (actor.EventPosition, error)
	Read(ctx context.Context, key actor.Key, after actor.EventPosition) ([]actor.Event, error)
	Subscribe(ctx context.Context, key actor.Key, after actor.EventPosition, idle time.Duration, deliver func([]actor.Event) error) error
}

// Subscription is one that a server serves.
type Subscription struct {
	// KeptOnly ends the subscription after the events that are kept when they are read.
	KeptOnly bool
	// Waits is called now and then while it is not known yet where the subscription begins; nil: the
	// stream can say nothing before that.
	Waits func() error
	// Began is called with the position at which it begins, before the first event.
	Began func(actor.EventPosition) error
	// Deliver is called with events in their order, and Idle where nothing was sent for a while;
	// never two of the four at once.
	Deliver func([]actor.Event) error
	Idle    func() error
}

// idleEvery is how long nothing is sent on a subscription.
const idleEvery = 25 * time.Second

// Subscriptions are those to the events of actors that a server serves. Apps share them.
type Subscriptions struct {
	// Feed has the events; nil: nobody can subscribe.
	Feed     Feed
	open     edge.Places
	draining context.Context
}

// New returns subscriptions, limit of which may be open. They end when draining does.
func New(draining context.Context, feed Feed, limit int64) *Subscriptions {
	bounds := fair.Bounds{Name: "subscriptions to events", Total: limit, Always: limit / alwaysOpen, Most: limit}
	return &Subscriptions{Feed: feed, draining: draining, open: edge.NewPlaces(bounds, "end others, use another server, or start this one with a larger --max-subscriptions")}
}

// alwaysOpen is the part of all subscriptions that an app may have whatever others have.
const alwaysOpen = 64

// ParseFrom returns the position after which a subscription begins: the zero value for start, and nil
// for now and for an empty text, which ask for what is published from now on. The error is an
// [*actor.ArgumentError] of the field.
func ParseFrom(field, from string) (*actor.EventPosition, error) {
	switch from {
	case "", "now":
		return nil, nil //nolint:nilnil // from now on
	case "start":
		return &actor.EventPosition{}, nil
	}
	at, err := actor.ParseEventPosition(from)
	if err != nil {
		return nil, &actor.ArgumentError{Field: field, Problem: fmt.Sprintf("is %q; give the position of an event as it was received, or start, or now", from)}
	}
	return &at, nil
}

// Subscribe serves a subscription to an actor's events after a position, or, if that is nil, to
// what is published from now on. It ends with nil when the server begins to stop, or, with
// KeptOnly, after the last event that is kept; with [failure.ErrStopping] if it had not begun when the
// server began to stop.
func (s *Subscriptions) Subscribe(ctx context.Context, key actor.Key, after *actor.EventPosition, to Subscription) error {
	if s.Feed == nil {
		return &failure.Error{Kind: failure.KindNotImplemented, Text: "this server has no events"}
	}
	if err := s.open.Enter(key.App); err != nil {
		return err
	}
	defer s.open.Leave(key.App)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	begin, err := s.begin(ctx, key, after, to.Waits)
	switch {
	case err != nil && s.draining.Err() != nil:
		return failure.ErrStopping
	case err != nil:
		return err
	}
	if err := to.Began(begin); err != nil {
		return err
	}
	if to.KeptOnly {
		return s.deliverKept(ctx, key, begin, to.Deliver)
	}
	var failed error // by what to has
	err = s.Feed.Subscribe(ctx, key, begin, idleEvery, func(events []actor.Event) error {
		if len(events) == 0 {
			failed = to.Idle()
		} else {
			failed = to.Deliver(events)
		}
		return failed
	})
	if failed == nil && s.draining.Err() != nil {
		return nil
	}
	return err
}

// begin returns the position at which a subscription begins. It asks the feed again, and calls waits, each
// time there was no answer for a while.
func (s *Subscriptions) begin(ctx context.Context, key actor.Key, after *actor.EventPosition, waits func() error) (actor.EventPosition, error) {
	switch {
	case after != nil:
		return *after, nil
	case waits == nil:
		return s.Feed.Newest(ctx, key)
	}
	for {
		asked, cancel := context.WithTimeout(ctx, idleEvery)
		at, err := s.Feed.Newest(asked, key)
		late := err != nil && asked.Err() != nil && ctx.Err() == nil
		cancel()
		if !late {
			return at, err
		}
		if err := waits(); err != nil {
			return at, err
		}
	}
}

// deliverKept delivers the events of an actor after a position, until it has read the last one.
func (s *Subscriptions) deliverKept(ctx context.Context, key actor.Key, after actor.EventPosition, deliver func([]actor.Event) error) error {
	for {
		events, err := s.Feed.Read(ctx, key, after)
		switch {
		case s.draining.Err() != nil:
			return &actor.ReasonError{Condition: actor.ErrStopping, Reason: "the server stops, and has not sent all events; subscribe again after the last position"}
		case err != nil:
			return err
		case len(events) == 0:
			return nil
		}
		if err := deliver(events); err != nil {
			return err
		}
		after = events[len(events)-1].Position
	}
}

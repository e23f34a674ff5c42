package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/failure"
	"github.com/greenroom-run/greenroom/store"
)

// newestFeed has the newest events of actors, by their IDs; without a map it fails.
type newestFeed map[string]actor.EventPosition

func (f newestFeed) Newest(_ context.Context, key actor.Key) (actor.EventPosition, error) {
	if f == nil {
		return actor.EventPosition{}, fmt.Errorf("%w: the events", actor.ErrUnavailable)
	}
	return f[key.ID], nil
}

func (newestFeed) Read(context.Context, actor.Key, actor.EventPosition) ([]actor.Event, error) {
	return nil, errors.New("nothing to read")
}

func (newestFeed) Subscribe(context.Context, actor.Key, actor.EventPosition, time.Duration, func([]actor.Event) error) error {
	return errors.New("nothing to subscribe to")
}

// someCursors are the reminders of an app that has these cursors. gap is where a list stops as if
// nothing else were behind it.
type someCursors struct {
	noReminders
	list []actor.Reminder
	gap  int
}

func (c *someCursors) List(_ context.Context, q store.ReminderQuery) (page []actor.Reminder, next actor.ReminderName, err error) {
	if err := store.ValidateReminderQuery(&q); err != nil {
		return nil, next, err
	}
	if !q.Cursors {
		return nil, next, errors.New("asked for reminders")
	}
	for i := range c.list {
		r := &c.list[i]
		at := actor.ReminderName{Key: r.Key, Name: r.Name}
		switch {
		case q.Type != "" && r.Key.Type != q.Type, q.ID != "" && r.Key.ID != q.ID:
			continue
		case q.After.Name != "" && (r.Key.ID < q.After.Key.ID || r.Key.ID == q.After.Key.ID && r.Name <= q.After.Name):
			continue
		}
		if page = append(page, *r); len(page) == q.Limit || i+1 == c.gap {
			return page, at, nil
		}
	}
	return page, next, nil
}

// TestSubscriptionsAreListed with what each waits for, in pages that may be short.
func TestSubscriptionsAreListed(t *testing.T) {
	at, moved := actor.EventPosition{Version: 1 << 61, Index: 2}, time.Unix(1e9, 0)
	cursor := func(typ, id, publisherType, publisher string, after actor.EventPosition) actor.Reminder {
		c := actor.Cursor{Publisher: actor.Key{App: "default", Type: publisherType, ID: publisher}, After: after}
		return actor.Reminder{ReminderSpec: actor.CursorSpec(actor.Key{App: "default", Type: typ, ID: id}, "On", c), UpdatedAt: moved}
	}
	failed := cursor("Counter", "c", "Counter", "idle", at)
	failed.Failures, failed.LastError, failed.FireAt = 3, "no paper", moved.Add(time.Minute)
	backend := &someCursors{list: []actor.Reminder{
		cursor("Counter", "a", "Counter", "busy", at), cursor("Counter", "b", "Counter", "idle", at), failed,
		cursor("Counter", "d", "Counter", "silent", actor.EventPosition{}), cursor("Counter", "e", "Gone", "silent", actor.EventPosition{}),
	}, gap: 4}
	feed := newestFeed{"busy": {Version: 1<<61 + 1}, "idle": at}
	f := start(t, func(c *Config) { c.Reminders, c.Feed, c.Modules = backend, feed, remindersModules{newFakeModules()} })
	api := greenroomv1connect.NewActorServiceClient(client(t, false), f.url)
	list := func(req *greenroomv1.ListSubscriptionsRequest) (all []*greenroomv1.Subscription) {
		for {
			res, err := api.ListSubscriptions(t.Context(), connect.NewRequest(req))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, res.Msg.Subscriptions...)
			if req.PageToken = res.Msg.NextPageToken; req.PageToken == "" {
				return all
			}
		}
	}
	for _, size := range []int32{0, 1, 2} {
		all := list(&greenroomv1.ListSubscriptionsRequest{PageSize: size})
		if len(all) != len(backend.list) {
			t.Fatalf("pages of %d: %v", size, all)
		}
		for i, want := range []struct {
			position, newest string
			behind, missing  bool
		}{
			{at.String(), feed["busy"].String(), true, false}, {at.String(), at.String(), false, false}, {at.String(), at.String(), false, false},
			{}, {missing: true},
		} {
			s := all[i]
			if s.Position != want.position || s.Newest != want.newest || s.Behind != want.behind || s.PublisherTypeMissing != want.missing {
				t.Errorf("subscription %d: %v, want %+v", i, s, want)
			}
			if s.Subscriber.Id != string(rune('a'+i)) || s.Subscriber.App != "default" || s.Method != "On" || s.Publisher.Id != backend.list[i].Cursor.Publisher.ID || !s.UpdatedAt.AsTime().Equal(moved) {
				t.Errorf("subscription %d: %v", i, s)
			}
			if hasFailed := i == 2; (s.Failures == 3 && s.LastError == "no paper" && s.NextAttempt.AsTime().Equal(failed.FireAt)) != hasFailed || (s.NextAttempt != nil) != hasFailed {
				t.Errorf("subscription %d: %v", i, s)
			}
		}
	}
	if one := list(&greenroomv1.ListSubscriptionsRequest{Type: "Counter", Id: "c"}); len(one) != 1 || one[0].Subscriber.Id != "c" {
		t.Errorf("those of c: %v", one)
	}
	_, err := api.ListSubscriptions(t.Context(), connect.NewRequest(&greenroomv1.ListSubscriptionsRequest{Id: "c"}))
	wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
}

// heldFeed has each read of a newest event wait, and counts those that have begun.
type heldFeed struct {
	newestFeed
	begun   *atomic.Int32
	release chan struct{}
}

func (f heldFeed) Newest(context.Context, actor.Key) (actor.EventPosition, error) {
	f.begun.Add(1)
	<-f.release
	return actor.EventPosition{}, nil
}

// TestSubscriptionPagesAreBounded: a page has at most 100 subscriptions also if a caller asks for
// more, at most eight of their publishers are read at the same time, and no cache keeps the page.
func TestSubscriptionPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &someCursors{}
		for n := range 150 {
			c := actor.Cursor{Publisher: actor.Key{App: "default", Type: "Counter", ID: "p"}}
			backend.list = append(backend.list, actor.Reminder{ReminderSpec: actor.CursorSpec(actor.Key{App: "default", Type: "Counter", ID: fmt.Sprintf("%03d", n)}, "On", c)})
		}
		feed := heldFeed{begun: new(atomic.Int32), release: make(chan struct{})}
		f, network := startInBubble(t, func(c *Config) { c.Reminders, c.Feed = backend, feed })
		api := greenroomv1connect.NewActorServiceClient(network.client(t, false), f.url)
		listed := make(chan struct{})
		go func() {
			defer close(listed)
			res, err := api.ListSubscriptions(t.Context(), connect.NewRequest(&greenroomv1.ListSubscriptionsRequest{PageSize: 1000}))
			if err != nil {
				t.Error(err)
				return
			}
			if n := len(res.Msg.Subscriptions); n != 100 || res.Msg.NextPageToken == "" {
				t.Errorf("a page of %d, and the token %q", n, res.Msg.NextPageToken)
			}
			if cc := res.Header().Get("Cache-Control"); cc != "no-store" {
				t.Errorf("Cache-Control is %q", cc)
			}
		}()
		synctest.Wait()
		if n := feed.begun.Load(); n != 8 {
			t.Errorf("%d publishers are read at the same time, want 8", n)
		}
		close(feed.release)
		<-listed
	})
}

// TestSubscriptionsCannotBeListed without reminders or events, and while a store does not answer.
func TestSubscriptionsCannotBeListed(t *testing.T) {
	cursors := &someCursors{list: []actor.Reminder{{ReminderSpec: actor.CursorSpec(
		actor.Key{App: "default", Type: "T", ID: "a"}, "On", actor.Cursor{Publisher: actor.Key{App: "default", Type: "T", ID: "b"}})}}}
	for _, tt := range []struct {
		change func(*Config)
		code   connect.Code
		kind   actor.Kind
	}{
		{func(c *Config) { c.Feed = newestFeed{} }, connect.CodeUnimplemented, failure.KindNotImplemented},
		{func(c *Config) { c.Reminders = noReminders{} }, connect.CodeUnimplemented, failure.KindNotImplemented},
		{func(c *Config) { c.Reminders, c.Feed = noReminders{}, newestFeed{} }, connect.CodeUnavailable, actor.ErrUnavailable.Kind()},
		{func(c *Config) { c.Reminders, c.Feed = cursors, newestFeed(nil) }, connect.CodeUnavailable, actor.ErrUnavailable.Kind()},
	} {
		f := start(t, tt.change)
		_, err := greenroomv1connect.NewActorServiceClient(client(t, false), f.url).ListSubscriptions(t.Context(), connect.NewRequest(&greenroomv1.ListSubscriptionsRequest{}))
		wantError(t, err, tt.code, tt.kind)
	}
}

package events

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server/failure"
)

// pages is a feed of events of one actor, which it returns two at a time.
type pages struct {
	events []actor.Event
	read   func() // called before each read
	fails  error
	newest error // if not nil, the newest event cannot be read
}

func (p *pages) Newest(context.Context, actor.Key) (actor.EventPosition, error) {
	if p.newest != nil {
		return actor.EventPosition{}, p.newest
	}
	return p.events[len(p.events)-1].Position, nil
}

func (p *pages) Read(_ context.Context, _ actor.Key, after actor.EventPosition) ([]actor.Event, error) {
	if p.read != nil {
		p.read()
	}
	at := slices.IndexFunc(p.events, func(e actor.Event) bool { return after.Before(e.Position) })
	if at < 0 {
		return nil, p.fails
	}
	return p.events[at:min(at+2, len(p.events))], nil
}

func (p *pages) Subscribe(context.Context, actor.Key, actor.EventPosition, time.Duration, func([]actor.Event) error) error {
	return errors.New("it waits for new events")
}

// TestKeptOnly: such a subscription gets all that is kept, each event once, and ends; it ends with
// an error if a read fails, or if the server stops before the last event was sent.
func TestKeptOnly(t *testing.T) {
	p := &pages{}
	for i := range 5 {
		p.events = append(p.events, actor.Event{Position: actor.EventPosition{Version: 1, Index: uint32(i)}})
	}
	draining, stop := context.WithCancel(t.Context())
	defer stop()
	s := New(draining, p, 64)
	subscribe := func(after *actor.EventPosition) (began actor.EventPosition, got []actor.Event, err error) {
		err = s.Subscribe(t.Context(), actor.Key{App: "app", Type: "T", ID: "a"}, after, Subscription{
			KeptOnly: true,
			Began: func(at actor.EventPosition) error {
				began = at
				return nil
			},
			Deliver: func(list []actor.Event) error {
				got = append(got, list...)
				return nil
			},
		})
		return began, got, err
	}
	samePosition := func(a, b actor.Event) bool { return a.Position == b.Position }
	if _, got, err := subscribe(&actor.EventPosition{}); err != nil || !slices.EqualFunc(got, p.events, samePosition) {
		t.Errorf("from the start: %d events, %v", len(got), err)
	}
	if _, got, err := subscribe(&p.events[2].Position); err != nil || !slices.EqualFunc(got, p.events[3:], samePosition) {
		t.Errorf("after the third: %d events, %v", len(got), err)
	}
	if began, got, err := subscribe(nil); err != nil || len(got) > 0 || began != p.events[4].Position {
		t.Errorf("from now on: %d events from %s, %v", len(got), began, err)
	}
	p.fails = actor.ErrUnavailable
	if _, _, err := subscribe(&actor.EventPosition{}); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("the last read fails: %v", err)
	}
	p.fails, p.read = nil, stop
	if _, got, err := subscribe(&actor.EventPosition{}); !errors.Is(err, actor.ErrStopping) || len(got) == len(p.events) {
		t.Errorf("the server stops: %d events, %v", len(got), err)
	}
}

// TestFromNowOn: a subscription from now on gets what comes after the newest event, which it says as it
// begins, and does not begin if that cannot be read.
func TestFromNowOn(t *testing.T) {
	newest := actor.EventPosition{Version: 7, Index: 2}
	f := &script{pages: pages{events: []actor.Event{{Position: newest}}}}
	var after actor.EventPosition
	f.begins = func(at actor.EventPosition) { after = at }
	f.plays = func(context.Context, func([]actor.Event) error) error { return actor.ErrPositionGone }
	s := New(t.Context(), f, 64)
	for _, fails := range []error{nil, actor.ErrUnavailable} {
		var began []actor.EventPosition
		f.newest, after = fails, actor.EventPosition{}
		err := s.Subscribe(t.Context(), actor.Key{App: "app", Type: "T", ID: "a"}, nil, Subscription{Began: func(at actor.EventPosition) error {
			began = append(began, at)
			return nil
		}})
		switch {
		case fails == nil && (!errors.Is(err, actor.ErrPositionGone) || len(began) != 1 || began[0] != newest || after != newest):
			t.Errorf("began at %v, reads after %v, %v; want %v", began, after, err, newest)
		case fails != nil && (!errors.Is(err, fails) || len(began) > 0):
			t.Errorf("began at %v, %v; want no begin, and %v", began, err, fails)
		}
	}
}

// hung is a feed whose store has hung.
type hung struct {
	script
	until time.Time
}

func (h *hung) Newest(ctx context.Context, key actor.Key) (actor.EventPosition, error) {
	select {
	case <-time.After(time.Until(h.until)):
		return h.script.Newest(ctx, key)
	case <-ctx.Done():
		return actor.EventPosition{}, ctx.Err()
	}
}

// TestNoBegin: where the store says at once that it cannot say where a subscription begins, that is its end.
func TestNoBegin(t *testing.T) {
	p := &pages{newest: actor.ErrUnavailable}
	err := New(t.Context(), p, 64).Subscribe(t.Context(), actor.Key{App: "app", Type: "T", ID: "a"}, nil, Subscription{
		Waits: func() error { return errors.New("the stream waits") },
	})
	if !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestStopBeforeTheBegin: a stream that has not begun when its server begins to stop ends at once, and says why.
func TestStopBeforeTheBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		draining, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		for _, waits := range []func() error{func() error { return nil }, nil} {
			err := New(draining, &hung{until: start.Add(time.Hour)}, 64).Subscribe(t.Context(), actor.Key{App: "app", Type: "T", ID: "a"}, nil, Subscription{Waits: waits})
			if took := time.Since(start); !errors.Is(err, failure.ErrStopping) || took != time.Second {
				t.Errorf("%v after %v", err, took)
			}
		}
	})
}

// TestWaitsForTheBegin: while the store does not say where a subscription begins, its stream is not silent;
// it ends if it breaks, and with its client.
func TestWaitsForTheBegin(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		gone  time.Duration // when the client is
		fails bool          // the stream, after that time
		got   []string
		err   error
	}{
		{"until the store answers", time.Hour, false, []string{"waits 25s", "waits 50s", "began 1m0s"}, actor.ErrPositionGone},
		{"until the stream breaks", 40 * time.Second, true, []string{"waits 25s", "waits 50s"}, broken},
		{"until the client is gone", 40 * time.Second, false, []string{"waits 25s"}, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if !tt.fails {
					time.AfterFunc(tt.gone, cancel)
				}
				f := &hung{until: start.Add(time.Minute)}
				f.events = []actor.Event{{Name: "n"}}
				f.plays = func(context.Context, func([]actor.Event) error) error { return actor.ErrPositionGone }
				var got []string
				note := func(what string) error {
					got = append(got, what+" "+time.Since(start).String())
					if tt.fails && time.Since(start) > tt.gone {
						return broken
					}
					return nil
				}
				err := New(t.Context(), f, 64).Subscribe(ctx, actor.Key{App: "app", Type: "T", ID: "a"}, nil, Subscription{
					Waits: func() error { return note("waits") },
					Began: func(actor.EventPosition) error { return note("began") },
				})
				if !slices.Equal(got, tt.got) || !errors.Is(err, tt.err) {
					t.Errorf("%q, %v; want %q, %v", got, err, tt.got, tt.err)
				}
			})
		})
	}
}

// script is a feed that a test plays.
type script struct {
	pages
	begins func(after actor.EventPosition) // if not nil
	plays  func(ctx context.Context, deliver func([]actor.Event) error) error
}

func (s *script) Subscribe(ctx context.Context, _ actor.Key, after actor.EventPosition, _ time.Duration, deliver func([]actor.Event) error) error {
	if s.begins != nil {
		s.begins(after)
	}
	return s.plays(ctx, deliver)
}

// TestSubscribe: a subscription gets what its feed delivers, learns when nothing came, and ends with the
// error of its stream or of its feed; without one only because the server stops.
func TestSubscribe(t *testing.T) {
	broken := errors.New("broken")
	event := []actor.Event{{Name: "n"}}
	for _, tt := range []struct {
		name  string
		plays func(ctx context.Context, deliver func([]actor.Event) error, stop func()) error
		fails string // what the stream refuses
		got   []string
		err   error
	}{{
		name: "events and none",
		plays: func(_ context.Context, deliver func([]actor.Event) error, _ func()) error {
			return errors.Join(deliver(nil), deliver(event), deliver(nil), broken)
		},
		got: []string{"began", "idle", "events", "idle"}, err: broken,
	}, {
		name:  "the stream breaks",
		plays: func(_ context.Context, deliver func([]actor.Event) error, _ func()) error { return deliver(event) },
		fails: "events", got: []string{"began", "events"}, err: broken,
	}, {
		name: "the stream breaks while the server stops",
		plays: func(_ context.Context, deliver func([]actor.Event) error, stop func()) error {
			stop()
			return deliver(event)
		},
		fails: "events", got: []string{"began", "events"}, err: broken,
	}, {
		name: "the stream breaks while the server stops and nothing came",
		plays: func(_ context.Context, deliver func([]actor.Event) error, stop func()) error {
			stop()
			return deliver(nil)
		},
		fails: "idle", got: []string{"began", "idle"}, err: broken,
	}, {
		name: "the server stops",
		plays: func(ctx context.Context, _ func([]actor.Event) error, stop func()) error {
			stop()
			<-ctx.Done()
			return ctx.Err()
		},
		got: []string{"began"},
	}, {
		name:  "it cannot begin",
		plays: func(context.Context, func([]actor.Event) error, func()) error { return nil },
		fails: "began", got: []string{"began"}, err: broken,
	}} {
		draining, stop := context.WithCancel(t.Context())
		s := New(draining, &script{plays: func(ctx context.Context, deliver func([]actor.Event) error) error {
			return tt.plays(ctx, deliver, stop)
		}}, 64)
		var got []string
		note := func(what string) error {
			got = append(got, what)
			if what == tt.fails {
				return broken
			}
			return nil
		}
		err := s.Subscribe(t.Context(), actor.Key{App: "app", Type: "T", ID: "a"}, &actor.EventPosition{}, Subscription{
			Began:   func(actor.EventPosition) error { return note("began") },
			Deliver: func([]actor.Event) error { return note("events") },
			Idle:    func() error { return note("idle") },
		})
		stop()
		if !slices.Equal(got, tt.got) || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %q, %v; want %q, %v", tt.name, got, err, tt.got, tt.err)
		}
	}
}

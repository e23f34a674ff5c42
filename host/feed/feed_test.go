package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// events is a store of events.
type events struct {
	mu      sync.Mutex
	of      map[actor.Key][]actor.Event
	trimmed map[actor.Key]actor.EventPosition
	reads   int
	hold    chan struct{} // if not nil, received from before each read
	answer  chan struct{} // if not nil, received from after each read
	fails   error
	panics  string        // what the next read panics with
	trims   chan struct{} // if not nil, received from before each trim
}

func newEvents() *events {
	return &events{of: map[actor.Key][]actor.Event{}, trimmed: map[actor.Key]actor.EventPosition{}}
}

var key = actor.Key{App: "app", Type: "T", ID: "a"}

func (s *events) publish(k actor.Key, texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := uint64(len(s.of[k])) + s.trimmed[k].Version + 1
	for i, text := range texts {
		s.of[k] = append(s.of[k], actor.Event{
			Position: actor.EventPosition{Version: version, Index: uint32(i)}, Name: "n", Payload: actor.Payload{Data: []byte(text)},
		})
	}
}

func (s *events) ReadEvents(ctx context.Context, q actor.EventQuery) (page actor.EventPage, err error) {
	s.mu.Lock()
	hold, answer := s.hold, s.answer
	s.mu.Unlock()
	if answer != nil {
		defer func() { <-answer }()
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return page, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.panics != "" {
		defer func() { s.panics = "" }()
		panic(s.panics)
	}
	if s.fails != nil {
		return page, s.fails
	}
	for _, e := range s.of[q.Key] {
		if q.After.Before(e.Position) && len(page.Events) < q.Limit {
			page.Events = append(page.Events, e)
		}
	}
	page.Trimmed = s.trimmed[q.Key]
	return page, nil
}

func (s *events) NewestEvent(_ context.Context, k actor.Key) (at actor.EventPosition, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return at, s.fails
	}
	if at = s.trimmed[k]; len(s.of[k]) > 0 {
		at = s.of[k][len(s.of[k])-1].Position
	}
	return at, nil
}

func (s *events) TrimEvents(_ context.Context, k actor.Key, keep actor.EventsKept) error {
	if s.trims != nil {
		<-s.trims
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.of[k]) - keep.Count; n > 0 {
		s.trimmed[k] = s.of[k][n-1].Position
		s.of[k] = s.of[k][n:]
	}
	return nil
}

func (s *events) takeReads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.reads
	s.reads = 0
	return n
}

// subscriber is a subscription, and what it got.
type subscriber struct {
	mu    sync.Mutex
	texts []string
	err   error
	ended chan struct{}
	stop  context.CancelFunc
	slow  chan struct{} // if not nil, received from before each delivery ends
}

func subscribe(t *testing.T, f *Feed, after actor.EventPosition, slow chan struct{}) *subscriber {
	ctx, cancel := context.WithCancel(t.Context())
	s := &subscriber{ended: make(chan struct{}), stop: cancel, slow: slow}
	go func() {
		defer close(s.ended)
		s.err = f.Subscribe(ctx, key, after, time.Hour, func(list []actor.Event) error {
			s.mu.Lock()
			for _, e := range list {
				s.texts = append(s.texts, string(e.Payload.Data))
			}
			s.mu.Unlock()
			if s.slow != nil {
				select {
				case <-s.slow:
				case <-ctx.Done():
				}
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-s.ended
	})
	return s
}

func (s *subscriber) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.texts, want) {
		t.Errorf("got %q, want %q", s.texts, want)
	}
	s.texts = nil
}

func testFeed(s *events, shared bool, keep Retention) *Feed {
	return New(Config{Store: s, Shared: shared, Logger: slog.New(slog.DiscardHandler), Retention: func(string, string) Retention { return keep }})
}

func (s *events) publishIn(f *Feed, texts ...string) {
	s.publish(key, texts...)
	f.Published(key, len(texts))
}

func numbered(from, to int) (texts []string) {
	for i := from; i <= to; i++ {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

// Subscribers get what is there after their positions, and then what is published, each event
// once and in order, and all of them by one read of the store.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publishIn(f, "1", "2")
		first := subscribe(t, f, actor.EventPosition{}, nil)
		first.want(t, "1", "2")
		newest, err := f.Newest(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var others []*subscriber
		for range 100 {
			others = append(others, subscribe(t, f, newest, nil))
		}
		others[0].want(t)
		s.takeReads()
		s.publishIn(f, "3")
		first.want(t, "3")
		for _, o := range others {
			o.want(t, "3")
		}
		if n := s.takeReads(); n > 2 {
			t.Errorf("%d reads for one event", n)
		}
		f.Published(actor.Key{App: "app", Type: "T", ID: "other"}, 1)
		synctest.Wait()
		if n := s.takeReads(); n > 0 {
			t.Errorf("%d reads for the event of another actor", n)
		}
		for _, o := range append(others, first) {
			o.stop()
			<-o.ended
			if !errors.Is(o.err, context.Canceled) {
				t.Errorf("ended with %v", o.err)
			}
		}
		if len(f.topics) != 0 {
			t.Error("a topic is left")
		}
	})
}

// What is published while the events before it are read is not missed.
func TestPublishedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publishIn(f, "1")
		hold := make(chan struct{})
		s.hold = hold
		a, b := subscribe(t, f, actor.EventPosition{}, nil), subscribe(t, f, actor.EventPosition{}, nil)
		synctest.Wait()
		hold <- struct{}{}
		synctest.Wait()
		s.publishIn(f, "2") // the next read is under way
		for range 4 {
			select {
			case hold <- struct{}{}:
			case <-time.After(time.Second):
			}
		}
		a.want(t, "1", "2")
		b.want(t, "1", "2")
	})
}

// A subscriber that is slow, or far behind, reads for itself, misses nothing and holds up nobody.
func TestSlowSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publishIn(f, "0")
		slow := subscribe(t, f, actor.EventPosition{}, make(chan struct{}))
		quick := subscribe(t, f, actor.EventPosition{}, nil)
		quick.want(t, "0")
		for i := range 3 * maxRecent {
			s.publishIn(f, fmt.Sprint(i+1))
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		quick.want(t, numbered(1, 3*maxRecent)...)
		slow.want(t, "0")
		close(slow.slow)
		slow.want(t, numbered(1, 3*maxRecent)...)
		late := subscribe(t, f, actor.EventPosition{}, nil)
		late.want(t, numbered(0, 3*maxRecent)...)
	})
}

// Of more events than one read brings, published at once, a subscriber that waits gets all.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		waits := subscribe(t, f, actor.EventPosition{}, nil)
		waits.want(t)
		s.publishIn(f, numbered(1, 2*pageEvents+10)...)
		waits.want(t, numbered(1, 2*pageEvents+10)...)
	})
}

// After many large events, subscribers share the reads of small ones as before.
func TestLargeEventsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		var all []*subscriber
		for range 50 {
			all = append(all, subscribe(t, f, actor.EventPosition{}, nil))
		}
		large := strings.Repeat("x", actor.MaxEventPayload)
		for range 2 * maxRecentBytes / actor.MaxEventPayload {
			s.publishIn(f, large)
			all[0].want(t, large)
		}
		for _, a := range all[1:] {
			a.texts = nil
		}
		s.takeReads()
		s.publishIn(f, "1", "2")
		for _, a := range all {
			a.want(t, "1", "2")
		}
		if n := s.takeReads(); n > 2 {
			t.Errorf("%d reads for two events", n)
		}
	})
}

// An app has a bounded number of trims at once.
func TestTrimsOfAnAppAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		s.trims = make(chan struct{})
		f := testFeed(s, false, Retention{})
		f.trimmer.chance = func(int) int { return 0 }
		for i := range 2 * maxTrims {
			f.Published(actor.Key{App: "app", Type: "T", ID: fmt.Sprint(i)}, 1)
		}
		if n := f.trimmer.waiting["app"]; n != maxTrims {
			t.Errorf("%d trims are under way or wait, of %d", n, maxTrims)
		}
		close(s.trims)
		f.Stop()
		if len(f.trimmer.waiting) != 0 {
			t.Errorf("when all are over, %v wait", f.trimmer.waiting)
		}
	})
}

// The events of an actor that was deleted are not given to new subscribers, also not while others
// have them in memory; those that it publishes afterwards are, to all.
func TestRemovedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, "a", "b")
		first := subscribe(t, f, actor.EventPosition{}, nil)
		first.want(t, "a", "b")
		s.mu.Lock()
		s.trimmed[key], s.of[key] = s.of[key][1].Position, nil
		s.mu.Unlock()
		f.Removed(key)
		second := subscribe(t, f, actor.EventPosition{}, nil)
		second.want(t)
		s.publishIn(f, "c")
		first.want(t, "c")
		second.want(t, "c")
	})
}

// Who asks for events that are not kept any more learns it, and from where on there are some.
func TestPositionGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{Count: 4})
		f.trimmer.chance = func(int) int { return 0 }
		s.publishIn(f, numbered(1, 3)...)
		position := s.of[key][0].Position
		s.publishIn(f, numbered(4, 9)...)
		f.Stop()
		gone := subscribe(t, f, position, nil)
		synctest.Wait()
		<-gone.ended
		if !errors.Is(gone.err, actor.ErrPositionGone) {
			t.Errorf("ended with %v", gone.err)
		}
		for _, from := range []actor.EventPosition{s.trimmed[key], {}} {
			kept := subscribe(t, f, from, nil)
			kept.want(t, numbered(6, 9)...)
		}
	})
}

// TestNothingKept: subscribers from the start share what is read of an actor whose events were all trimmed.
func TestNothingKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, numbered(1, 3)...)
		if err := s.TrimEvents(t.Context(), key, actor.EventsKept{}); err != nil {
			t.Fatal(err)
		}
		var all []*subscriber
		for range 50 {
			all = append(all, subscribe(t, f, actor.EventPosition{}, nil))
		}
		all[0].want(t)
		s.takeReads()
		s.publishIn(f, "4")
		for _, a := range all {
			a.want(t, "4")
		}
		if n := s.takeReads(); n > 2 {
			t.Errorf("%d reads for one event", n)
		}
	})
}

// Read returns what is kept after a position, nothing after the last event, and says which events are
// gone.
func TestRead(t *testing.T) {
	s := newEvents()
	f := testFeed(s, false, Retention{})
	s.publish(key, numbered(1, 3)...)
	first := s.of[key][0].Position
	for _, tc := range []struct {
		after actor.EventPosition
		want  int
	}{{actor.EventPosition{}, 3}, {first, 2}, {s.of[key][2].Position, 0}} {
		if events, err := f.Read(t.Context(), key, tc.after); err != nil || len(events) != tc.want {
			t.Errorf("after %s: %d events, %v; want %d", tc.after, len(events), err, tc.want)
		}
	}
	if err := s.TrimEvents(t.Context(), key, actor.EventsKept{Count: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(t.Context(), key, first); !errors.Is(err, actor.ErrPositionGone) {
		t.Errorf("after an event whose successor is gone: %v", err)
	}
	if events, err := f.Read(t.Context(), key, actor.EventPosition{}); err != nil || len(events) != 1 {
		t.Errorf("from the start: %d events, %v; want 1", len(events), err)
	}
}

// Where other hosts publish, a topic asks the store; a read that fails ends the subscription.
func TestPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, true, Retention{})
		a := subscribe(t, f, actor.EventPosition{}, nil)
		a.want(t)
		s.publish(key, "1")
		a.want(t)
		time.Sleep(f.cfg.PollEvery) // of the bubble's clock
		a.want(t, "1")
		s.mu.Lock()
		s.fails = actor.ErrUnavailable
		s.mu.Unlock()
		time.Sleep(f.cfg.PollEvery)
		synctest.Wait()
		<-a.ended
		if !errors.Is(a.err, actor.ErrUnavailable) {
			t.Errorf("ended with %v", a.err)
		}
	})
}

// TestPull: a cursor gets the event behind it, or the position up to which events are gone: they were
// trimmed, or removed with their actor, which may begin anew at a lower version.
func TestPull(t *testing.T) {
	s := newEvents()
	f := New(Config{Store: s, Logger: slog.New(slog.DiscardHandler)})
	cursor := func(after actor.EventPosition) actor.Firing {
		return actor.Firing{Pull: &actor.Pull{Cursor: actor.Cursor{Publisher: key, After: after}}}
	}
	at := func(version uint64, index uint32) actor.EventPosition {
		return actor.EventPosition{Version: version, Index: index}
	}
	none := func(after actor.EventPosition) {
		t.Helper()
		if _, ok, err := f.Pull(t.Context(), cursor(after)); ok || err != nil {
			t.Errorf("after %v: %v, %v, want no event", after, ok, err)
		}
	}
	gets := func(after, position actor.EventPosition, text string) {
		t.Helper()
		before := cursor(after)
		got, ok, err := f.Pull(t.Context(), before)
		if err != nil || !ok || got.Pull.Event.Position != position || got.Pull.Gone != (text == "") || string(got.Payload.Data) != text {
			t.Errorf("after %v: %+v with %q, %v, %v", after, got.Pull, got.Payload.Data, ok, err)
		}
		if before.Pull.Event.Position != (actor.EventPosition{}) {
			t.Error("the firing that was given is changed")
		}
	}
	none(at(0, 0))
	s.publish(key, "1", "2")
	s.publish(key, "3")
	gets(at(0, 0), at(1, 0), "1")
	gets(at(1, 0), at(1, 1), "2")
	gets(at(1, 1), at(3, 0), "3")
	none(at(3, 0))
	if n := s.takeReads(); n != 3 {
		t.Errorf("%d reads of events for three", n)
	}

	if err := s.TrimEvents(t.Context(), key, actor.EventsKept{Count: 1}); err != nil {
		t.Fatal(err)
	}
	gets(at(0, 0), at(1, 1), "") // who subscribed before the first event has missed it, too
	gets(at(1, 0), at(1, 1), "")
	gets(at(1, 1), at(3, 0), "3")

	// The actor is deleted, and begins anew.
	s.of[key], s.trimmed[key] = nil, at(0, 0)
	gets(at(3, 0), at(0, 0), "")
	none(at(0, 0))
	s.publish(key, "anew")
	gets(at(3, 0), at(0, 0), "")
	gets(at(0, 0), at(1, 0), "anew")
	s.fails = errors.New("away")
	if _, ok, err := f.Pull(t.Context(), cursor(at(0, 0))); ok || !errors.Is(err, s.fails) {
		t.Errorf("of a store that fails: %v, %v", ok, err)
	}
}

// TestIdle: deliver is called without events each time none came for the time idle, which starts again
// with each event.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 25 * time.Second
		st := newEvents()
		f := New(Config{Store: st})
		began := time.Now()
		var got []string
		err := f.Subscribe(t.Context(), key, actor.EventPosition{}, idle, func(list []actor.Event) error {
			after := time.Since(began)
			got = append(got, fmt.Sprint(len(list), " after ", after))
			switch after {
			case idle:
				time.AfterFunc(20*time.Second, func() {
					st.publish(key, "one")
					f.Published(key, 1)
				})
			case 45*time.Second + 2*idle:
				return errors.New("enough")
			}
			return nil
		})
		want := []string{"0 after 25s", "1 after 45s", "0 after 1m10s", "0 after 1m35s"}
		if err == nil || !slices.Equal(got, want) {
			t.Errorf("delivered %q, %v; want %q", got, err, want)
		}
	})
}

// TestIdleWithoutAnAnswer: deliver is called without events also while the store does not answer, and the
// events come once it does.
func TestIdleWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 25 * time.Second
		st := newEvents()
		st.publish(key, "one")
		st.hold = make(chan struct{})
		f := New(Config{Store: st})
		began := time.Now()
		var got []string
		err := f.Subscribe(t.Context(), key, actor.EventPosition{}, idle, func(list []actor.Event) error {
			got = append(got, fmt.Sprint(len(list), " after ", time.Since(began)))
			switch len(got) {
			case 2:
				close(st.hold)
			case 3:
				return errors.New("enough")
			}
			return nil
		})
		want := []string{"0 after 25s", "0 after 50s", "1 after 50s"}
		if err == nil || !slices.Equal(got, want) {
			t.Errorf("delivered %q, %v; want %q", got, err, want)
		}
	})
}

// TestIdleBehindOthersReads: a subscriber hears something as often as the time idle also if it waits for the
// read of another that gets no answer, and then reads itself.
func TestIdleBehindOthersReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 25 * time.Second
		st := newEvents()
		st.hold = make(chan struct{})
		f := New(Config{Store: st})
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			go func() {
				last, heard := time.Now(), 0
				err := f.Subscribe(ctx, key, actor.EventPosition{}, idle, func([]actor.Event) error {
					if quiet := time.Since(last); quiet > idle {
						t.Errorf("nothing for %s", quiet)
					}
					last = time.Now()
					if heard++; heard == 4 {
						return errors.New("enough")
					}
					return nil
				})
				if heard != 4 || errors.Is(err, context.Canceled) {
					t.Errorf("heard something %d times, %v", heard, err)
				}
			}()
			time.Sleep(7 * time.Second) // of the bubble's clock
		}
		time.Sleep(10 * idle)
		cancel()
	})
}

// TestIdleAfterALateAnswer: after the store did not answer for the time idle, and then has nothing, deliver
// is called once in that time.
func TestIdleAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 25 * time.Second
		st := newEvents()
		st.hold = make(chan struct{})
		f := New(Config{Store: st})
		began := time.Now()
		var got []string
		err := f.Subscribe(t.Context(), key, actor.EventPosition{}, idle, func(list []actor.Event) error {
			if got = append(got, fmt.Sprint(len(list), " after ", time.Since(began))); len(got) == 1 {
				close(st.hold)
				return nil
			}
			return errors.New("enough")
		})
		if want := []string{"0 after 25s", "0 after 50s"}; err == nil || !slices.Equal(got, want) {
			t.Errorf("delivered %q, %v; want %q", got, err, want)
		}
	})
}

// TestEndWithoutAnAnswer: a subscription whose stream breaks while the store does not answer ends.
func TestEndWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newEvents()
		st.hold = make(chan struct{})
		broken, calls := errors.New("broken"), 0
		err := New(Config{Store: st}).Subscribe(t.Context(), key, actor.EventPosition{}, time.Second, func([]actor.Event) error {
			if calls++; calls == 1 {
				return broken
			}
			return errors.New("called once more")
		})
		if !errors.Is(err, broken) {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestEndWhileEventsFlow: a subscription whose context ends gets no more events, also if there are always some.
func TestEndWhileEventsFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newEvents()
		f := New(Config{Store: st})
		st.publish(key, "first")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := 0
		// Another has its topic remember what comes.
		other := subscribe(t, f, actor.EventPosition{}, nil)
		err := f.Subscribe(ctx, key, actor.EventPosition{}, time.Hour, func([]actor.Event) error {
			if calls++; calls > 1 {
				return errors.New("called once more")
			}
			st.publishIn(f, "next")
			synctest.Wait()
			cancel()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		other.want(t, "first", "next")
	})
}

// answerLater has the next read of a store answer only once the channel is received from.
func (s *events) answerLater() (answer chan struct{}) {
	answer = make(chan struct{})
	s.setAnswer(answer)
	synctest.Wait()
	return answer
}

func (s *events) setAnswer(answer chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

package feed

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Subscribers that begin behind what their topic remembers share what is read for one of them.
func TestSubscribersAheadOfTheTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publishIn(f, "1")
		slow := subscribe(t, f, actor.EventPosition{}, make(chan struct{}))
		slow.want(t, "1")
		s.publishIn(f, numbered(2, 5)...) // which nobody reads: the only subscriber is busy
		newest, err := f.Newest(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		a, b := subscribe(t, f, newest, nil), subscribe(t, f, newest, nil)
		a.want(t)
		s.publishIn(f, "6")
		a.want(t, "6")
		b.want(t, "6")
	})
}

// TestRemovedWhileReading: what was read before an actor was deleted is not given to who subscribes
// afterwards.
func TestRemovedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		s.answer = make(chan struct{})
		f := testFeed(s, false, Retention{})
		s.publish(key, "a", "b")
		first := subscribe(t, f, actor.EventPosition{}, nil)
		first.want(t)
		s.mu.Lock()
		s.of[key] = nil
		s.mu.Unlock()
		f.Removed(key)
		second := subscribe(t, f, actor.EventPosition{}, nil)
		second.want(t)
		close(s.answer)
		first.want(t, "a", "b")
		second.want(t)
	})
}

// TestEventsGoneForSeveral: all that wait for events that are not kept any more learn it, though one of them
// reads for all.
func TestEventsGoneForSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, numbered(1, 3)...)
		third := s.of[key][2].Position
		all := []*subscriber{subscribe(t, f, third, nil), subscribe(t, f, third, nil), subscribe(t, f, third, nil)}
		all[0].want(t)
		s.publish(key, numbered(4, 9)...)
		if err := s.TrimEvents(t.Context(), key, actor.EventsKept{Count: 4}); err != nil {
			t.Fatal(err)
		}
		f.Published(key, 6)
		for _, a := range all {
			a.want(t)
			a.stop()
			<-a.ended
			if !errors.Is(a.err, actor.ErrPositionGone) {
				t.Errorf("ended with %v", a.err)
			}
		}
	})
}

// TestEventsGoneBehindTheStart: who asks for events that are not kept any more learns it also if another has
// read from the start what is kept.
func TestEventsGoneBehindTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, numbered(1, 9)...)
		second := s.of[key][1].Position
		if err := s.TrimEvents(t.Context(), key, actor.EventsKept{Count: 4}); err != nil {
			t.Fatal(err)
		}
		start := subscribe(t, f, actor.EventPosition{}, nil)
		start.want(t, numbered(6, 9)...)
		gone, late := subscribe(t, f, second, nil), subscribe(t, f, s.trimmed[key], nil)
		late.want(t, numbered(6, 9)...)
		gone.want(t)
		gone.stop()
		<-gone.ended
		if !errors.Is(gone.err, actor.ErrPositionGone) {
			t.Errorf("ended with %v", gone.err)
		}
	})
}

// TestStartBehindAGap: who subscribes from the start gets what is kept, and not what was remembered from before
// some events were missed.
func TestStartBehindAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, numbered(1, 3)...)
		subscribe(t, f, actor.EventPosition{}, make(chan struct{})) // which keeps the topic, and is slow
		gone := subscribe(t, f, actor.EventPosition{}, nil)
		gone.want(t, numbered(1, 3)...)
		s.publish(key, numbered(4, 9)...)
		if err := s.TrimEvents(t.Context(), key, actor.EventsKept{Count: 4}); err != nil {
			t.Fatal(err)
		}
		f.Published(key, 6)
		<-gone.ended
		if !errors.Is(gone.err, actor.ErrPositionGone) {
			t.Errorf("ended with %v", gone.err)
		}
		subscribe(t, f, actor.EventPosition{}, nil).want(t, numbered(6, 9)...)
	})
}

// TestPositionOfNoEvent: who subscribes after a position that no event has gets what comes after that, and
// the other subscribers of the actor share their reads, whoever came first.
func TestPositionOfNoEvent(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("first ", first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testPositionOfNoEvent(t, first) })
		})
	}
}

func testPositionOfNoEvent(t *testing.T, first bool) {
	s := newEvents()
	f := testFeed(s, true, Retention{})
	s.publish(key, "1", "2")
	newest := s.of[key][1].Position
	var ahead *subscriber
	come := func() {
		ahead = subscribe(t, f, actor.EventPosition{Version: 6, Index: 1}, nil)
		ahead.want(t)
	}
	if first {
		come()
	}
	all := []*subscriber{subscribe(t, f, actor.EventPosition{}, nil)}
	all[0].want(t, "1", "2")
	for range 20 {
		all = append(all, subscribe(t, f, newest, nil))
	}
	all[1].want(t)
	if !first {
		come()
	}
	s.takeReads()
	for range 3 { // polls
		time.Sleep(f.cfg.PollEvery)
		synctest.Wait()
	}
	if n := s.takeReads(); n > 3 {
		t.Errorf("%d reads in three polls", n)
	}
	s.publish(key, "3", "4")
	s.publish(key, "5")
	s.publish(key, "6")
	s.publish(key, "7")
	time.Sleep(f.cfg.PollEvery)
	for _, a := range all {
		a.want(t, "3", "4", "5", "6", "7")
	}
	ahead.want(t, "7")
}

// TestReadThatPanics: after a read that panicked, which servers take for the failure of one request, the
// other subscribers of the actor get its events.
func TestReadThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, "1")
		first := s.of[key][0].Position
		subscribe(t, f, actor.EventPosition{}, make(chan struct{})).want(t, "1") // which keeps the topic, and is slow
		s.publish(key, "2")
		s.panics = "broken"
		func() {
			defer func() {
				if v := recover(); v != "broken" {
					t.Errorf("recovered %v", v)
				}
			}()
			_ = f.Subscribe(t.Context(), key, first, time.Hour, func([]actor.Event) error { return nil })
		}()
		subscribe(t, f, first, nil).want(t, "2")
	})
}

// TestPublishedBeforeTheTopicGoesBack: a topic that began at a position which no event has, and goes back
// to a subscriber behind that, reads what was published since that subscriber has read.
func TestPublishedBeforeTheTopicGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, "1")
		ahead := subscribe(t, f, actor.EventPosition{Version: 9}, nil)
		ahead.want(t)
		answer := s.answerLater()
		behind := subscribe(t, f, s.of[key][0].Position, nil)
		behind.want(t) // it has read that there is nothing, and does not know that yet
		s.setAnswer(nil)
		s.publishIn(f, "2")
		ahead.want(t) // it has read for all, from its own position on
		answer <- struct{}{}
		behind.want(t, "2")
	})
}

// TestTopicGoesBackWhileReading: what was read behind a position that no event has is not taken for what
// follows the position to which the topic has gone back meanwhile.
func TestTopicGoesBackWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, "1")
		ahead := subscribe(t, f, actor.EventPosition{Version: 3, Index: 1}, nil)
		ahead.want(t)
		goesBack := s.answerLater()
		behind := subscribe(t, f, s.of[key][0].Position, nil)
		behind.want(t) // it has read that there is nothing, and does not know that yet
		reads := s.answerLater()
		s.publish(key, "2")
		s.publish(key, "3")
		s.publishIn(f, "4")
		synctest.Wait() // the one ahead has read the last of these, and does not know that yet
		s.setAnswer(nil)
		goesBack <- struct{}{}
		behind.want(t)
		reads <- struct{}{}
		behind.want(t, "2", "3", "4")
		ahead.want(t, "4")
	})
}

// TestRemovedWhileNobodyWaits: a subscription to an actor that was deleted learns that the events behind its
// position are gone, also where a subscriber that is slow keeps the topic, and nothing is published.
func TestRemovedWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEvents()
		f := testFeed(s, false, Retention{})
		s.publish(key, "a", "b")
		first, newest := s.of[key][0].Position, s.of[key][1].Position
		slow := subscribe(t, f, actor.EventPosition{}, make(chan struct{}))
		slow.want(t, "a", "b")
		quick := subscribe(t, f, newest, nil)
		quick.want(t) // the topic knows that there is nothing new
		quick.stop()
		<-quick.ended
		s.mu.Lock()
		s.trimmed[key], s.of[key] = newest, nil
		s.mu.Unlock()
		f.Removed(key)
		late := subscribe(t, f, first, nil)
		late.want(t)
		select {
		case <-late.ended:
			if !errors.Is(late.err, actor.ErrPositionGone) {
				t.Errorf("ended with %v", late.err)
			}
		default:
			t.Error("it waits for events behind a position that is gone")
		}
	})
}

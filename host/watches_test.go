package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// watching is an actor that watches the hosts of others, which its methods name in their payload,
// and what it has learned.
type watching struct {
	learned heard
}

func (w *watching) actor(placement string) hosttest.Actor {
	watch := func(method string) hosttest.Func {
		return func(t *hosttest.Turn) error {
			replaced, err := t.Watch("W", string(t.Frame.Payload), method)
			if err != nil {
				return err
			}
			return t.Reply(fmt.Sprint(replaced))
		}
	}
	learn := func(t *hosttest.Turn) error {
		if t.Frame.Cause != abi.CauseDisconnected {
			return hosttest.Fail(fmt.Sprint("cause ", t.Frame.Cause))
		}
		t.Frame.Cause = abi.CauseMessage
		t.Frame.Payload = []byte("at " + t.Frame.ID)
		return w.learned.method(t)
	}
	a := hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
		"Watch": watch("Lost"), "Unwatch": watch(""), "Lost": learn,
		"WatchAndFail": sequence(watch("Lost"), func(*hosttest.Turn) error { return hosttest.Fail("no") }),
		"WatchAndAdd":  sequence(watch("Lost"), func(t *hosttest.Turn) error { _, err := t.Add("n", 1); return err }),
		"Pass":         func(t *hosttest.Turn) error { return t.PassAway() },
		"Become":       func(t *hosttest.Turn) error { return t.Become("closed") },
		"Open":         func(*hosttest.Turn) error { return nil },
		"None":         watch("Missing"),
		"Reads":        watch("Watch"),
	}}
	a.Life.Sets = map[string][]string{"Lost": {"open"}, "Open": {"closed"}}
	return a
}

// watchers starts two hosts with an actor W.
func watchers(t *testing.T, limits host.Limits) (*hosts, *watching) {
	t.Helper()
	hs, w := newHosts(t, limits), new(watching)
	for _, s := range hs.stages {
		s.world.Deploy("app", "W", w.actor(abi.PlacementRing))
	}
	return hs, w
}

// run calls a method of an actor W, which it gives the name of another one.
func (hs *hosts) run(t *testing.T, id, method, of, want string) {
	t.Helper()
	inv := actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: id}, Method: method, Payload: actor.Payload{Data: []byte(of)}}
	r, err := hs.stages[hs.holder(id)].Invoke(t.Context(), inv)
	got := string(r.Payload.Data)
	if err != nil {
		got = err.Error()
	}
	if got != want && (want == "" || !strings.Contains(got, want)) {
		t.Errorf("%s of %s: %q, want %q", method, id, got, want)
	}
}

// An actor learns once that the session to the host broke that it watches, once for each actor
// that it has named; a broken session to a host that it does not watch any more says nothing.
func TestWatcherLearnsOnceOfABrokenSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{})
		hs.run(t, "a", "Watch", "b", "false")
		hs.run(t, "a", "Watch", "b", "true")
		hs.run(t, "a", "Watch", "b2", "false")
		hs.run(t, "a", "Watch", "b3", "false")
		hs.run(t, "a", "Unwatch", "b3", "true")
		hs.run(t, "a", "Unwatch", "b3", "false")
		hs.run(t, "a", "WatchAndFail", "b4", "no")
		hs.breakSession(1)
		synctest.Wait()
		if got := w.learned.sorted(); got != "W/b2: at a disconnected, W/b: at a disconnected" {
			t.Errorf("learned %q", got)
		}
		hs.breakSession(1)
		w.learned.want(t)
		hs.run(t, "a", "Watch", "b", "false") // a new session
		w.learned.want(t)
		hs.breakSession(1)
		w.learned.want(t, "W/b: at a disconnected")
	})
}

// A watch is of the incarnation that held the actor when the turn asked, whatever happens to that
// actor or to the session before the turn is answered.
func TestWatchBeginsInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{})
		hold := make(chan struct{})
		hs.store.setHold(hold)
		done := make(chan struct{})
		go func() {
			defer close(done)
			hs.run(t, "a", "WatchAndAdd", "b", "false")
		}()
		synctest.Wait()
		hs.breakSession(1)
		w.learned.want(t) // nor is it told of a turn that is not durable
		hs.store.setHold(nil)
		close(hold)
		<-done
		w.learned.want(t, "W/b: at a disconnected")

		hs.run(t, "a", "Watch", "b", "false")
		hs.move(t, "b", 0)
		w.learned.want(t)
		hs.breakSession(1)
		w.learned.want(t, "W/b: at a disconnected")
		hs.run(t, "a", "Watch", "b", "false") // it is here now
		hs.breakSession(1)
		hs.breakSession(0)
		w.learned.want(t)
	})
}

// An actor that has moved learns at its new host that its watches have ended; they say nothing more.
func TestWatcherThatMovesLearnsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{})
		hs.run(t, "a", "Watch", "b", "false")
		hs.run(t, "a2", "Watch", "a", "false") // of its own host
		hs.move(t, "a", 1)
		w.learned.want(t, "W/b: at a moved")
		hs.move(t, "a2", 1)
		w.learned.want(t, "W/a: at a2 moved")
		hs.breakSession(1)
		w.learned.want(t)
		for _, inv := range hs.invocations() {
			if inv.Message == nil || !inv.Message.Disconnected || inv.Message.Failed != abi.WatchMoved {
				t.Errorf("sent %+v", inv)
			}
		}
	})
}

// A watch stays when its actor leaves memory, and brings it back.
func TestWatchStaysWhenItsActorIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{IdleTimeout: time.Second})
		hs.run(t, "a", "WatchAndAdd", "b", "false")
		time.Sleep(time.Hour)
		if v, err := hs.stages[0].View(t.Context(), actor.Key{App: "app", Type: "W", ID: "a"}); v.Active || err != nil {
			t.Fatalf("%+v, %v", v, err)
		}
		w.learned.want(t)
		hs.breakSession(1)
		w.learned.want(t, "W/b: at a disconnected")
	})
}

// The watches of an actor that passes away, or is deleted, end unsaid.
func TestWatchesEndWithALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{})
		hs.run(t, "a", "WatchAndAdd", "b", "false")
		hs.run(t, "a", "Pass", "", "")
		hs.run(t, "a2", "WatchAndAdd", "b", "false")
		if err := hs.stages[0].Delete(t.Context(), actor.Key{App: "app", Type: "W", ID: "a2"}); err != nil {
			t.Error(err)
		}
		hs.breakSession(1)
		w.learned.want(t)
		hs.run(t, "a", "Watch", "b", "false") // its next life
		hs.breakSession(1)
		w.learned.want(t, "W/b: at a disconnected")
	})
}

// A notice that an actor has no room for comes when it has; a method set does not keep it out.
func TestNoticeOfAWatchIsNotLostForWantOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{Mailbox: 1})
		hs.run(t, "a", "WatchAndAdd", "b", "false")
		hs.run(t, "a", "Become", "", "")
		hold := make(chan struct{})
		hs.store.setHold(hold)
		for range 3 { // one is on its way to the store, and others wait behind it
			go func() {
				_, _ = hs.stages[0].Invoke(context.Background(), actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: "a"}, Method: "WatchAndAdd", Payload: actor.Payload{Data: []byte("a")}})
			}()
		}
		synctest.Wait()
		hs.breakSession(1)
		w.learned.want(t)
		hs.store.setHold(nil)
		close(hold)
		time.Sleep(2 * time.Second)
		w.learned.want(t, "W/b: at a disconnected")
	})
}

// What cannot be watched is refused, and so is one watch too many.
func TestWatchRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{})
		hs.run(t, "a", "Watch", "", "code -2: actor id")
		hs.run(t, "a", "None", "b", `code -2: the type W has no method "Missing"`)
		for i := range actor.MaxWatches {
			hs.run(t, "a", "Watch", fmt.Sprint("b", i), "false")
		}
		hs.run(t, "a", "Watch", "b", "code -9: an actor watches at most 100 hosts")
		hs.run(t, "a", "Watch", "b7", "true")
		hs.run(t, "a", "Unwatch", "b7", "true")
		hs.run(t, "a", "Watch", "b", "false")
		hs.breakSession(1)
		synctest.Wait()
		if got := w.learned.take(); len(got) != actor.MaxWatches {
			t.Errorf("%d notices", len(got))
		}
	})
}

// Actors of types without activations watch as well.
func TestWatchOfAnActorThatNoHostHolds(t *testing.T) {
	for _, placement := range []string{abi.PlacementAny, abi.PlacementStateless} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hs, w := newHosts(t, host.Limits{}), new(watching)
				a := w.actor(placement)
				a.Life.Sets = nil
				hs.stages[0].world.Deploy("app", "W", a)
				hs.run(t, "a", "Watch", "b", "false")
				hs.breakSession(1)
				w.learned.want(t, "W/b: at a disconnected")
			})
		})
	}
}

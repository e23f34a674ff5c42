package host_test

import (
	"context"
	"encoding/json"
	"errors"
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

// following is an actor that watches services, which its methods name in their payload, and what
// it has learned.
type following struct {
	learned heard
	enter   func(text string) // if not nil, called as a notice's turn begins
}

func (w *following) actor(placement string) hosttest.Actor {
	watch := func(method string) hosttest.Func {
		return func(t *hosttest.Turn) error {
			replaced, err := t.WatchService(string(t.Frame.Payload), method)
			if err != nil {
				return err
			}
			return t.Reply(fmt.Sprint(replaced))
		}
	}
	claim := func(t *hosttest.Turn) error { return t.Claim(string(t.Frame.Payload)) }
	release := func(t *hosttest.Turn) error { _, err := t.Release(string(t.Frame.Payload)); return err }
	add := func(t *hosttest.Turn) error { _, err := t.Add("n", 1); return err }
	a := hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
		"Watch": watch("Learn"), "Unwatch": watch(""), "Learn": w.learn, "None": watch("Missing"), "Reads": watch("Look"),
		"Claim": claim, "Release": release, "WatchAndAdd": sequence(watch("Learn"), add),
		"WatchOther": watch("LearnOther"), "WatchAnew": sequence(watch(""), watch("Learn")),
		"LearnOther":    func(t *hosttest.Turn) error { t.Frame.Failed = "otherwise"; return w.learn(t) },
		"ClaimAndWatch": sequence(claim, watch("Learn")),
		"WatchAndFail":  sequence(watch("Learn"), func(*hosttest.Turn) error { return hosttest.Fail("no") }),
		// Take claims a service, and the actor a2 gives up its own in the same transaction.
		"Take": func(t *hosttest.Turn) error {
			_, err := t.Call("W", "a2", "Release", "work/2")
			return errors.Join(err, claim(t))
		},
		"Reclaim": sequence(release, claim),
		// WatchMany watches 100 names that begin with its payload.
		"WatchMany": func(t *hosttest.Turn) error {
			for i := range actor.MaxWatches {
				if _, err := t.WatchService(fmt.Sprint(string(t.Frame.Payload), i), "Learn"); err != nil {
					return err
				}
			}
			return nil
		},
		// WatchOthers watches 90 names that begin with its payload, and 10 that begin with "new", each twice.
		"WatchOthers": func(t *hosttest.Turn) error {
			for i := range 2 * actor.MaxWatches {
				name := fmt.Sprint(string(t.Frame.Payload), i/2)
				if i/2 >= 90 {
					name = fmt.Sprint("new", i/2)
				}
				if _, err := t.WatchService(name, "Learn"); err != nil {
					return err
				}
			}
			return nil
		},
		"Pass":   func(t *hosttest.Turn) error { return t.PassAway() },
		"Become": func(t *hosttest.Turn) error { return t.Become("closed") },
		"Open":   func(*hosttest.Turn) error { return nil },
	}, ReadOnly: map[string]hosttest.Func{"Look": watch("Learn")}}
	a.Life.Sets = map[string][]string{"Learn": {"open"}, "Open": {"closed"}}
	return a
}

func (w *following) learn(t *hosttest.Turn) error {
	f := t.Frame
	var list struct {
		Services []struct{ Name, Type, ID string }
		More     bool
	}
	if err := json.Unmarshal(f.Payload, &list); err != nil || list.Services == nil || f.Cause != abi.CauseServices || f.CallerType+f.CallerID != "" {
		return errors.Join(err, hosttest.Fail(fmt.Sprintf("%+v", f)))
	}
	text := fmt.Sprint(f.ID, " ", f.CauseName, ":")
	if len(list.Services) > 10 {
		text += fmt.Sprint(" ", len(list.Services), " from ", list.Services[0].Name)
	} else {
		for _, v := range list.Services {
			text += fmt.Sprint(" ", v.Name, "=", v.Type, "/", v.ID)
		}
	}
	if list.More {
		text += " more"
	}
	if f.Failed != "" {
		text += " " + f.Failed
	}
	if w.enter != nil {
		w.enter(text)
	}
	w.learned.mu.Lock()
	defer w.learned.mu.Unlock()
	w.learned.texts = append(w.learned.texts, text)
	return nil
}

// followers starts two hosts with an actor W.
func followers(t *testing.T, limits host.Limits) (*hosts, *following) {
	t.Helper()
	hs, w := newHosts(t, limits), new(following)
	for _, s := range hs.stages {
		s.world.Deploy("app", "W", w.actor(abi.PlacementRing))
	}
	return hs, w
}

// later is when every watch has learned what has happened.
func later() { time.Sleep(1100 * time.Millisecond) }

// A watcher learns at once who stands for the services of a group, in order, and again when that
// has changed, at this host or at another one; of a single service it learns no other names.
func TestServiceWatcherLearnsEachList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hs.run(t, "a", "Watch", "work/", "false")
		w.learned.want(t, "a work/:")
		hs.run(t, "a3", "Watch", "work/2", "false")
		w.learned.want(t, "a3 work/2:")
		hs.run(t, "b", "Claim", "work/2", "")
		hs.run(t, "a2", "Claim", "work/1", "")
		hs.run(t, "a2", "Claim", "work/20", "")
		hs.run(t, "a2", "Claim", "worker", "")
		later()
		synctest.Wait()
		if got := w.learned.sorted(); got != "a work/: work/1=W/a2 work/2=W/b work/20=W/a2, a3 work/2: work/2=W/b" {
			t.Errorf("learned %q", got)
		}
		hs.run(t, "b", "Release", "work/2", "")
		hs.run(t, "b", "Claim", "work/2", "") // between two reads
		later()
		w.learned.want(t)
		hs.run(t, "a2", "Release", "work/20", "")
		later()
		w.learned.want(t, "a work/: work/1=W/a2 work/2=W/b")

		hs.run(t, "a3", "Unwatch", "work/2", "true")
		hs.run(t, "a3", "Unwatch", "work/2", "false")
		hs.run(t, "a", "WatchAnew", "work/", "false")
		w.learned.want(t, "a work/: work/1=W/a2 work/2=W/b")
		hs.run(t, "a", "WatchOther", "work/", "true") // the method changes, and the watch goes on
		w.learned.want(t)
		hs.run(t, "b", "Release", "work/2", "")
		later()
		w.learned.want(t, "a work/: work/1=W/a2 otherwise")
	})
}

// A host reads a watched name once a second for all its watches, and does not read other names.
func TestReadsOfWatchedServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		for i := range 5 {
			hs.run(t, fmt.Sprint("a", i), "Watch", "mailer", "false")
		}
		later()
		before := hs.services.read()
		time.Sleep(10 * time.Second)
		if n := hs.services.read() - before; n != 10 {
			t.Errorf("%d reads in 10 seconds", n)
		}
		for i := range 5 {
			hs.run(t, fmt.Sprint("a", i), "Unwatch", "mailer", "true")
		}
		synctest.Wait()
		before = hs.services.read()
		time.Sleep(10 * time.Second)
		if n := hs.services.read() - before; n != 0 || len(w.learned.take()) != 5 {
			t.Errorf("%d reads of what nobody watches", n)
		}
	})
}

// The first list was read after the turn: it has what the turn has claimed. A turn that fails
// watches nothing. What a transaction releases and claims is seen together.
func TestServiceWatchAndClaimOfOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hs.run(t, "a2", "ClaimAndWatch", "work/2", "false")
		hs.run(t, "a3", "Watch", "work/", "false")
		synctest.Wait()
		if got := w.learned.sorted(); got != "a2 work/2: work/2=W/a2, a3 work/: work/2=W/a2" {
			t.Errorf("learned %q", got)
		}
		hs.run(t, "a", "WatchAndFail", "work/2", "no")
		hs.run(t, "a2", "Reclaim", "work/2", "")
		later()
		w.learned.want(t)
		hs.run(t, "a", "Take", "work/1", "")
		later()
		synctest.Wait()
		if got := w.learned.sorted(); got != "a2 work/2:, a3 work/: work/1=W/a" {
			t.Errorf("learned %q", got)
		}
	})
}

// While a watcher is busy with a list it gets no other one, and afterwards the newest alone.
func TestServiceNoticesCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hold := make(chan struct{})
		w.enter = func(string) { <-hold }
		hs.run(t, "a", "Watch", "work/", "false")
		w.learned.want(t)
		for i := range 5 {
			hs.run(t, "b", "Claim", fmt.Sprint("work/", i), "")
			later()
		}
		w.learned.want(t)
		close(hold)
		w.learned.want(t, "a work/:", "a work/: work/0=W/b work/1=W/b work/2=W/b work/3=W/b work/4=W/b")
		later()
		w.learned.want(t)
	})
}

// A list that an actor has no room for comes when it has, as the newest; a method set does not keep
// it out.
func TestServiceNoticeIsNotLostForWantOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{Mailbox: 1})
		hs.run(t, "a", "WatchAndAdd", "mailer", "false")
		hs.run(t, "a", "Become", "", "")
		w.learned.want(t, "a mailer:")
		hold := make(chan struct{})
		hs.store.setHold(hold)
		for range 3 { // one is on its way to the store, and others wait behind it
			go func() {
				_, _ = hs.stages[0].Invoke(context.Background(), actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: "a"}, Method: "WatchAndAdd", Payload: actor.Payload{Data: []byte("other")}})
			}()
		}
		synctest.Wait()
		stands := func(id string) {
			hs.services.mu.Lock()
			defer hs.services.mu.Unlock()
			hs.services.of["mailer"] = actor.Key{App: "app", Type: "W", ID: id}
		}
		stands("b1")
		later()
		stands("b2")
		later()
		w.learned.want(t)
		hs.store.setHold(nil)
		close(hold)
		later()
		later()
		synctest.Wait()
		if got := w.learned.sorted(); got != "a mailer: mailer=W/b2, a other:" {
			t.Errorf("learned %q", got)
		}
	})
}

// An actor that has moved learns at its new host that its watch has ended, and nothing more from the
// old one. There it watches anew.
func TestServiceWatcherThatMovesLearnsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hs.run(t, "a", "Watch", "mailer", "false")
		w.learned.want(t, "a mailer:")
		hs.move(t, "a", 1)
		w.learned.want(t, "a mailer: moved")
		hs.run(t, "a2", "Claim", "mailer", "")
		later()
		w.learned.want(t)
		hs.run(t, "a", "Watch", "mailer", "false")
		w.learned.want(t, "a mailer: mailer=W/a2")
		for _, inv := range hs.invocations() {
			if inv.Message == nil || inv.Message.Service != "mailer" || inv.Message.Failed != abi.WatchMoved {
				t.Errorf("sent %+v", inv)
			}
		}
	})
}

// waiting has an actor a, which watches a service, wait for its next list while a turn of it runs.
func waiting(t *testing.T) (hs *hosts, w *following, g *gate, ended <-chan error) {
	t.Helper()
	hs, w, g = newHosts(t, host.Limits{}), new(following), newGate()
	for _, s := range hs.stages {
		a := w.actor(abi.PlacementRing)
		a.Life.Sets, a.Methods["Gate"] = nil, g.wait
		s.world.Deploy("app", "W", a)
	}
	hs.run(t, "a", "Watch", "mailer", "false")
	w.learned.want(t, "a mailer:")
	c := make(chan error, 1)
	go func() {
		_, err := hs.stages[0].Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: "a"}, Method: "Gate"})
		c <- err
	}()
	<-g.entered
	hs.run(t, "b", "Claim", "mailer", "")
	later()
	w.learned.want(t)
	return hs, w, g, c
}

// A list that is on its way to an actor as it moves does not follow it, where it would come behind newer
// ones: the actor learns that it has moved.
func TestServiceNoticeDoesNotFollowItsActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w, g, ended := waiting(t)
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			hs.move(t, "a", 1)
		}()
		synctest.Wait()
		close(g.leave)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-moved
		later()
		w.learned.want(t, "a mailer: moved")
	})
}

// An actor that waits for its turn gets its list although what waits is cancelled.
func TestCancelLeavesListsOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w, g, ended := waiting(t)
		if c := host.QueuesOf(hs.stages[0].Host).CancelQueued(actor.Key{App: "app", Type: "W"}); c.Calls+c.Tells > 0 {
			t.Errorf("%+v were cancelled", c)
		}
		close(g.leave)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.learned.want(t, "a mailer: mailer=W/b")
	})
}

// A watch stays when its actor leaves memory, and brings it back.
func TestServiceWatchStaysWhenItsActorIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{IdleTimeout: time.Second})
		hs.run(t, "a", "WatchAndAdd", "mailer", "false")
		w.learned.want(t, "a mailer:")
		time.Sleep(time.Hour)
		if v, err := hs.stages[0].View(t.Context(), actor.Key{App: "app", Type: "W", ID: "a"}); v.Active || err != nil {
			t.Fatalf("%+v, %v", v, err)
		}
		hs.run(t, "b", "Claim", "mailer", "")
		later()
		w.learned.want(t, "a mailer: mailer=W/b")
	})
}

// The watches of an actor that passes away, or is deleted, end unsaid.
func TestServiceWatchesEndWithALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hs.run(t, "a", "WatchAndAdd", "mailer", "false")
		hs.run(t, "a2", "WatchAndAdd", "mailer", "false")
		synctest.Wait()
		w.learned.take()
		hs.run(t, "a", "Pass", "", "")
		if err := hs.stages[0].Delete(t.Context(), actor.Key{App: "app", Type: "W", ID: "a2"}); err != nil {
			t.Error(err)
		}
		hs.run(t, "b", "Claim", "mailer", "")
		later()
		w.learned.want(t)
		hs.run(t, "a", "Watch", "mailer", "false") // its next life
		w.learned.want(t, "a mailer: mailer=W/b")
	})
}

// While the store does not answer a watcher learns nothing, and then the newest list.
func TestServiceWatchOutlastsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hs.run(t, "a", "Watch", "work/", "false")
		w.learned.want(t, "a work/:")
		hs.run(t, "b", "Claim", "work/1", "")
		hs.services.setDown(errors.New("down"))
		hs.run(t, "a2", "Watch", "work/", "false")
		time.Sleep(time.Minute)
		w.learned.want(t)
		hs.services.setDown(nil)
		later()
		synctest.Wait()
		if got := w.learned.sorted(); got != "a work/: work/1=W/b, a2 work/: work/1=W/b" {
			t.Errorf("learned %q", got)
		}
	})
}

// What cannot be watched is refused, and so is a watch too many, of an actor and of a host.
func TestServiceWatchRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		hs.run(t, "a", "Watch", "", "code -2: service is empty")
		hs.run(t, "a", "Watch", strings.Repeat("x", 257), "code -2: service has 257 bytes")
		hs.run(t, "a", "Watch", "a\x00b", "code -2: service is not UTF-8, or has control characters")
		hs.run(t, "a", "Watch", "\xff", "code -2: service is not UTF-8")
		hs.run(t, "a", "None", "mailer", `code -2: the type W has no method "Missing"`)
		hs.run(t, "a", "Reads", "mailer", "code -2: ")
		hs.run(t, "a", "Look", "mailer", "code -3")
		for i := range actor.MaxWatches {
			hs.run(t, "a", "Watch", fmt.Sprint("s", i), "false")
		}
		hs.run(t, "a", "Watch", "one more", "code -9: an actor watches at most 100 hosts and services")
		hs.run(t, "a", "Watch", "s7", "true")
		hs.run(t, "a", "Unwatch", "s7", "true")
		hs.run(t, "a", "Watch", "one more", "false")

		followed := actor.MaxWatches
		for ; ; followed++ {
			id, name := fmt.Sprint("a-", followed/50), fmt.Sprint("other", followed)
			r, err := hs.stages[0].Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: id}, Method: "Watch", Payload: actor.Payload{Data: []byte(name)}})
			if err != nil {
				hs.run(t, id, "Watch", name, "code -8: actors of this host watch as many services as it follows")
				break
			}
			if string(r.Payload.Data) != "false" || followed > 256 {
				t.Fatalf("%d names: %s", followed, r.Payload.Data)
			}
		}
		if followed < 128 {
			t.Errorf("the host follows %d names", followed)
		}
		hs.run(t, "a9", "Watch", "s8", "false") // another watch of it
		hs.run(t, "a", "Unwatch", "s9", "true")
		hs.run(t, "a9", "Watch", "another", "false")
		synctest.Wait()
		w.learned.take()
	})
}

// What a turn watches counts before it is committed.
func TestServiceWatchesOfOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, _ := followers(t, host.Limits{})
		hs.run(t, "a", "WatchMany", "first", "")
		hs.run(t, "a2", "WatchMany", "second", "")
		hs.run(t, "a3", "WatchMany", "third", "code -8: actors of this host watch as many services as it follows")
		hs.run(t, "a", "WatchMany", "first", "")
		hs.run(t, "a4", "WatchOthers", "first", "") // the host follows 90 of them already
	})
}

// A group of more services than a list has is cut, and says so.
func TestServiceWatchOfALargeGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := followers(t, host.Limits{})
		for i := range 256 {
			hs.services.of[fmt.Sprintf("work/%03d", i)] = actor.Key{App: "app", Type: "W", ID: "b"}
		}
		hs.run(t, "a", "Watch", "work/", "false")
		w.learned.want(t, "a work/: 256 from work/000")
		hs.run(t, "a2", "Claim", "work/a", "")
		later()
		w.learned.want(t, "a work/: 256 from work/000 more")
		hs.run(t, "a2", "Claim", "work/b", "") // behind the last
		later()
		w.learned.want(t)
	})
}

// Actors of types without activations watch as well.
func TestServiceWatchOfAnActorThatNoHostHolds(t *testing.T) {
	for _, placement := range []string{abi.PlacementAny, abi.PlacementStateless} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hs, w := newHosts(t, host.Limits{}), new(following)
				a := w.actor(placement)
				a.Life.Sets = nil
				hs.stages[0].world.Deploy("app", "W", a)
				hs.run(t, "a", "Watch", "mailer", "false")
				w.learned.want(t, "a mailer:")
				hs.services.mu.Lock()
				hs.services.of["mailer"] = actor.Key{App: "app", Type: "W", ID: "b"}
				hs.services.mu.Unlock()
				later()
				w.learned.want(t, "a mailer: mailer=W/b")
			})
		})
	}
}

// An actor that watches a name which it watches gets no list for it: neither from its hook, nor from
// the method that gets the lists.
func TestServiceWatchIsNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := newHosts(t, host.Limits{}), new(following)
		a := w.actor(abi.PlacementRing)
		watch := func(t *hosttest.Turn) error { _, err := t.WatchService("mailer", "Learn"); return err }
		a.Life.Hooks.Activated = "Woken"
		a.Methods["Woken"], a.Methods["Learn"] = watch, sequence(w.learn, watch)
		hs.stages[0].world.Deploy("app", "W", a)
		for range 3 {
			hs.run(t, "a", "Open", "", "")
			later()
		}
		w.learned.want(t, "a mailer:")
	})
}

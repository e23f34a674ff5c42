package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// leaver is an owned stage whose type T has a hook leaving, which counts how often it ran.
type leaver struct {
	*owned
	left atomic.Int64
}

func newLeaver(t *testing.T, hook hosttest.Func) *leaver {
	t.Helper()
	l := &leaver{owned: newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{})}
	a := l.actor(abi.PlacementRing)
	a.Life.Hooks = abi.Hooks{Leaving: "OnLeaving"}
	a.Methods["OnLeaving"] = func(t *hosttest.Turn) error {
		l.left.Add(1)
		return hook(t)
	}
	l.world.Deploy("app", "T", a)
	return l
}

// number is what an actor has stored, as any host reads it.
func (l *leaver) number(t *testing.T, id string) string {
	t.Helper()
	l.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
	reply, err := l.call(t.Context(), id, "View")
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func (l *leaver) handOver(t *testing.T) {
	t.Helper()
	l.holdings.Set(nothingHeld)
	if err := l.HandOver(t.Context(), all); err != nil {
		t.Error(err)
	}
}

// TestLeavingHook: it runs once before an actor leaves, behind what the actor has begun and before
// nothing else, and is committed; not for an actor without a state, nor for one that is not in memory.
func TestLeavingHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaver(t, add)
		l.must(t, "idle", "Add", "1")
		l.must(t, "read", "Touch", "0")
		running := l.start(t.Context(), "busy", "GateAdd")
		<-l.gate.entered
		waiting := l.start(t.Context(), "busy", "Add")
		synctest.Wait()
		done := make(chan struct{})
		go func() { defer close(done); l.handOver(t) }()
		if got := <-waiting; !errors.Is(got.err, actor.ErrNotOwner) {
			t.Errorf("the call that waits gets %+v", got)
		}
		close(l.gate.leave)
		if got := <-running; got.reply != "1" || got.err != nil {
			t.Errorf("the turn that had begun got %+v", got)
		}
		<-done
		if n := l.left.Load(); n != 2 {
			t.Errorf("%d hooks ran", n)
		}
		for _, id := range []string{"idle", "busy"} {
			if n := l.number(t, id); n != "2" {
				t.Errorf("%s has %s", id, n)
			}
		}
		l.holdings.Set(nothingHeld)
		l.DropAll() // another host may have them: no hook
		l.handOver(t)
		if n := l.left.Load(); n != 2 {
			t.Errorf("%d hooks ran", n)
		}
	})
}

// TestLeavingHookRunsAgain: as any turn, if its commit did not happen.
func TestLeavingHookRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaver(t, add)
		l.must(t, "a", "Add", "1")
		l.store.plan("commit", "lost") // and found not to be there
		l.handOver(t)
		if n := l.left.Load(); n != 2 {
			t.Errorf("%d hooks ran", n)
		}
		if n := l.number(t, "a"); n != "2" {
			t.Errorf("a has %s", n)
		}
	})
}

// TestLeavingHookHoldsUpNothing: a hook that fails, panics, or does not end leaves no trace, and all of them
// together take seconds at most, however many there are.
func TestLeavingHookHoldsUpNothing(t *testing.T) {
	for name, hook := range map[string]hosttest.Func{
		"fails":  func(t *hosttest.Turn) error { return errors.Join(t.SetNumber("n", 7), hosttest.Fail("on_purpose")) },
		"panics": func(*hosttest.Turn) error { panic("on purpose") },
		"waits":  func(t *hosttest.Turn) error { <-t.Context.Done(); return t.Context.Err() },
		"calls another": func(t *hosttest.Turn) error {
			_, err := t.Call("T", "b", "Add", "")
			var refused *actor.GuestError
			if !errors.As(err, &refused) || refused.Code != abi.CallNotAtomic {
				return errors.Join(t.SetNumber("n", 7), fmt.Errorf("a call gets %v", err))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeaver(t, hook)
				for i := range 1000 {
					l.must(t, fmt.Sprint("a", i), "Set1", "1")
				}
				began := time.Now()
				l.handOver(t)
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("it took %s", took)
				}
				if l.left.Load() == 0 {
					t.Error("no hook ran")
				}
				if n := l.number(t, "a0"); n != "1" {
					t.Errorf("it has %s", n)
				}
				for range 20 { // a drain is many hand-overs
					l.must(t, "b", "Set1", "1")
					l.handOver(t)
					l.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
				}
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("all took %s", took)
				}
				time.Sleep(2 * time.Minute)
				ran := l.left.Load()
				l.must(t, "b", "Add", "2")
				if l.handOver(t); l.left.Load() == ran {
					t.Error("no hook ran later")
				}
			})
		})
	}
}

// TestLeavingHookAtStop: it runs on a host that stops as well, and its commit is there when Stop
// returns; a Stop whose context has ended cuts it short.
func TestLeavingHookAtStop(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint(patient), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := make(chan struct{})
				l := newLeaver(t, func(t *hosttest.Turn) error {
					if !patient {
						close(began)
						<-t.Context.Done()
					}
					return add(t)
				})
				l.must(t, "a", "Add", "1")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				want := "2"
				if !patient {
					want = "1"
					go func() { <-began; cancel() }()
				}
				if err := l.Stop(ctx); (err == nil) != patient {
					t.Errorf("stop: %v", err)
				}
				other := newStage(t, host.Config{Committer: l.store})
				for range 2 { // the generation that wrote it
					other.world.Deploy("app", "T", l.actor(abi.PlacementRing))
				}
				if reply, err := other.call(t.Context(), "a", "View"); reply != want || err != nil {
					t.Errorf("it has %s, %v; want %s", reply, err, want)
				}
			})
		})
	}
}

// TestLeavingHookNotForIdle: an actor that leaves memory because nobody uses it has not been asked
// to leave.
func TestLeavingHookNotForIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaver(t, add)
		l.must(t, "a", "Add", "1")
		time.Sleep(time.Hour)
		l.handOver(t)
		if n := l.left.Load(); n != 0 {
			t.Errorf("%d hooks ran", n)
		}
	})
}

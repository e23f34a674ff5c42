package host_test

import (
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

func TestActivationsAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out atomic.Int64
		s := newStage(t, host.Config{MaxActivations: 3, Observers: []host.Events{{
			Deactivated: func(d host.Deactivation) {
				if d.Reason == host.DeactivatePressure {
					out.Add(1)
				}
			},
		}}})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementSticky, Methods: map[string]hosttest.Func{"Add": add, "Gate": g.wait}})
		for i := range 20 {
			if _, err := s.call(t.Context(), fmt.Sprint(i), "Add"); err != nil {
				t.Fatal(err)
			}
		}
		if out.Load() != 17 || s.world.Open() != 3 {
			t.Errorf("%d pushed out, %d instances", out.Load(), s.world.Open())
		}
		var busy []<-chan answer
		for i := range 3 {
			busy = append(busy, s.start(t.Context(), fmt.Sprint("busy", i), "Gate"))
			<-g.entered
		}
		_, err := s.call(t.Context(), "one more", "Add")
		wantCondition(t, err, actor.ErrOverloaded)
		close(g.leave)
		for _, c := range busy {
			<-c
		}
		if reply, err := s.call(t.Context(), "0", "Add"); reply != "2" || err != nil {
			t.Errorf("after the rush: %q, %v", reply, err)
		}
	})
}

func TestInstancesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{Limits: host.Limits{Instances: 2, TurnDeadline: time.Second}})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add, "Gate": g.wait}})
		a, b := s.start(t.Context(), "a", "Gate"), s.start(t.Context(), "b", "Gate")
		<-g.entered
		<-g.entered
		c := s.start(t.Context(), "c", "Add")
		synctest.Wait()
		if s.world.Open() != 2 {
			t.Errorf("%d instances", s.world.Open())
		}
		// The gates end at their deadline, as traps of a kind: both instances go,
		// and the one who waits gets a new one if its time is not up as well.
		for _, c := range []<-chan answer{a, b, c} {
			if got := <-c; got.err != nil {
				wantCondition(t, got.err, actor.ErrDeadline)
			}
		}
		for i := range 10 {
			if _, err := s.call(t.Context(), fmt.Sprint(i), "Add"); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestGuestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{GuestMemory: 10 << 20, GuestMemoryPerApp: 10 << 20})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: abi.PlacementSticky, MemoryBytes: 3 << 20,
			Methods: map[string]hosttest.Func{"Add": add, "Gate": g.wait},
		})
		// Idle activations give their instances up, not their state.
		for i := range 10 {
			if _, err := s.call(t.Context(), fmt.Sprint(i), "Add"); err != nil {
				t.Fatal(err)
			}
		}
		if s.world.Open() > 4 {
			t.Errorf("%d instances", s.world.Open())
		}
		loads := s.store.loads
		if reply, err := s.call(t.Context(), "0", "Add"); reply != "2" || err != nil || s.store.loads != loads {
			t.Errorf("%q, %v, %d loads", reply, err, s.store.loads-loads)
		}
		var busy []<-chan answer
		for i := range 3 {
			busy = append(busy, s.start(t.Context(), fmt.Sprint(i), "Gate"))
			<-g.entered
		}
		_, err := s.call(t.Context(), "4", "Add")
		wantCondition(t, err, actor.ErrOverloaded)
		close(g.leave)
		for _, c := range busy {
			<-c
		}
		if _, err := s.call(t.Context(), "4", "Add"); err != nil {
			t.Error(err)
		}
	})
}

func TestInstanceThatCannotBeMade(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{Limits: host.Limits{Instances: 1}})
		trap := &actor.TrapError{Kind: actor.TrapMemory, Message: "no"}
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, MakeError: trap, Methods: map[string]hosttest.Func{"Add": add}})
		for range 3 {
			_, err := s.call(t.Context(), "a", "Add")
			if !errors.As(err, &trap) {
				t.Errorf("got %v", err)
			}
		}
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Add": add}})
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Error(err)
		}
	})
}

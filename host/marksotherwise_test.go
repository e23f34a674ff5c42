package host_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestRunThatCallsAnother: an earlier run has called an actor of another host, where that was committed; a later one that
// calls another actor there in its place is not committed, though the store has the marks of that call.
func TestRunThatCallsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		callee := "b"
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(map[string]hosttest.Func{"Pay": func(t *hosttest.Turn) error {
				_, callErr := t.Call("T", callee, "Do", addFive)
				_, err := t.Add("n", 1)
				return errors.Join(callErr, err, t.Reply("paid "+callee))
			}}))
		}
		const other = "c"
		for _, id := range []string{"b", other} {
			hs.move(t, id, 1-hs.holder("a"))
		}
		hs.unavailableOnce()
		_, err := hs.invoke(t.Context(), "a", "Pay", "", "k")
		wantCondition(t, err, actor.ErrUnavailable)
		for range 2 {
			callee = other
			_, err = hs.invoke(t.Context(), "a", "Pay", "", "k")
			wantCondition(t, err, actor.ErrLeft)
			hs.want(t, map[string]int64{"a": 0, "b": 5})
		}
		callee = "b"
		if reply, err := hs.invoke(t.Context(), "a", "Pay", "", "k"); reply != "paid b" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"a": 1, "b": 5})
	})
}

// TestNextRunThatDoesNotCallAgain: the run after one whose commit did not happen is held to what that one has called, though
// both are of one attempt.
func TestNextRunThatDoesNotCallAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		runs := 0
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(map[string]hosttest.Func{"Fickle": func(t *hosttest.Turn) error {
				if runs++; runs == 1 {
					if _, err := t.Call("T", "b", "Do", addFive); err != nil {
						return err
					}
				}
				_, err := t.Add("n", 1)
				return err
			}}))
		}
		hs.store.mu.Lock()
		hs.store.wrote = func(actor.Key, actor.Row, actor.Row) {
			hs.store.wrote = nil
			hs.store.faults["commit"] = []string{"lost"}
		}
		hs.store.mu.Unlock()
		_, err := hs.invoke(t.Context(), "a", "Fickle", "", "k")
		wantCondition(t, err, actor.ErrLeft)
		if runs < 2 {
			t.Errorf("it ran %d times", runs)
		}
		hs.want(t, map[string]int64{"a": 0, "b": 5})
	})
}

// TestMarkOfATypePlacedAnew: a call whose earlier run has called another host is held to that when its type is placed
// stateless meanwhile.
func TestMarkOfATypePlacedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newBank(t)
		hs.unavailableOnce()
		_, err := hs.invoke(t.Context(), "a", "Pay", "", "k")
		wantCondition(t, err, actor.ErrUnavailable)
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"Pay": func(t *hosttest.Turn) error {
				return t.Reply("nothing was paid")
			}}})
		}
		for range 2 {
			_, err = hs.invoke(t.Context(), "a", "Pay", "", "k")
			wantCondition(t, err, actor.ErrLeft)
		}
		if reply, err := hs.invoke(t.Context(), "a", "Pay", "", "other"); reply != "nothing was paid" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
	})
}

package host_test

import (
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

// TestMarkOfACallerThatNoHostHolds: a run of an actor placed any has called another host, and was not committed.
// A later run on another host, which has not learnt yet that the method calls others, decides otherwise: it is
// neither committed nor answered, whether it succeeds or fails.
func TestMarkOfACallerThatNoHostHolds(t *testing.T) {
	for _, failing := range []bool{false, true} {
		for _, lately := range []bool{false, true} { // a call of the actor was repeated there lately
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				calls := true
				loose := scriptedActor()
				loose.Placement = abi.PlacementAny
				loose.Methods["Pay"] = func(t *hosttest.Turn) error {
					if calls {
						if _, err := t.Call("T", "b", "Do", addFive); err != nil {
							return err
						}
						return t.Reply("paid")
					}
					if failing {
						return hosttest.Fail("refused")
					}
					_, err := t.Add("n", 1)
					return errors.Join(err, t.Reply("refused"))
				}
				for _, s := range hs.stages {
					s.world.Deploy("app", "Any", loose)
				}
				x := actor.Key{App: "app", Type: "Any", ID: "x"}
				invoke := func(at int, method, payload, idem string) (string, error) {
					r, err := hs.stages[at].Invoke(t.Context(), actor.Invocation{Key: x, Method: method, IdempotencyKey: idem, Payload: actor.Payload{Data: []byte(payload)}})
					return string(r.Payload.Data), err
				}
				hs.unavailableOnce()
				_, err := invoke(0, "Pay", "", "k")
				wantCondition(t, err, actor.ErrUnavailable)
				hs.want(t, map[string]int64{"b": 5})
				if lately {
					for range 2 {
						if _, err := invoke(1, "Do", addFive, "other"); err != nil {
							t.Error(err)
						}
					}
				}
				calls = false
				for at := range 2 {
					reply, err := invoke(1-at, "Pay", "", "k")
					if wantCondition(t, err, actor.ErrLeft); reply != "" {
						t.Errorf("%q", reply)
					}
				}
				calls = true
				for at := range 2 {
					if reply, err := invoke(at, "Pay", "", "k"); reply != "paid" || err != nil {
						t.Errorf("%q, %v", reply, err)
					}
				}
				hs.want(t, map[string]int64{"b": 5})
			})
		}
	}
}

// TestCallGivenUpWhoseCalleeIsInTheCallersCommit: a turn gives up a call of another host, which has called back an actor
// of the turn's own host, whose commit is pending. Then the turn calls that actor itself. What was given up and the
// turn's reply are not committed together.
func TestCallGivenUpWhoseCalleeIsInTheCallersCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		hold := make(chan struct{})
		methods := map[string]hosttest.Func{
			"Inner":  addAndCall(10),
			"Middle": addAndCall(1, "c.Inner"),
			"Begin": func(t *hosttest.Turn) error {
				m := message("b", "Middle", 50)
				r, _, err := t.Calls.Call(&m)
				if err != nil {
					t.End(err)
				}
				if _, err := t.Call("T", "c", "Do", addFive); err != nil {
					return err
				}
				_, err = t.Add("n", 1)
				return errors.Join(err, t.Reply(r.Code))
			},
		}
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(methods))
		}
		for _, id := range []string{"a", "b", "c"} {
			hs.warm(t, id)
		}
		hs.store.mu.Lock()
		hs.store.hold = hold
		hs.store.mu.Unlock()
		before := make(chan error, 1) // a commit that is under way
		go func() {
			_, err := hs.invoke(t.Context(), "c", "Do", addFive, "")
			before <- err
		}()
		synctest.Wait()
		type got struct {
			reply string
			err   error
		}
		done := make(chan got, 1)
		go func() {
			reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k")
			done <- got{reply, err}
		}()
		time.Sleep(time.Second) // of a bubble's clock
		hs.store.mu.Lock()
		hs.store.hold = nil
		hs.store.mu.Unlock()
		close(hold)
		if err := <-before; err != nil {
			t.Error(err)
		}
		g := <-done
		if g.reply != "" || g.err != nil { // it has run again, and has got the reply of then
			t.Errorf("%q, %v", g.reply, g.err)
		}
		hs.want(t, map[string]int64{"a": 2, "b": 2, "c": 21})
		hs.settled(t)
	})
}

// TestCallbackThatHasCalledAndItsActorsMove: a callback has called another host, and one of the turns above it was not
// committed. Wherever the actors are then, the next run of all makes no call twice, and all of it is committed.
func TestCallbackThatHasCalledAndItsActorsMove(t *testing.T) {
	for _, written := range []string{"b1", "b", "c"} { // whose commit is the last one
		for _, moves := range []string{"", "a", "b", "b1", "b b1", "a b b1", "a b", "c", "b c"} {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				runs := map[string]int{}
				counted := func(name string, f hosttest.Func) hosttest.Func {
					return func(t *hosttest.Turn) error {
						runs[name]++
						return f(t)
					}
				}
				methods := map[string]hosttest.Func{
					"Begin": counted("Begin", addAndCall(1, "b.Middle")), "Middle": counted("Middle", addAndCall(1, "a.Back", "c.Inner")),
					"Back": counted("Back", addAndCall(2, "b1.Inner")), "Inner": addAndCall(5),
				}
				for _, s := range hs.stages {
					s.world.Deploy("app", "T", withMethods(methods, "Back"))
				}
				hs.failWhen(written)
				if _, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); err == nil {
					t.Errorf("%s: no error", written)
				}
				for _, id := range strings.Fields(moves) {
					hs.move(t, id, 1-hs.holder(id))
				}
				for range 2 {
					if reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); reply != "called" || err != nil {
						t.Errorf("%s, moved %q: %q, %v", written, moves, reply, err)
					}
					hs.want(t, map[string]int64{"a": 3, "b": 1, "b1": 5, "c": 5})
				}
				for name, n := range runs {
					if n > 6 {
						t.Errorf("%s, moved %q: %d runs of %s", written, moves, n, name)
					}
				}
				hs.settled(t)
			})
		}
	}
}

// TestMarkFoundAfterItsCall: a turn learns that there is a mark when it calls another host. It has made the call that
// the mark names before that in the same run, on its own host or without success.
func TestMarkFoundAfterItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		methods := map[string]hosttest.Func{"Begin": addAndCall(1, "c.Middle", "b2.Inner"), "Middle": addAndCall(1, "b1.Inner"), "Inner": addAndCall(5)}
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(methods))
		}
		hs.failWhen("b1")
		if _, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); err == nil {
			t.Error("no error")
		}
		hs.move(t, "b1", 0)
		for range 2 {
			if reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); reply != "called" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			hs.want(t, map[string]int64{"a": 1, "c": 1, "b1": 5, "b2": 5})
		}
		hs.settled(t)
	})
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		methods := map[string]hosttest.Func{
			"Inner": addAndCall(5),
			"Middle": func(t *hosttest.Turn) error {
				if _, err := t.Call("T", "d", "Inner", ""); err != nil {
					return err
				}
				return hosttest.Fail("refused")
			},
			"Begin": func(t *hosttest.Turn) error {
				var failed *actor.GuestError
				if _, err := t.Call("T", "b", "Middle", ""); !errors.As(err, &failed) {
					return fmt.Errorf("no failure: %w", err)
				}
				return addAndCall(1, "b2.Inner")(t)
			},
		}
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(methods))
		}
		for range 2 {
			if reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); reply != "called" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			hs.want(t, map[string]int64{"a": 1, "d": 5, "b2": 5})
		}
		hs.settled(t)
	})
}

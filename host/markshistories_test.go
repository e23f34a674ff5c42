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

// TestCallThatGoesOnWhereItsActorHasMoved: an actor of another host was called and is committed; its caller was not.
// The actor has moved to the caller's host, and would do something else now. The caller gets the reply of then, and
// what the actor did not do then is not done.
func TestCallThatGoesOnWhereItsActorHasMoved(t *testing.T) {
	for _, other := range []string{"b1", "b2", "c"} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			methods := map[string]hosttest.Func{"Begin": addAndCall(1, "b.Middle"), "Inner": addAndCall(5), "Middle": func(t *hosttest.Turn) error {
				n, err := t.Add("n", 1)
				if err != nil {
					return err
				}
				if n > 1 {
					return passOn(t, other, "Inner", "")
				}
				return passOn(t, "b1", "Do", addFive)
			}}
			for _, s := range hs.stages {
				s.world.Deploy("app", "T", withMethods(methods))
			}
			hs.failWhen("b")
			_, err := hs.invoke(t.Context(), "a", "Begin", "", "k")
			wantCondition(t, err, actor.ErrUnavailable)
			hs.want(t, map[string]int64{"a": 0, "b": 1, "b1": 5})
			hs.move(t, "b", 0)
			for range 2 {
				if reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); reply != "called" || err != nil {
					t.Errorf("%q, %v", reply, err)
				}
				hs.want(t, map[string]int64{"a": 1, "b": 1, "b1": 5, "b2": 0, "c": 0})
			}
			hs.settled(t)
		})
	}
}

// TestToleratedFailureOfATurnThatHasCalled: a turn takes the failure of an actor of another host for an answer, though
// that has called a third one before, which is committed. The turn is committed.
func TestToleratedFailureOfATurnThatHasCalled(t *testing.T) {
	for _, status := range []uint16{abi.StatusFailedPrecondition, abi.StatusUnavailable} {
		for _, at := range []string{"b", "c"} {
			if at == "b" && status == abi.StatusUnavailable { // of which the caller's host does not know whether it has called
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				runs := 0
				methods := map[string]hosttest.Func{
					"Begin": func(t *hosttest.Turn) error {
						runs++
						if _, err := t.Add("n", 1); err != nil {
							return err
						}
						var failed *actor.GuestError
						_, err := t.Call("T", at, "Middle", "")
						if !errors.As(err, &failed) {
							return fmt.Errorf("no failure: %w", err)
						}
						return t.Reply(failed.Code)
					},
					"Middle": func(t *hosttest.Turn) error {
						if _, err := t.Call("T", map[string]string{"b": "d", "c": "b1"}[at], "Do", addFive); err != nil {
							return err
						}
						return &actor.GuestError{Status: actor.Status(status), Code: "later", Message: "later"}
					},
				}
				for _, s := range hs.stages {
					s.world.Deploy("app", "T", withMethods(methods))
				}
				for range 2 {
					if reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); reply != "later" || err != nil {
						t.Errorf("%d at %s: %q, %v", status, at, reply, err)
					}
				}
				hs.want(t, map[string]int64{"a": 1, map[string]string{"b": "d", "c": "b1"}[at]: 5})
				if runs > 3 {
					t.Errorf("%d runs", runs)
				}
				hs.settled(t)
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

// TestRepetitionThatWouldCallNow: a call with a key is committed. Its repetition, which its actor's new host runs in
// vain, would call another host now, or call it in another way. It gets the recorded reply, and changes nothing.
func TestRepetitionThatWouldCallNow(t *testing.T) {
	for _, first := range []string{"", "b.1", "b1.1"} {
		for _, middle := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				methods := map[string]hosttest.Func{
					"Begin": func(t *hosttest.Turn) error {
						n, err := t.Add("n", 1)
						if err != nil || n == 1 && first == "" {
							return errors.Join(err, t.Reply("first"))
						}
						id, add := "b", n
						if n == 1 {
							id, _, _ = strings.Cut(first, ".")
						}
						if _, err := t.Call("T", id, "Do", script(op{Do: "add", N: add})); err != nil {
							return err
						}
						if n > 1 {
							return t.Reply("second")
						}
						return t.Reply("first")
					},
					"Outer": func(t *hosttest.Turn) error { return passOn(t, "a", "Begin", "") },
				}
				for _, s := range hs.stages {
					s.world.Deploy("app", "T", withMethods(methods))
				}
				id, method, numbers := "a", "Begin", map[string]int64{"a": 1, "b": 0, "b1": 0}
				if at, _, called := strings.Cut(first, "."); called {
					numbers[at] = 1
				}
				if middle {
					id, method = "c", "Outer"
					hs.move(t, "c", 1)
					hs.failWhen("a")
					_, err := hs.invoke(t.Context(), id, method, "", "k")
					wantCondition(t, err, actor.ErrUnavailable)
				} else if reply, err := hs.invoke(t.Context(), id, method, "", "k"); reply != "first" || err != nil {
					t.Errorf("%q, %v", reply, err)
				}
				hs.want(t, numbers)
				time.Sleep(time.Minute) // of a bubble's clock: the actor counts as one that is not called again
				for range 2 {
					if reply, err := hs.invoke(t.Context(), id, method, "", "k"); reply != "first" || err != nil {
						t.Errorf("%s %s: %q, %v", id, first, reply, err)
					}
					hs.want(t, numbers)
				}
				hs.settled(t)
			})
		}
	}
}

// TestSecondCallAfterOneWithoutAnAnswer: the answer to the first of two calls of other hosts is lost, and its caller
// goes on. In the end the caller has the replies of both, and each has taken effect once.
func TestSecondCallAfterOneWithoutAnAnswer(t *testing.T) {
	for _, second := range []string{"b1.Do", "b.Do", "b.Once"} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			runs := 0
			id, method, _ := strings.Cut(second, ".")
			methods := map[string]hosttest.Func{"Begin": func(t *hosttest.Turn) error {
				runs++
				var codes []string
				for _, to := range []abi.Message{message("b", "Do", 0), message(id, method, 0)} {
					to.Payload = []byte(addFive)
					r, _, err := t.Calls.Call(&to)
					if err != nil {
						t.End(err)
					}
					codes = append(codes, r.Code)
				}
				_, err := t.Add("n", 1)
				return errors.Join(err, t.Reply(strings.Join(codes, ",")))
			}}
			methods["Once"] = hs.methods["Once"]
			for _, s := range hs.stages {
				s.world.Deploy("app", "T", withMethods(methods))
			}
			hs.outcomes = []string{"lost"}
			want := map[string]string{"b1.Do": ",", "b.Do": ",", "b.Once": ",twice"}[second]
			for range 2 {
				if reply, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); reply != want || err != nil {
					t.Errorf("%s: %q, %v", second, reply, err)
				}
			}
			numbers := map[string]int64{"b": 5}
			switch second {
			case "b1.Do":
				numbers["b1"] = 5
			case "b.Do":
				numbers["b"] = 10
			}
			numbers["a"] = 1
			hs.want(t, numbers)
			if runs > 3 {
				t.Errorf("%d runs", runs)
			}
			hs.settled(t)
		})
	}
}

// TestCostOfMarks: where nothing fails, what a call with a key calls at other hosts runs once, and is committed once.
func TestCostOfMarks(t *testing.T) {
	for name, c := range map[string]struct {
		ops     []op
		commits int
	}{
		"a call":                {ops: []op{opAdd(1), opCall("b", opAdd(1))}, commits: 2},
		"two calls":             {ops: []op{opAdd(1), opCall("b", opAdd(1)), opCall("b1", opAdd(1))}, commits: 3},
		"a callback":            {ops: []op{opAdd(1), opCall("b", opAdd(1), opAgain("a", opAdd(1)))}, commits: 2},
		"a callback that calls": {ops: []op{opAdd(1), opCall("b", opAdd(1), opAgain("a", opAdd(1), opCall("b1", opAdd(1))))}, commits: 3},
		"three deep":            {ops: []op{opAdd(1), opCall("b", opAdd(1), opCall("c", opAdd(1), opCall("b1", opAdd(1))))}, commits: 4},
		"a called turn":         {ops: []op{opAdd(1), opCall("c", opAdd(1), opCall("b", opAdd(1)), opCall("b1", opAdd(1)))}, commits: 3},
	} {
		for _, together := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				for _, id := range []string{"a", "b", "b1", "c"} {
					hs.warm(t, id)
				}
				synctest.Wait()
				commits := 0
				hs.store.mu.Lock()
				hs.store.applying = func(*actor.Commit) { commits++ }
				hs.store.mu.Unlock()
				hs.ends = nil
				inv := actor.Invocation{Key: key("a"), Method: "Do", IdempotencyKey: "k", Payload: actor.Payload{Data: []byte(script(c.ops...))}}
				if together {
					list := []actor.Call{{Key: inv.Key, Method: inv.Method, Payload: inv.Payload}, {Key: key("d"), Method: "Do", Payload: actor.Payload{Data: []byte(addFive)}}}
					inv.Method, inv.Payload = actor.MethodAll, actor.Payload{Data: actor.EncodeCalls(list)}
				}
				if _, err := hs.stages[0].Invoke(t.Context(), inv); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				synctest.Wait()
				for _, e := range hs.ends {
					if e.Runs > 1 || e.Err != nil {
						t.Errorf("%s: %s.%s has had %d runs: %v", name, e.Key.ID, e.Method, e.Runs, e.Err)
					}
				}
				if commits != c.commits {
					t.Errorf("%s: %d commits, want %d", name, commits, c.commits)
				}
				hs.settled(t)
			})
		}
	}
}

// TestHostileMarks: whatever marks a peer sends with a call, the host answers, and stays whole.
func TestHostileMarks(t *testing.T) {
	mark := func(of, names actor.KeyedCall) actor.IdempotencyRecord {
		return actor.IdempotencyRecord{Actor: of.Actor, Method: of.Method, Key: of.Key, TTL: time.Hour, Mark: &names}
	}
	own := actor.KeyedCall{Actor: key("b"), Method: "Do", Key: "k"}
	over := actor.KeyedCall{Actor: key("b"), Method: "Do", Key: "over"}
	callbacks := own
	callbacks.Key = actor.CallbacksKey(own.Key)
	caller := actor.KeyedCall{Actor: key("a"), Method: "Do", Key: "k"}
	many := make([]actor.IdempotencyRecord, actor.MaxWaits)
	for i := range many {
		many[i] = mark(actor.KeyedCall{Actor: key(fmt.Sprint("a", i)), Method: "Do", Key: "k"}, own)
	}
	for name, c := range map[string]struct {
		marks []actor.IdempotencyRecord
		want  error
	}{
		"of the call itself":       {marks: []actor.IdempotencyRecord{mark(own, own)}},
		"of its reply":             {marks: []actor.IdempotencyRecord{mark(own.Done(), own)}},
		"of its callbacks":         {marks: []actor.IdempotencyRecord{mark(callbacks, own)}},
		"twice":                    {marks: []actor.IdempotencyRecord{mark(caller, own), mark(caller, own)}},
		"twice, of another call":   {marks: []actor.IdempotencyRecord{mark(caller, over), mark(caller, own)}},
		"of a call that is over":   {marks: []actor.IdempotencyRecord{mark(over, own)}, want: actor.ErrCanceled},
		"of all and one of itself": {marks: append([]actor.IdempotencyRecord{mark(own, caller)}, many[1:]...)},
		"many":                     {marks: many},
		"with another method":      {marks: []actor.IdempotencyRecord{mark(actor.KeyedCall{Actor: key("b"), Method: "done:Do", Key: "over"}, own)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{TurnDeadline: time.Minute})
			if _, err := hs.invoke(t.Context(), "b", "Do", addFive, over.Key); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				for _, waits := range [][]string{nil, {"none.1"}} {
					began := time.Now()
					r, err := hs.stages[1].Invoke(t.Context(), actor.Invocation{
						Key: own.Actor, Method: own.Method, IdempotencyKey: own.Key, Payload: actor.Payload{Data: []byte(addFive)},
						Origin: &actor.Origin{From: key("a"), Chain: "c", Depth: 1, Waits: waits, Marks: c.marks},
					})
					if !errors.Is(err, c.want) || c.want == nil && string(r.Payload.Data) != "10" {
						t.Errorf("%s: %q, %v", name, r.Payload.Data, err)
					}
					if time.Since(began) > 0 {
						t.Errorf("%s: it took %v", name, time.Since(began))
					}
				}
			}
			// Others go on.
			if _, err := hs.invoke(t.Context(), "b", "Do", addFive, "another"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			hs.settled(t)
		})
	}
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

// TestCallsTogetherThatDecideOtherwise: several calls in one transaction have called another host, and were not
// committed. They are held to that like one call.
func TestCallsTogetherThatDecideOtherwise(t *testing.T) {
	for _, moves := range []string{"", "b", "a d"} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			calls := true
			methods := map[string]hosttest.Func{"Pay": func(t *hosttest.Turn) error {
				if calls {
					return passOn(t, "b", "Do", addFive)
				}
				_, err := t.Add("n", 1)
				return errors.Join(err, t.Reply("refused"))
			}}
			for _, s := range hs.stages {
				s.world.Deploy("app", "T", withMethods(methods))
			}
			list := []actor.Call{{Key: key("d"), Method: "Do", Payload: actor.Payload{Data: []byte(addFive)}}, {Key: key("a"), Method: "Pay"}}
			all := func() error {
				_, err := hs.stages[hs.holder("a")].Invoke(t.Context(), actor.Invocation{
					Key: list[0].Key, Method: actor.MethodAll, IdempotencyKey: "k", Payload: actor.Payload{Data: actor.EncodeCalls(list)},
				})
				return err
			}
			hs.failWhen("b")
			wantCondition(t, all(), actor.ErrUnavailable)
			for _, id := range strings.Fields(moves) {
				hs.move(t, id, 1-hs.holder(id))
			}
			calls = false
			for range 2 {
				wantCondition(t, all(), actor.ErrLeft)
				hs.want(t, map[string]int64{"a": 0, "b": 5, "d": 0})
			}
			calls = true
			for range 2 {
				if err := all(); err != nil {
					t.Error(err)
				}
				hs.want(t, map[string]int64{"a": 0, "b": 5, "d": 5})
			}
			hs.settled(t)
		})
	}
}

// TestReadOnlyTurnMarksNothing: a read-only method with a key, and what it reads at other hosts, leave no records.
func TestReadOnlyTurnMarksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		for _, id := range []string{"a", "b", "c"} {
			hs.warm(t, id)
		}
		look := op{Do: "call", ID: "b", Look: true, Ops: []op{{Do: "call", ID: "c", Look: true, Ops: []op{}}}}
		for range 2 {
			if _, err := hs.invoke(t.Context(), "a", "See", script(look), "k"); err != nil {
				t.Error(err)
			}
		}
		if len(hs.store.calls) != 0 {
			t.Errorf("recorded %v", hs.store.calls)
		}
		if reply, err := hs.invoke(t.Context(), "a", "Do", script(opAdd(1), look), "k"); err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		if len(hs.store.calls) != 1 {
			t.Errorf("recorded %v", hs.store.calls)
		}
		hs.settled(t)
	})
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

// TestReplyAndMarkInBatchesThatAreJoined: the reply of a turn, and a late call of an earlier run of it, are in two
// pending batches of one host, which a third chain joins. One of the two is committed, and the others are not harmed.
func TestReplyAndMarkInBatchesThatAreJoined(t *testing.T) {
	for _, late := range []bool{true, false} { // the late call is read first
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			calls := true
			methods := map[string]hosttest.Func{"Begin": func(t *hosttest.Turn) error {
				if !calls {
					_, err := t.Add("n", 1)
					return errors.Join(err, t.Reply("none"))
				}
				m := message("b", "Do", 50)
				m.Payload = []byte(addFive)
				if _, _, err := t.Calls.Call(&m); err != nil {
					t.End(err)
				}
				return hosttest.Fail("later")
			}}
			for _, s := range hs.stages {
				s.world.Deploy("app", "T", withMethods(methods))
			}
			hs.outcomes = []string{"late"}
			if _, err := hs.invoke(t.Context(), "a", "Begin", "", "k"); err == nil {
				t.Error("no error")
			}
			hs.move(t, "a", 1)
			calls = false
			hold := make(chan struct{})
			for _, id := range []string{"a", "b", "b9"} {
				hs.warm(t, id)
			}
			hs.store.mu.Lock()
			hs.store.hold = hold
			hs.store.mu.Unlock()
			answers := make(chan string, 4)
			begin := func(id, method, payload, idem string) {
				go func() {
					reply, err := hs.invoke(t.Context(), id, method, payload, idem)
					answers <- fmt.Sprint(method, reply, err)
				}()
				synctest.Wait()
			}
			begin("a", "Do", `[{"do":"add","n":1}]`, "")
			begin("b", "Do", `[{"do":"add","n":1}]`, "")
			hs.late[0]()
			synctest.Wait()
			begin("a", "Begin", "", "k")
			first, second := opCall("b", opAdd(1)), opCall("a", opAdd(1))
			if !late {
				first, second = second, first
			}
			begin("b9", "Do", script(opAdd(1), first, second), "")
			hs.store.mu.Lock()
			hs.store.hold = nil
			hs.store.mu.Unlock()
			close(hold)
			numbers := map[string]int64{"a": 4, "b": 3, "b9": 2}
			for range cap(answers) {
				switch a := <-answers; {
				case strings.HasSuffix(a, "<nil>"):
				case strings.HasPrefix(a, "Begin") && strings.Contains(a, "has called Do of T b"):
					numbers["a"], numbers["b"] = 3, 8
				default:
					t.Errorf("%q", a)
				}
			}
			synctest.Wait()
			hs.want(t, numbers)
			hs.settled(t)
		})
	}
}

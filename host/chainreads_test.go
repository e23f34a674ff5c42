package host_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestReadOnlyTurnsCall: a read-only method, called from outside or by a turn, may call read-only
// methods, also of an actor that is reentrant, and no other.
func TestReadOnlyTurnsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		a := scriptedActor()
		a.ReadOnly["Nest"] = func(t *hosttest.Turn) error {
			reply, err := t.Call("T", "b", "See", script(op{Do: "must", ID: "a", Look: true, Again: true}, op{Do: "must", ID: "c", Look: true, Again: true}))
			return errors.Join(err, t.Reply(reply))
		}
		a.Methods["NestIn"] = func(t *hosttest.Turn) error {
			if _, err := t.Add("n", 10); err != nil {
				return err
			}
			reply, err := t.Call("T", "d", "Nest", "")
			return errors.Join(err, t.Reply(reply))
		}
		s.world.Deploy("app", "T", a)
		for id, n := range map[string]int64{"a": 1, "b": 2, "c": 3} {
			if _, err := s.do(t, id, op{Do: "add", N: n}); err != nil {
				t.Fatal(err)
			}
		}
		before := s.store.row(key("a")).Version
		s.mustCall(t, "a", "Nest", "(1) (3)")
		s.mustCall(t, "d", "Nest", "(1) (3)")
		if s.store.row(key("a")).Version != before {
			t.Error("a read-only method has written")
		}
		s.mustCall(t, "c", "NestIn", "(1) (13)") // on what c's open turn has done
		_, err := s.see(t, "a", op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}})
		var refused *actor.GuestError
		if !errors.As(err, &refused) || !strings.Contains(refused.Message, "code -3") {
			t.Errorf("a read-only turn has called a method that is not: %v", err)
		}
		s.wantNumbers(t, map[string]int64{"a": 1, "b": 2})
	})
}

// TestReadOnlyTurnSeesOneMoment: what a read-only turn sees of several actors was so at one moment,
// and is not older than a strong read asks for.
func TestReadOnlyTurnSeesOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeStore()
		fake.shared = true
		s := newChainStage(t, host.Config{Committer: fake})
		s.store = fake
		see := func(id string) op { return op{Do: "must", ID: id, Look: true} }
		sees := func(want string) {
			t.Helper()
			r, err := s.Invoke(t.Context(), actor.Invocation{
				Key: key("auditor"), Method: "See", Consistency: actor.ConsistencyStrong, Payload: actor.Payload{Data: []byte(script(see("a"), see("b")))},
			})
			if err != nil || string(r.Payload.Data) != want {
				t.Errorf("%q, %v, want %q", r.Payload.Data, err, want)
			}
		}
		sees("(0) (0)")
		for _, id := range []string{"b", "a"} { // another host
			s.store.write(key(id), func(row *actor.Row) {
				row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":5}`)}
			})
		}
		sees("(5) (5)")
		time.Sleep(time.Minute)
		s.store.write(key("b"), func(row *actor.Row) {
			row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":6}`)}
		})
		sees("(5) (6)")

		// One that calls in its first run, and not in its turn.
		calls := true
		a := scriptedActor()
		a.ReadOnly["See"] = func(t *hosttest.Turn) error {
			if calls {
				calls = false
				_, _ = t.Call("T", "b", "Look", "")
				panic("a read-only method has called without a turn")
			}
			return look(t)
		}
		s.world.Deploy("app", "T", a)
		if _, err := s.do(t, "auditor", op{Do: "add"}); err != nil {
			t.Fatal(err)
		}
		s.store.write(key("auditor"), func(row *actor.Row) {
			row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":7}`)}
		})
		sees("7")
	})
}

// TestReadOnlyTurnsThatCannotCall: those of types without state.
func TestReadOnlyTurnsThatCannotCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementStateless, ReadOnly: map[string]hosttest.Func{
			"See": func(t *hosttest.Turn) error {
				_, err := t.Call("T", "x", "Look", "")
				return err
			},
		}})
		_, err := s.see(t, "a")
		if got := codeOf(err); got != abi.CallNotAtomic {
			t.Error(err)
		}
	})
}

// TestReadOnlyTurnThatCallsLeavesNothing: like any read-only method, one that calls ignores idempotency
// keys: it commits nothing, fails without a commit, and runs again under the same key with another payload.
func TestReadOnlyTurnThatCallsLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		if _, err := s.do(t, "b", op{Do: "add", N: 1}); err != nil {
			t.Fatal(err)
		}
		s.store.applying = func(c *actor.Commit) { t.Errorf("committed %+v", c) }
		must := op{Do: "must", ID: "b", Look: true}
		for _, c := range []struct {
			ops   []op
			reply string
		}{{[]op{must}, "(1)"}, {[]op{must}, "(1)"}, {[]op{must, must}, "(1) (1)"}, {[]op{must, {Do: "fail"}}, ""}} {
			r, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "See", IdempotencyKey: "k", Payload: actor.Payload{Data: []byte(script(c.ops...))}})
			if string(r.Payload.Data) != c.reply || (err == nil) != (c.reply != "") {
				t.Errorf("%q, %v, want %q", r.Payload.Data, err, c.reply)
			}
		}
		if n := s.store.takeLookups(); n != 0 {
			t.Errorf("%d keys were looked up", n)
		}
	})
}

// TestRevisionOfAReadOnlyTurnThatCalls: a read-only turn has a revision of its own in a mailbox as well,
// whether it has called others, with an idempotency key or without, or nothing.
func TestRevisionOfAReadOnlyTurnThatCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		a := scriptedActor()
		var calls, changes bool
		seen := map[uint64]string{}
		notes := func(next func(*hosttest.Turn) error) func(*hosttest.Turn) error {
			return func(t *hosttest.Turn) error {
				seen[t.Frame.Revision] += t.Frame.Method
				return next(t)
			}
		}
		a.Methods["Do"] = notes(a.Methods["Do"])
		a.ReadOnly["See"] = notes(func(t *hosttest.Turn) error {
			if changes {
				calls = !calls // so it calls in its first run, and not in the mailbox
			}
			if !calls {
				return nil
			}
			_, err := t.Call("T", "b", "Look", "")
			return err
		})
		s.world.Deploy("app", "T", a)
		for i, idem := range []string{"", "k", ""} {
			calls, changes = true, i == 2
			if changes {
				calls = false
			}
			if _, err := s.do(t, "a", op{Do: "add", N: 1}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "See", IdempotencyKey: idem}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.do(t, "a", op{Do: "add", N: 1}); err != nil {
				t.Fatal(err)
			}
		}
		for rev, methods := range seen {
			if strings.Contains(methods, "See") && methods != "See" {
				t.Errorf("the turns of %s have the revision %d", methods, rev)
			}
		}
	})
}

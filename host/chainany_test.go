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

// anyStage is a stage whose actors no host holds, on a store that others write to. runs is of the
// turns that ended last.
func anyStage(t *testing.T, cfg host.Config) (s *stage, runs func(id string) int) {
	fake := newFakeStore()
	fake.shared = true
	ran := map[string]int{}
	cfg.Committer = fake
	cfg.Observers = append(cfg.Observers, host.Events{TurnEnd: func(e host.TurnEnd) { ran[e.Key.ID] = e.Runs }})
	s = newStage(t, cfg)
	s.store = fake
	a := scriptedActor()
	a.Placement = abi.PlacementAny
	s.world.Deploy("app", "T", a)
	return s, func(id string) int { return ran[id] }
}

// TestChainOfActorsThatNoHostHolds is one commit, of the outermost turn's actor and of those that it
// calls, and the host keeps none of them. The first call of a method ends a locked turn.
func TestChainOfActorsThatNoHostHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runs := anyStage(t, host.Config{})
		var commits []actor.Commit
		s.store.applying = func(c *actor.Commit) { commits = append(commits, *c) }
		ops := []op{
			{Do: "add", N: 1}, {Do: "call", ID: "b", Ops: []op{{Do: "add", N: 2}, {Do: "call", ID: "a", Again: true, Ops: []op{{Do: "add", N: 3}}}}},
			{Do: "call", ID: "c", Ops: []op{{Do: "add", N: 9}, {Do: "trap"}}}, {Do: "call", ID: "c", Look: true}, {Do: "add"},
		}
		for i := range 3 {
			want := fmt.Sprintf("%d (%d (%d)) (trap) (0) %d", 4*i+1, 2*i+2, 4*i+4, 4*i+4)
			if reply, err := s.do(t, "a", ops...); err != nil || reply != want {
				t.Fatalf("%q, %v, want %q", reply, err, want)
			}
			if want := map[bool]int{true: 2, false: 1}[i == 0]; runs("a") != want {
				t.Errorf("%d runs, want %d", runs("a"), want)
			}
			if n := s.StateMemory(); n != 0 {
				t.Errorf("actors in memory take %d bytes", n)
			}
		}
		if len(commits) != 3 || len(commits[0].Rows) != 2 || len(commits[0].Fences) != 1 {
			t.Errorf("commits %+v", commits)
		}
		if reply, err := s.do(t, "b", op{Do: "add", N: 1}); err != nil || reply != "7" {
			t.Errorf("%q, %v", reply, err)
		}
		if _, err := s.do(t, "a", append(ops, op{Do: "fail"})...); codeOf(err) != "on_purpose" {
			t.Error(err)
		}
		if reply, err := s.see(t, "b", op{Do: "must", ID: "a", Look: true}); err != nil || reply != "(12)" {
			t.Errorf("%q, %v", reply, err)
		}
		s.wantNumbers(t, map[string]int64{"a": 12, "b": 7, "c": 0})
	})
}

// TestAnotherHostChangesAnActorOfAChain that no host holds: the chain runs again, on what is stored.
func TestAnotherHostChangesAnActorOfAChain(t *testing.T) {
	for _, other := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := anyStage(t, host.Config{})
			ops := []op{{Do: "add", N: 1}, {Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}}, {Do: "call", ID: "c", Look: true}, {Do: "call", ID: "gate"}}
			gate := newGate()
			a := scriptedActor()
			a.Placement = abi.PlacementAny
			a.Methods["Do"] = func(t *hosttest.Turn) error {
				if t.Frame.ID == "gate" {
					return gate.wait(t)
				}
				return scripted(t)
			}
			s.world.Deploy("app", "T", a)
			done := make(chan string)
			go func() {
				reply, err := s.do(t, "a", ops...)
				if err != nil {
					t.Error(err)
				}
				done <- reply
			}()
			<-gate.entered
			s.store.write(key(other), func(row *actor.Row) {
				row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":50}`)}
			})
			close(gate.leave)
			want := map[string]int64{"a": 0, "b": 0, "c": 0}
			want[other] = 50
			if reply := <-done; reply != fmt.Sprintf("%d (%d) (%d) ()", want["a"]+1, want["b"]+1, want["c"]) {
				t.Errorf("%q", reply)
			}
			s.wantNumbers(t, map[string]int64{"a": want["a"] + 1, "b": want["b"] + 1})
		})
	}
}

// TestChainReadsBesideLocks: the read of an actor that a locked turn of another host has does not wait
// for that turn. It is in one group with reads of other apps.
func TestChainReadsBesideLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := anyStage(t, host.Config{})
		s.store.readsWait = true
		ops := []op{{Do: "add", N: 1}, {Do: "must", ID: "b", Ops: []op{{Do: "add", N: 1}}}}
		for n := range 2 { // in the locked lane first, and at once in a chain
			lock := s.store.lock(key("b"))
			began := time.Now()
			if reply, err := s.do(t, "a", ops...); err != nil || reply != fmt.Sprintf("%d (%d)", n+1, n+1) {
				t.Errorf("%q, %v", reply, err)
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("waited for %v", waited)
			}
			<-lock
		}
	})
}

// TestChainOfAnyTypeSends: a request after the first call leaves once. One before it has left under
// the lock of the row, which no chain has, so that the turn would have to send it again: with a
// key it does.
func TestChainOfAnyTypeSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &asked{}
		s, _ := anyStage(t, host.Config{Egress: out})
		a := scriptedActor()
		a.Placement = abi.PlacementAny
		send := func(t *hosttest.Turn) { t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/"}) }
		call := func(t *hosttest.Turn) error {
			_, err := t.Call("T", "b", "Do", script(op{Do: "add", N: 1}))
			return err
		}
		a.Methods["CallSend"] = func(t *hosttest.Turn) error {
			err := call(t)
			send(t)
			return err
		}
		for _, name := range []string{"SendCall", "SendCallKeyed"} {
			a.Methods[name] = func(t *hosttest.Turn) error {
				send(t)
				return call(t)
			}
		}
		s.world.Deploy("app", "T", a)
		for i, step := range []struct {
			method, key string
			code        string
			requests    int
			n           int64
		}{
			{"CallSend", "", "", 1, 1}, {"CallSend", "", "", 1, 2},
			{"SendCall", "", abi.CallNotAtomic, 1, 2}, {"SendCall", "", "", 1, 3},
			{"SendCallKeyed", "k", "", 2, 4}, {"SendCallKeyed", "k", "", 0, 4},
		} {
			out.bodies = nil
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: step.method, IdempotencyKey: step.key})
			if codeOf(err) != step.code || step.code == "" && err != nil || len(out.bodies) != step.requests {
				t.Errorf("step %d: %v, %d requests", i, err, len(out.bodies))
			}
			s.wantNumbers(t, map[string]int64{"b": step.n})
		}
	})
}

// TestChainOfAnyTypeFails behind a fence, if it has an idempotency key.
func TestChainOfAnyTypeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := anyStage(t, host.Config{})
		for _, idem := range []string{"k1", "k2"} { // in the locked lane first, and at once in a chain
			before := s.store.row(key("a")).Version
			_, err := s.Invoke(t.Context(), actor.Invocation{
				Key: key("a"), Method: "Do", IdempotencyKey: idem, Payload: actor.Payload{Data: []byte(script(op{Do: "must", ID: "b", Ops: []op{{Do: "add", N: 1}}}, op{Do: "fail"}))},
			})
			var refused *actor.GuestError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "on_purpose") {
				t.Error(err)
			}
			if s.store.row(key("a")).Version == before {
				t.Error("a failure was answered without a fence")
			}
		}
		s.wantNumbers(t, map[string]int64{"a": 0, "b": 0})
	})
}

// TestChainOfAnyTypeOverHosts: an actor that no host holds is in the chain of whichever host calls it,
// and a call of another host's actor commits on its own. If what runs there changes an actor of
// the chain, the chain is refused: without a key for good, and with one it goes through.
func TestChainOfAnyTypeOverHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		loose := scriptedActor()
		loose.Placement = abi.PlacementAny
		for _, s := range hs.stages {
			s.world.Deploy("app", "Any", loose)
		}
		x := actor.Key{App: "app", Type: "Any", ID: "x"}
		do := func(idem string, ops ...op) (string, error) {
			r, err := hs.stages[1].Invoke(t.Context(), actor.Invocation{Key: x, Method: "Do", IdempotencyKey: idem, Payload: actor.Payload{Data: []byte(script(ops...))}})
			return string(r.Payload.Data), err
		}
		add := op{Do: "add", N: 1}
		both := []op{add, {Do: "must", Type: "T", ID: "b", Ops: []op{add}}, {Do: "must", Type: "T", ID: "a", Ops: []op{add}}}
		for _, n := range []int64{1, 2} {
			if reply, err := do("", both...); err != nil || reply != fmt.Sprintf("%d (%d) (%d)", n, n, n) {
				t.Errorf("%q, %v", reply, err)
			}
		}
		if n := len(hs.invocations()); n != 2 {
			t.Errorf("%d calls were sent", n)
		}
		hs.want(t, map[string]int64{"a": 2, "b": 2})
		around := []op{add, {Do: "must", Type: "T", ID: "a", Ops: []op{add, {Do: "must", Type: "Any", ID: "x", Ops: []op{add}}}}}
		if _, err := do("", around...); !errors.Is(err, actor.ErrLeft) {
			t.Error(err)
		}
		hs.want(t, map[string]int64{"a": 3})
		for range 2 {
			if reply, err := do("k", around...); err != nil || reply != "5 (4 (4))" {
				t.Errorf("%q, %v", reply, err)
			}
		}
		hs.want(t, map[string]int64{"a": 4, "b": 2})
	})
}

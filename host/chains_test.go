package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

type op = hosttest.Op

var (
	script        = hosttest.Script
	scripted      = hosttest.Scripted
	look          = hosttest.Look
	scriptedActor = hosttest.ScriptedActor
)

func (s *stage) do(t *testing.T, id string, ops ...op) (string, error) {
	return s.script(t, id, "Do", ops)
}

// see is do of a read-only method.
func (s *stage) see(t *testing.T, id string, ops ...op) (string, error) {
	return s.script(t, id, "See", ops)
}

func (s *stage) script(t *testing.T, id, method string, ops []op) (string, error) {
	r, err := s.Invoke(t.Context(), actor.Invocation{Key: key(id), Method: method, Payload: actor.Payload{Data: []byte(script(ops...))}})
	return string(r.Payload.Data), err
}

// number is what is stored of an actor.
func (s *stage) number(t *testing.T, id string) int64 {
	t.Helper()
	var state struct{ N int64 }
	row := s.store.row(key(id))
	if len(row.State.Data) == 0 {
		return 0
	}
	if err := json.Unmarshal(row.State.Data, &state); err != nil {
		t.Fatal(err)
	}
	return state.N
}

func (s *stage) wantNumbers(t *testing.T, want map[string]int64) {
	t.Helper()
	for id, n := range want {
		if got := s.number(t, id); got != n {
			t.Errorf("%s has %d, want %d", id, got, n)
		}
	}
}

func newChainStage(t *testing.T, cfg host.Config) *stage {
	s := newStage(t, cfg)
	s.world.Deploy("app", "T", scriptedActor())
	return s
}

// TestChainIsOneCommit: what a turn and those that it calls have done is stored at once, and
// not at all if the outermost turn fails.
func TestChainIsOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		var commits []actor.Commit
		s.store.applying = func(c *actor.Commit) { commits = append(commits, *c) }
		reply, err := s.do(t, "a", op{Do: "add", N: 1}, op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 2}, {Do: "call", ID: "c", Ops: []op{{Do: "add", N: 3}}}}},
			op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 10}}}, op{Do: "call", ID: "d", Look: true})
		if err != nil || reply != "1 (2 (3)) (12) (0)" {
			t.Fatalf("%q, %v", reply, err)
		}
		s.wantNumbers(t, map[string]int64{"a": 1, "b": 12, "c": 3})
		if len(commits) != 1 || len(commits[0].Rows) != 3 || len(commits[0].Fences) != 1 || commits[0].Fences[0].Key != key("d") {
			t.Fatalf("commits %+v", commits)
		}
		if _, err := s.do(t, "a", op{Do: "must", ID: "b", Ops: []op{{Do: "add", N: 1}}}, op{Do: "fail"}); err == nil {
			t.Error("no error")
		}
		s.wantNumbers(t, map[string]int64{"a": 1, "b": 12})
		if reply, err := s.do(t, "b", op{Do: "add"}); err != nil || reply != "12" {
			t.Errorf("%q, %v", reply, err)
		}
	})
}

// TestCalleeFails: an error, a trap or a deadline of a called turn takes back what that turn
// and those that it called have done, and nothing else.
func TestCalleeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		actors := scriptedActor()
		actors.Methods["Hang"] = func(t *hosttest.Turn) error {
			if _, err := t.Add("n", 1000); err != nil {
				return err
			}
			<-t.Context.Done()
			return nil
		}
		actors.Methods["Impatient"] = func(t *hosttest.Turn) error {
			if _, err := t.Add("n", 1); err != nil {
				return err
			}
			_, err := t.CallWith(&abi.Message{Type: "T", ID: "b", Method: "Hang", LimitMillis: 100})
			return t.Reply(err.Error())
		}
		s.world.Deploy("app", "T", actors)
		for _, how := range []string{"fail", "trap"} {
			reply, err := s.do(t, "a", op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}}, op{Do: "call", ID: "c", Ops: []op{
				{Do: "add", N: 100}, {Do: "call", ID: "b", Ops: []op{{Do: "add", N: 100}}}, {Do: "call", ID: "d", Ops: []op{{Do: "add", N: 100}}}, {Do: how},
			}}, op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}}, op{Do: "call", ID: "d", Ops: []op{{Do: "add", N: 1}}}, op{Do: "add", N: 1})
			if err != nil {
				t.Fatal(err)
			}
			if code := map[string]string{"fail": "on_purpose", "trap": "trap"}[how]; !strings.Contains(reply, code) {
				t.Errorf("%s: %q", how, reply)
			}
		}
		s.wantNumbers(t, map[string]int64{"a": 2, "b": 4, "c": 0, "d": 2})
		if reply, err := s.call(t.Context(), "a", "Impatient"); err != nil || !strings.Contains(reply, "deadline_exceeded: T b Hang did not end in time; the timeout of the call is 100ms") {
			t.Errorf("%q, %v", reply, err)
		}
		s.wantNumbers(t, map[string]int64{"a": 3, "b": 4})
	})
}

// TestCallerOfABusyActor: the deadline of a call, or of the turn that calls, ends while another turn has
// the actor. The error names it.
func TestCallerOfABusyActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		g := newGate()
		a := scriptedActor()
		a.Methods["Hold"] = g.wait
		a.Methods["Impatient"] = func(t *hosttest.Turn) error {
			_, err := t.CallWith(&abi.Message{Type: "T", ID: "b", Method: "Do", Payload: []byte("[]"), LimitMillis: 100})
			return t.Reply(err.Error())
		}
		s.world.Deploy("app", "T", a)
		held := s.start(t.Context(), "b", "Hold")
		<-g.entered
		s.mustCall(t, "a", "Impatient", "deadline_exceeded: the call of T b did not begin in time; the timeout of the call is 100ms")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		payload := script(op{Do: "call", ID: "c", Ops: []op{{Do: "call", ID: "b"}}})
		_, err := s.Invoke(ctx, actor.Invocation{Key: key("a"), Method: "Do", Payload: actor.Payload{Data: []byte(payload)}})
		if wantCondition(t, err, actor.ErrDeadline); !strings.Contains(err.Error(), "; it waited for T b, which other turns had") {
			t.Error(err)
		}
		close(g.leave)
		if held := <-held; held.err != nil {
			t.Error(held.err)
		}
	})
}

// TestCallsThatDoNotRun: each is refused with its own code, and the caller goes on.
func TestCallsThatDoNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		reach := func(typ, id, method string) hosttest.Func {
			return func(t *hosttest.Turn) error {
				_, err := t.Call(typ, id, method, "[]")
				if err == nil {
					return t.Reply("ok")
				}
				return t.Reply(err.Error())
			}
		}
		deep := make([]op, 0)
		for i := 40; i > 0; i-- {
			deep = []op{{Do: "must", ID: fmt.Sprint("deep", i), Ops: deep}}
		}
		many := make([]op, 0)
		for i := range 70 {
			many = append(many, op{Do: "must", ID: fmt.Sprint("many", i)})
		}
		actors := scriptedActor()
		outcomes := map[string]hosttest.Func{
			"type_not_found": reach("No", "x", "Do"), "method_not_found": reach("T", "x", "No"), "invalid_call": reach("T", "", "Do"),
			"not_reentrant": reach("T", "a", "Do"), "ok": reach("T", "x", "Do"),
		}
		maps.Copy(actors.Methods, outcomes)
		s.world.Deploy("app", "T", actors)
		for name := range outcomes {
			if reply, err := s.call(t.Context(), "a", name); err != nil || !strings.Contains(reply, name) {
				t.Errorf("%s: %q, %v", name, reply, err)
			}
		}
		for code, ops := range map[string][]op{
			"too_deep": deep, "too_many": many,
			"not_reentrant": {{Do: "must", ID: "b", Ops: []op{{Do: "must", ID: "a"}}}},
		} {
			_, err := s.do(t, "a", ops...)
			var refused *actor.GuestError
			if !errors.As(err, &refused) || refused.Code != code {
				t.Errorf("%v, want %s", err, code)
			}
		}
	})
}

// TestChainOutcomes: the end of a chain's commit is the same for all of its actors.
func TestChainOutcomes(t *testing.T) {
	for fault, want := range map[string]struct {
		err  *actor.Condition
		sums int64
	}{
		"":            {nil, 1},
		"unavailable": {actor.ErrUnavailable, 0},
		"lost":        {nil, 1}, // it is settled, and runs again
		"applied":     {nil, 1},
		"overtaken":   {actor.ErrAmbiguous, 1},
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newChainStage(t, host.Config{})
				if fault != "" {
					s.store.plan("commit", fault)
				}
				_, err := s.do(t, "a", op{Do: "add", N: 1}, op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}})
				if want.err == nil && err != nil || want.err != nil && !errors.Is(err, want.err) {
					t.Errorf("error %v, want %v", err, want.err)
				}
				s.wantNumbers(t, map[string]int64{"a": want.sums, "b": want.sums})
				if reply, err := s.do(t, "b", op{Do: "add"}); err != nil || reply != fmt.Sprint(want.sums) {
					t.Errorf("%q, %v", reply, err)
				}
			})
		})
	}
}

// TestChainMeetsAnotherWriter: a chain whose callee, or one that it has only read, was
// changed by another writer runs again, on what is stored.
func TestChainMeetsAnotherWriter(t *testing.T) {
	for _, other := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			s := newChainStage(t, host.Config{})
			ops := []op{{Do: "add", N: 1}, {Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}}, {Do: "call", ID: "c", Look: true}}
			if _, err := s.do(t, "a", ops...); err != nil {
				t.Fatal(err)
			}
			s.store.write(key(other), func(row *actor.Row) {
				row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":50}`)}
			})
			want := map[string]int64{"a": 1, "b": 1, "c": 0}
			want[other] = 50
			reply, err := s.do(t, "a", ops...)
			if err != nil || reply != fmt.Sprintf("%d (%d) (%d)", want["a"]+1, want["b"]+1, want["c"]) {
				t.Errorf("%q, %v", reply, err)
			}
			s.wantNumbers(t, map[string]int64{"a": want["a"] + 1, "b": want["b"] + 1})
		})
	}
}

// TestChainWithKey: a repeated call gets the recorded reply, and the failure of a chain is
// answered behind a fence.
func TestChainWithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		call := func(key_ string, ops ...op) (string, error) {
			r, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Do", IdempotencyKey: key_, Payload: actor.Payload{Data: []byte(script(ops...))}})
			return string(r.Payload.Data), err
		}
		for range 2 {
			if reply, err := call("k", op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}}); err != nil || reply != "(1)" {
				t.Errorf("%q, %v", reply, err)
			}
		}
		before := s.store.row(key("a")).Version
		if _, err := call("failing", op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}}, op{Do: "fail"}); err == nil {
			t.Error("no error")
		}
		s.wantNumbers(t, map[string]int64{"b": 1})
		if after := s.store.row(key("a")).Version; after == before {
			t.Error("a failure was answered without a fence")
		}
	})
}

// TestDeadlock: of two chains that wait for each other the younger one runs again, when the other
// one has its actor. If it has sent a request, it fails without a trace, unless it may send it again.
func TestDeadlock(t *testing.T) {
	for how, again := range map[string]bool{"": true, "sends": false, "sends with a key": true} {
		synctest.Test(t, func(t *testing.T) {
			s := newChainStage(t, host.Config{Egress: &asked{}})
			both := newGate()
			actors := scriptedActor()
			runs := map[string]int{}
			actors.Methods["Cross"] = func(t *hosttest.Turn) error {
				runs[t.Frame.ID]++
				if _, err := t.Add("n", 1); err != nil {
					return err
				}
				if _, err := t.Call("T", "of"+t.Frame.ID, "Do", script(op{Do: "add", N: 1})); err != nil { // the chain has begun
					return err
				}
				if how != "" && t.Frame.ID == "b" {
					t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/"})
				}
				if err := both.wait(t); err != nil {
					return err
				}
				other := map[string]string{"a": "b", "b": "a"}[t.Frame.ID]
				_, err := t.Call("T", other, "Do", script(op{Do: "add", N: 10}))
				return err
			}
			s.world.Deploy("app", "T", actors)
			start := func(id, key_ string) <-chan error {
				done := make(chan error, 1)
				go func() {
					_, err := s.Invoke(t.Context(), actor.Invocation{Key: key(id), Method: "Cross", IdempotencyKey: key_})
					done <- err
				}()
				synctest.Wait()
				return done
			}
			first := start("a", "")
			second := start("b", map[bool]string{true: "k"}[how == "sends with a key"])
			third := s.start(t.Context(), "b", "Look") // behind both
			synctest.Wait()
			close(both.leave)
			if err := <-first; err != nil {
				t.Error(err)
			}
			want := map[string]int64{"a": 11, "b": 11, "ofa": 1, "ofb": 1}
			switch err := <-second; {
			case !again:
				wantCondition(t, err, actor.ErrLeft)
				if text := err.Error(); !strings.Contains(text, "T a") || !strings.Contains(text, "T b") {
					t.Errorf("the circle is not in %v", err)
				}
				want = map[string]int64{"a": 1, "b": 10, "ofa": 1, "ofb": 0}
			case err != nil:
				t.Error(err)
			case runs["a"] != 1 || runs["b"] != 2:
				t.Errorf("%d and %d runs", runs["a"], runs["b"])
			}
			<-third
			s.wantNumbers(t, want)
		})
	}
}

// TestOpposingTransfers: chains that want the same actors in opposing orders all succeed.
func TestOpposingTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		actors := scriptedActor()
		actors.Methods["Slow"] = func(t *hosttest.Turn) error {
			time.Sleep(time.Millisecond)
			return scripted(t)
		}
		actors.Methods["Move"] = func(t *hosttest.Turn) error {
			for i := range 3 {
				id := fmt.Sprint("acc", (int(t.Frame.Payload[0]-'0')+i*int(t.Frame.Payload[1]-'0'))%3)
				if _, err := t.Call("T", id, "Slow", script(op{Do: "add", N: 1})); err != nil {
					return err
				}
			}
			return nil
		}
		s.world.Deploy("app", "T", actors)
		var all sync.WaitGroup
		for caller := range 6 {
			all.Go(func() {
				for range 50 {
					_, err := s.Invoke(t.Context(), actor.Invocation{
						Key: key(fmt.Sprint("by", caller)), Method: "Move", Payload: actor.Payload{Data: fmt.Appendf(nil, "%d%d", caller%3, caller/3+1)},
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		s.wantNumbers(t, map[string]int64{"acc0": 300, "acc1": 300, "acc2": 300})
	})
}

// TestCallsWaitForChain: a call of an actor that a chain has waits until the chain ends, and
// sees what it did; one that is not patient leaves no trace.
func TestCallsWaitForChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		hold := newGate()
		actors := scriptedActor()
		actors.Methods["Hold"] = func(t *hosttest.Turn) error {
			if _, err := t.Call("T", "b", "Do", script(op{Do: "add", N: 5})); err != nil {
				return err
			}
			return hold.wait(t)
		}
		s.world.Deploy("app", "T", actors)
		holding := s.start(t.Context(), "a", "Hold")
		synctest.Wait()
		var later sync.WaitGroup
		later.Go(func() {
			if reply, err := s.do(t, "b", op{Do: "add", N: 1}); err != nil || reply != "6" {
				t.Errorf("%q, %v", reply, err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Invoke(ctx, actor.Invocation{Key: key("b"), Method: "Do", Payload: actor.Payload{Data: []byte(script(op{Do: "add", N: 1}))}})
		wantCondition(t, err, actor.ErrDeadline)
		close(hold.leave)
		if a := <-holding; a.err != nil {
			t.Error(a.err)
		}
		later.Wait()
		s.wantNumbers(t, map[string]int64{"b": 6})
	})
}

// TestChainNeedsOneMoreInstance: chains whose turns wait do not take the instances and processors that
// those they wait for need.
func TestChainNeedsOneMoreInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{Slots: 1, Limits: host.Limits{Instances: 1}})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				_, err := s.do(t, fmt.Sprint("x", i), op{Do: "must", ID: fmt.Sprint("y", i%3), Ops: []op{
					{Do: "add", N: 1}, {Do: "must", ID: "z", Ops: []op{{Do: "add", N: 1}}},
				}})
				if err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if _, err := s.do(t, fmt.Sprint("y", i%3), op{Do: "must", ID: "z", Ops: []op{{Do: "add", N: 1}}}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s.wantNumbers(t, map[string]int64{"z": 40})
		if n := s.world.Open(); n != 1 {
			t.Errorf("%d instances stay", n)
		}
	})
}

// TestChainsAgainstModel runs programs of nested calls, failures, reentrancy, reminders, timers, durable
// and volatile messages, events and lives, one after the other, from outside, as firings of reminders and
// as messages, and compares every reply and what is there afterwards with a sequential model.
func TestChainsAgainstModel(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		// Services are tested on stores, in internal/guarantees.
		programs := hosttest.Programs{Draw: func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "draw") }, Actors: modelActors, Without: []string{"claim", "release"}}
		var roots []op
		for range rapid.IntRange(1, 25).Draw(r, "calls") {
			root := op{ID: programs.Actor(), Do: rapid.SampledFrom([]string{"call", "call", "call", "fire", "consume", "consume"}).Draw(r, "how"), N: int64(programs.Draw(100))}
			root.Ops = programs.Script(4)
			roots = append(roots, root)
		}
		shared, fault := rapid.Bool().Draw(r, "shared"), rapid.SampledFrom([]string{"", "lost", "applied"}).Draw(r, "fault")
		var broken string
		synctest.Test(t, func(t *testing.T) { broken = chainsAgainstModel(t, roots, shared, fault, seen) })
		if broken != "" {
			r.Fatalf("%s\nprogram: %s", broken, script(roots...))
		}
	})
	// What random programs meet too rarely: a message before an earlier one and to a life that has ended,
	// and a method outside of the set.
	add := []op{{Do: "add", N: 1}}
	rare := []op{
		{ID: "a", Do: "call", Ops: []op{{Do: "send", ID: "b", Ops: add}, {Do: "send", ID: "b", Ops: add}}},
		{ID: "b", Do: "consume", N: 1},
		{ID: "b", Do: "call", Ops: []op{{Do: "pass"}}},
		{ID: "b", Do: "consume"},
		{ID: "c", Do: "call", Ops: []op{{Do: "call", ID: "b", Ops: []op{{Do: "become", ID: "closed"}}}, {Do: "call", ID: "b", Again: true, Ops: add}}},
	}
	synctest.Test(t, func(t *testing.T) {
		if broken := chainsAgainstModel(t, rare, false, "", seen); broken != "" {
			t.Error(broken)
		}
	})
	t.Logf("met %v", seen)
	for _, what := range []string{"ok", "on_purpose", "trap", "not_reentrant", "not_accepted", "passed_away", "order", "consumed", "told", "lives", "spawned", "events"} {
		if seen[what] == 0 && !testing.Short() {
			t.Errorf("no program met: %s", what)
		}
	}
}

var modelActors = []string{"a", "b", "c"}

// chainsAgainstModel returns how the host and the model differ.
func chainsAgainstModel(t *testing.T, roots []op, shared bool, fault string, seen map[string]int) string {
	s, rems := remind(t, host.Config{})
	s.store.shared = shared
	s.world.Deploy("app", "T", scriptedActor())
	s.world.Deploy("app", "Child", scriptedActor())
	events := map[string]string{}
	s.store.applying = func(c *actor.Commit) {
		for _, e := range c.Events {
			events[e.Key.ID] += fmt.Sprintf(" %d:%s:%s", e.Life, e.Name, e.Payload.Data)
		}
	}
	m := hosttest.Model{}
	for i, root := range roots {
		time.Sleep(time.Second) // so that what was sent before a life ended is known from what was sent later
		inv := actor.Invocation{Key: key(root.ID), Method: "Do", Payload: actor.Payload{Data: []byte(script(root.Ops...))}}
		var after hosttest.Model
		var tells []hosttest.ModelTell
		var want, code string
		inbox := m.Actor(root.ID).Inbox
		switch {
		case root.Do == "consume" && len(inbox) > 0:
			place := int(root.N) % len(inbox)
			inv.Firing = deliveryOf(messageOf(t, rems, root.ID, m, place))
			inv.Firing.SentAt = inv.Firing.Due
			inv.Payload, root.Ops = inv.Firing.Payload, nil
			if err := json.Unmarshal(inv.Payload.Data, &root.Ops); err != nil {
				t.Fatal(err)
			}
			after, tells, want, code = m.Consume(root.ID, place, root.Ops)
			if code == "" {
				seen["consumed"]++
			}
		case root.Do == "fire":
			inv.Firing = rems.place(t, root.ID, "Do")
			begun := m
			m = m.With(root.ID, func(a *hosttest.ModelActor) { a.Has["n"] = true })
			begun = begun.With(root.ID, func(a *hosttest.ModelActor) { delete(a.Has, "n") })
			after, tells, want, code = begun.Run(root.ID, root.Ops)
		default:
			after, tells, want, code = m.Run(root.ID, root.Ops)
		}
		s.store.mu.Lock()
		s.store.faults["commit"] = nil
		// A firing whose commit has lost its answer finds that it was taken. Volatile messages are
		// delivered with commits of their own.
		if fault != "" && i%3 == 1 && (inv.Firing == nil || fault != "applied") && (len(tells) == 0 || after.Durable() != m.Durable()) {
			s.store.faults["commit"] = []string{fault}
		}
		s.store.mu.Unlock()
		if code == "" {
			m = after
			seen["ok"]++
		} else {
			want = ""
			seen[code]++
		}
		for _, word := range []string{"not_reentrant", "not_accepted", "passed_away"} {
			if strings.Contains(want, word) {
				seen[word]++
			}
		}
		r, err := s.Invoke(t.Context(), inv)
		if got := codeOf(err); string(r.Payload.Data) != want || got != code {
			return fmt.Sprintf("call %d: %q, %v, want %q %s", i, r.Payload.Data, err, want, code)
		}
		if f := inv.Firing; f != nil && f.Message != nil && code == "passed_away" { // it is given up
			m = m.Without(root.ID, int(root.N)%len(inbox))
			rems.mu.Lock()
			delete(rems.reminders, f.Step.ReminderName)
			rems.mu.Unlock()
		}
		for _, told := range tells {
			m = m.Tell(told)
			seen["told"]++
		}
		synctest.Wait()
		for _, id := range modelActors {
			got, err := modelled(t, s, rems, id)
			got.Events = events[id]
			if want := m.Actor(id); err != nil || got.String() != want.String() {
				return fmt.Sprintf("after call %d %s is %v (%v), want %v", i, id, got, err, want)
			}
			seen["lives"], seen["events"] = seen["lives"]+got.Lives, seen["events"]+len(got.Events)
		}
		children := 0
		for k := range s.store.rows {
			if k.Type == "Child" {
				children++
			}
		}
		if seen["spawned"] += children; children != m.Spawned {
			return fmt.Sprintf("after call %d there are %d spawned actors, want %d", i, children, m.Spawned)
		}
	}
	return ""
}

// messageOf returns the message that has this place in the inbox of an actor in the model.
func messageOf(t *testing.T, rems *fakeReminders, id string, m hosttest.Model, place int) actor.Reminder {
	t.Helper()
	inbox := m.Actor(id).Inbox
	from, earlier := inbox[place].From, 0
	for _, msg := range inbox[:place] {
		if msg.From == from {
			earlier++
		}
	}
	for _, r := range rems.messages(key(id)) {
		if r.Message.From == key(from) {
			if earlier == 0 {
				return r
			}
			earlier--
		}
	}
	t.Fatalf("%s has not the message %d of %v", id, place, inbox)
	return actor.Reminder{}
}

// modelled returns what an actor has, without its events.
func modelled(t *testing.T, s *stage, rems *fakeReminders, id string) (a hosttest.ModelActor, err error) {
	row := s.store.row(key(id))
	a = hosttest.ModelActor{Set: row.MethodSet, Lives: int(row.Life), Has: held(t, s, rems, id), Heard: map[string]string{}} //nolint:gosec // few lives
	a.N = s.number(t, id)
	for _, from := range modelActors {
		reply, err := s.Invoke(t.Context(), actor.Invocation{Key: key(id), Method: "Heard", Payload: actor.Payload{Data: []byte(from)}, Consistency: actor.ConsistencyStrong})
		if err != nil {
			return a, err
		}
		if len(reply.Payload.Data) > 0 {
			a.Heard[from] = string(reply.Payload.Data)
		}
	}
	for _, r := range rems.messages(key(id)) {
		a.Inbox = append(a.Inbox, hosttest.ModelMessage{From: r.Message.From.ID, Payload: string(r.Payload.Data)})
	}
	return a, nil
}

// held returns the reminders and timers that an actor has.
func held(t *testing.T, s *stage, rems *fakeReminders, id string) map[string]bool {
	has := map[string]bool{}
	for _, name := range remindedNames(t, rems, id) {
		has[name] = true
	}
	for _, name := range []string{"tx", "ty"} {
		if _, err := s.GetTimer(t.Context(), key(id), name); err == nil {
			has[name] = true
		}
	}
	return has
}

func codeOf(err error) string {
	var guest *actor.GuestError
	var trap *actor.TrapError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &guest):
		return guest.Code
	case errors.As(err, &trap):
		return "trap"
	case errors.Is(err, actor.ErrMessageOrder):
		return "order"
	case errors.Is(err, actor.ErrPassedAway):
		return "passed_away"
	}
	return err.Error()
}

package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// opAdd, opCall and opAgain are operations of scripts.
func opAdd(n int64) op                { return op{Do: "add", N: n} }
func opCall(id string, ops ...op) op  { return op{Do: "call", ID: id, Ops: ops} }
func opAgain(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops, Again: true} }

// settled checks that nothing of calls is left on either host.
func (hs *hosts) settled(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for n, s := range hs.stages {
		if bytes := s.CallMemory(); bytes != 0 {
			t.Errorf("host %d: %d bytes count for calls that have ended", n, bytes)
		}
	}
}

// TestCallback: a call that comes back by way of another host finds the open turn, as one of the same
// host does, and what it changes is that turn's, with all savepoints. The hosts have "a", "c" and "d", and
// those that begin with "b".
func TestCallback(t *testing.T) {
	look, fail, trap := op{Do: "call", ID: "a", Look: true, Again: true}, op{Do: "fail"}, op{Do: "trap"}
	for _, c := range []struct {
		ops   []op
		reply string
		want  map[string]int64
	}{
		{ops: []op{opAdd(1), opCall("b", opAdd(8), opAgain("a", opAdd(2))), opAdd(4)}, reply: "1 (8 (3)) 7", want: map[string]int64{"a": 7, "b": 8}},
		{ops: []op{opAdd(1), opCall("b", opAgain("a", opAdd(2), fail), opAdd(8)), opAdd(4)}, reply: "1 ((on_purpose) 8) 5", want: map[string]int64{"a": 5, "b": 8}},
		{ops: []op{opAdd(1), opCall("b", opAgain("a", opAdd(2), trap), opAdd(8)), opAdd(4)}, reply: "1 ((trap) 8) 5", want: map[string]int64{"a": 5, "b": 8}},
		// A forwarded call that fails takes back what it has called back, and nothing of before.
		{ops: []op{opAdd(1), opAgain("a", opAdd(16)), opCall("b", opAdd(8), opAgain("a", opAdd(2)), fail), look, opAdd(4)}, reply: "1 (17) (on_purpose) (17) 21", want: map[string]int64{"a": 21, "b": 0}},
		{ops: []op{opAdd(1), opAgain("a", opAdd(16), opCall("b", opAgain("a", opAdd(2))), fail), opAdd(4)}, reply: "1 (on_purpose) 5", want: map[string]int64{"a": 5}},
		// Twice, and deeper.
		{ops: []op{opAdd(1), opCall("b", opAgain("a", opAdd(2)), opAgain("a", opAdd(2))), opAdd(4)}, reply: "1 ((3) (5)) 9", want: map[string]int64{"a": 9}},
		{ops: []op{opAdd(1), opCall("b", opAdd(1), opAgain("a", opAdd(2), opAgain("b", opAdd(2), opAgain("a", opAdd(4)))), opAdd(4)), opAdd(8)},
			reply: "1 (1 (3 (3 (7))) 7) 15", want: map[string]int64{"a": 15, "b": 7}},
		// Actors that the chain has, and that have no open turn.
		{ops: []op{opCall("c", opAdd(1)), opCall("b", opCall("c", opAdd(2)))}, reply: "(1) ((3))", want: map[string]int64{"c": 3}},
		{ops: []op{opCall("c", opAdd(1)), opCall("b", opCall("c", opAdd(2)), fail)}, reply: "(1) (on_purpose)", want: map[string]int64{"c": 1}},
		// What the callback calls is in the chain as well.
		{ops: []op{opCall("b", opAgain("a", opCall("c", opAdd(1)), opCall("b1", opAdd(1)))), opCall("c", opAdd(1))}, reply: "(((1) (1))) (2)", want: map[string]int64{"c": 2, "b1": 1}},
		// By way of a chain of its own on the first host.
		{ops: []op{opAdd(1), opCall("b", opCall("c", opAdd(1), opAgain("a", opAdd(2)), opCall("a"))), opAdd(4)}, reply: "1 ((1 (3) (not_reentrant))) 7", want: map[string]int64{"a": 7, "c": 1}},
		{ops: []op{opAdd(1), opCall("b", opAdd(1), opCall("c", opAdd(1), opCall("b1", opAgain("b", opAdd(2)), opAgain("a", opAdd(2))))), opAdd(4)},
			reply: "1 (1 (1 ((3) (3)))) 7", want: map[string]int64{"a": 7, "b": 3, "c": 1}},
		{ops: []op{opAdd(1), opCall("b", look)}, reply: "1 ((1))", want: map[string]int64{"a": 1}},
		{ops: []op{opAdd(1), opCall("b", opCall("a", opAdd(1)), op{Do: "call", ID: "a", Look: true})}, reply: "1 ((not_reentrant) (not_reentrant))", want: map[string]int64{"a": 1}},
	} {
		for _, key := range []string{"", "k"} {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				began := time.Now()
				if reply, err := hs.invoke(t.Context(), "a", "Do", script(c.ops...), key); reply != c.reply || err != nil {
					t.Errorf("%+v: %q, %v, want %q", c.ops, reply, err, c.reply)
				}
				hs.want(t, c.want)
				if hs.settled(t); time.Since(began) > 0 {
					t.Errorf("%+v: something has waited", c.ops)
				}
			})
		}
	}
	t.Run("the outermost turn fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			if _, err := hs.invoke(t.Context(), "a", "Do", script(opCall("c", opAdd(1)), opCall("b", opAdd(8), opAgain("a", opAdd(2)), opCall("c", opAdd(1))), fail), "k"); err == nil {
				t.Error("no error")
			}
			hs.want(t, map[string]int64{"a": 0, "b": 8, "c": 0})
			hs.settled(t)
		})
	})
	t.Run("a read-only turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.warm(t, "a")
			see := op{Do: "call", ID: "b", Look: true, Ops: []op{}}
			if reply, err := hs.invoke(t.Context(), "a", "See", script(see), ""); reply != "(0)" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
		})
	})
}

// TestCauseOfACallback: its turn has the caller of the other host, the depth of all hosts, and its end is
// reported once.
func TestCauseOfACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(map[string]hosttest.Func{
				"Who": func(t *hosttest.Turn) error {
					return t.Reply(fmt.Sprintf("cause %d %s %s", t.Frame.Cause, t.Frame.CallerType, t.Frame.CallerID))
				},
				"Begin":  func(t *hosttest.Turn) error { return passOn(t, "b", "Middle", "") },
				"Middle": func(t *hosttest.Turn) error { return passOn(t, "a", "Who", "") },
				"Spiral": func(t *hosttest.Turn) error {
					to := map[string]string{"a": "b", "b": "a"}[t.Frame.ID]
					reply, err := t.Call("T", to, "Spiral", "")
					if refused := (*actor.GuestError)(nil); errors.As(err, &refused) {
						return t.Reply(refused.Code)
					}
					return errors.Join(err, t.Reply("."+reply))
				},
			}, "Who", "Spiral"))
		}
		if reply, err := hs.invoke(t.Context(), "a", "Begin", "", ""); reply != "cause 1 T b" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		var ends []string
		for _, e := range hs.ends {
			if e.Method == "Who" {
				ends = append(ends, fmt.Sprint(e.Lane, e.Err, e.Runs))
			}
		}
		if want := []string{"called <nil> 1", "called <nil> 0"}; !slices.Equal(ends, want) { // where it ran, and where it was called
			t.Errorf("the ends are %q, want %q", ends, want)
		}
		if reply, err := hs.invoke(t.Context(), "a", "Spiral", "", ""); reply != strings.Repeat(".", 32)+"too_deep" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.settled(t)
	})
}

// withMethods is the scripted actor with more methods, some of them reentrant.
func withMethods(methods map[string]hosttest.Func, reentrant ...string) hosttest.Actor {
	a := scriptedActor()
	for name, m := range methods {
		a.Methods[name] = m
	}
	a.Reentrant = append(slices.Clip(a.Reentrant), reentrant...)
	return a
}

// passOn replies with the reply to a call.
func passOn(t *hosttest.Turn, id, method, payload string) error {
	reply, err := t.Call("T", id, method, payload)
	return errors.Join(err, t.Reply(reply))
}

// TestRerunOfTheTurnInTheMiddle: a turn that runs again has called back once.
func TestRerunOfTheTurnInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		hs.staleOnce("b") // when d is written
		ops := []op{opAdd(1), opCall("b", opAdd(1), opAgain("a", opAdd(2)), opAgain("a", opAdd(2), op{Do: "fail"}), opCall("d", opAdd(1))), opAdd(4)}
		if reply, err := hs.invoke(t.Context(), "a", "Do", script(ops...), ""); reply != "1 (101 (3) (on_purpose) (1)) 7" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"a": 7, "b": 101, "d": 1})
		hs.settled(t)
	})
}

// addAndCall adds to an actor's number, and then calls others: "ID.Method".
func addAndCall(n int64, others ...string) hosttest.Func {
	return func(t *hosttest.Turn) error {
		if _, err := t.Add("n", n); err != nil {
			return err
		}
		for _, other := range others {
			id, method, _ := strings.Cut(other, ".")
			if _, err := t.Call("T", id, method, ""); err != nil {
				return err
			}
		}
		return t.Reply("called")
	}
}

// staleWhen has another writer set an actor to 100 when another one is first written.
func (hs *hosts) staleWhen(id, written string) {
	hs.staleOnce(id)
	hs.store.mu.Lock()
	defer hs.store.mu.Unlock()
	stale := hs.store.wrote
	hs.store.wrote = func(k actor.Key, before, after actor.Row) {
		if k.ID == written {
			stale(k, before, after)
		}
	}
}

// TestRerunOfATurnThatACallbackCalledBack: what a callback of a waiting chain has called in a chain that waits for
// the callback takes effect once, whichever of the chains runs again. A run that gets the recorded reply of a turn
// does not wait for the callbacks of that.
func TestRerunOfATurnThatACallbackCalledBack(t *testing.T) {
	for _, c := range []struct {
		methods        map[string]hosttest.Func
		begin          string // the actor
		stale, written string
		want           map[string]int64
		left           map[string]int64 // without a key
	}{
		{
			methods: map[string]hosttest.Func{"Begin": addAndCall(1, "b.Middle"), "Middle": addAndCall(1, "a.Back", "d.Inner"), "Back": addAndCall(2, "b.Inner"), "Inner": addAndCall(4)},
			begin:   "a", stale: "b", written: "d",
			want: map[string]int64{"a": 3, "b": 105, "d": 4}, left: map[string]int64{"a": 0, "b": 101, "d": 4},
		},
		{ // with the record of a turn between
			methods: map[string]hosttest.Func{
				"Begin": addAndCall(1, "b.Middle"), "Middle": addAndCall(1, "c.Between"), "Between": addAndCall(1, "a.Back"),
				"Back": addAndCall(2, "b.Inner"), "Inner": addAndCall(4),
			},
			begin: "a", stale: "b", written: "c",
			want: map[string]int64{"a": 3, "b": 105, "c": 1}, left: map[string]int64{"a": 0, "b": 101, "c": 1},
		},
		{ // back to the first chain by way of two that wait
			methods: map[string]hosttest.Func{
				"Begin": addAndCall(1, "c.Middle"), "Middle": addAndCall(1, "b.Back"), "Back": addAndCall(2, "a.Far"),
				"Far": addAndCall(1, "c.Again"), "Again": addAndCall(2, "b.Inner"), "Inner": addAndCall(4),
			},
			begin: "b", stale: "b", written: "c",
			want: map[string]int64{"b": 107, "c": 3, "a": 1}, left: map[string]int64{"b": 100, "c": 3, "a": 1},
		},
		{
			methods: map[string]hosttest.Func{
				"Begin": addAndCall(1, "c.Middle"), "Middle": addAndCall(1, "b.Back"), "Back": addAndCall(2, "a.Far"),
				"Far": addAndCall(1, "c.Again"), "Again": addAndCall(2, "b.Inner"), "Inner": addAndCall(4),
			},
			begin: "b", stale: "c", written: "a",
			want: map[string]int64{"b": 7, "c": 103, "a": 1}, left: map[string]int64{"b": 0, "c": 101, "a": 1},
		},
	} {
		for _, key := range []string{"k", ""} {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				for _, s := range hs.stages {
					s.world.Deploy("app", "T", withMethods(c.methods, "Back", "Again", "Inner"))
				}
				hs.staleWhen(c.stale, c.written)
				reply, err := hs.invoke(t.Context(), c.begin, "Begin", "", key)
				want := c.want
				if key == "" {
					want = c.left
					wantCondition(t, err, actor.ErrLeft)
				} else if reply != "called" || err != nil {
					t.Errorf("%s is stale: %q, %v", c.stale, reply, err)
				}
				if hs.want(t, want); hs.store.wrote != nil {
					t.Errorf("%s was not stale", c.stale)
				}
				hs.settled(t)
			})
		}
	}
}

// TestRerunOfTheWaitingChain: the next run gets the recorded reply of the turn in the middle, and has what
// that has called back as well; or it fails, if that comes to something else now.
func TestRerunOfTheWaitingChain(t *testing.T) {
	bump := map[string]hosttest.Func{"Bump": func(t *hosttest.Turn) error {
		_, err := t.Add("n", 2)
		return errors.Join(err, t.Reply("bumped"))
	}}
	for _, middle := range []string{"b . Bump2", "b . Forward b1 . Bump2", "b . Forward c . Forward b1 . Bump2"} {
		for _, again := range []string{"by the host", "by the client"} {
			synctest.Test(t, func(t *testing.T) {
				hs := newHosts(t, host.Limits{})
				for n, s := range hs.stages {
					a := withMethods(bump, "Bump")
					a.Methods["Forward"] = hs.methods["Forward"]
					a.Methods["Bump2"] = func(t *hosttest.Turn) error {
						if _, err := t.Add("n", 1); err != nil {
							return err
						}
						return passOn(t, "a", "Bump", "")
					}
					hs.stages[n].world.Deploy("app", "T", a)
					_ = s
				}
				last := strings.Fields(middle)[len(strings.Fields(middle))-3]
				base := int64(0)
				if again == "by the host" {
					hs.staleOnce("a")
					base = 100
				} else {
					commits := strings.Count(middle, "Forward")
					hs.store.mu.Lock()
					hs.store.wrote = func(actor.Key, actor.Row, actor.Row) {
						if commits--; commits < 0 {
							hs.store.wrote = nil
							hs.store.faults["commit"] = []string{"unavailable"}
						}
					}
					hs.store.mu.Unlock()
					_, err := hs.forward(t, "a", middle+" ", "k")
					wantCondition(t, err, actor.ErrUnavailable)
					hs.want(t, map[string]int64{"a": 0})
				}
				reply, err := hs.forward(t, "a", middle+" ", "k")
				if !strings.HasPrefix(reply, "bumped") || err != nil {
					t.Errorf("%s, %s: %q, %v", middle, again, reply, err)
				}
				hs.want(t, map[string]int64{"a": base + 3, last: 1})
				hs.settled(t)
			})
		}
	}
	t.Run("in another way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.staleOnce("a")
			_, err := hs.invoke(t.Context(), "a", "Do", script(opCall("b", opAdd(1), opAgain("a", opAdd(2)))), "k")
			wantCondition(t, err, actor.ErrLeft)
			hs.want(t, map[string]int64{"a": 100, "b": 1})
			hs.settled(t)
		})
	})
}

// TestLateCallback: a callback whose wait is over has no effect, and ends its caller.
func TestLateCallback(t *testing.T) {
	for _, end := range []string{"committed", "failed", "moved"} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.outcomes = []string{"", "late"}
			payload := "b . Forward a t DoAgain " + addFive
			if end == "failed" {
				payload = strings.Replace(payload, ".", "f", 1)
			}
			reply, err := hs.forward(t, "a", payload, "")
			if committed := err == nil; committed != (end != "failed") || committed && !strings.HasPrefix(reply, "timeout: ") {
				t.Errorf("%s: %q, %v", end, reply, err)
			}
			before := hs.stages[0].number(t, "a")
			if end == "moved" { // and back
				hs.move(t, "a", 1)
				hs.move(t, "a", 0)
			}
			hs.late[0]()
			synctest.Wait()
			hs.want(t, map[string]int64{"a": before})
			if last := hs.ends[len(hs.ends)-1]; !errors.Is(last.Err, actor.ErrCanceled) {
				t.Errorf("%s: the late call ended with %v", end, last.Err)
			}
			hs.settled(t)
		})
	}
	t.Run("its chain goes on", func(t *testing.T) { // when the caller was given up
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.outcomes = []string{"late"}
			methods := map[string]hosttest.Func{
				"Middle": func(t *hosttest.Turn) error { return passOn(t, "a", "DoAgain", addFive) },
				"Begin": func(t *hosttest.Turn) error {
					m := message("b", "Middle", 50)
					r, _, err := t.Calls.Call(&m)
					if err != nil {
						t.End(err)
					}
					go hs.late[0]()
					time.Sleep(time.Second) // of a bubble's clock: the callback comes meanwhile
					return t.Reply(r.Code)
				},
			}
			for _, s := range hs.stages {
				s.world.Deploy("app", "T", withMethods(methods))
			}
			if reply, err := hs.invoke(t.Context(), "a", "Begin", "", ""); reply != "timeout" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			hs.want(t, map[string]int64{"a": 0})
			if i := slices.IndexFunc(hs.ends, func(e host.TurnEnd) bool { return e.Method == "DoAgain" }); i < 0 || !errors.Is(hs.ends[i].Err, actor.ErrCanceled) {
				t.Errorf("the ends are %+v", hs.ends)
			}
			hs.settled(t)
		})
	})
}

// TestCopyOfACallback: a copy gets the outcome of the first one.
func TestCopyOfACallback(t *testing.T) {
	for _, ops := range [][]op{{opAdd(2)}, {opAdd(2), {Do: "fail"}}} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.outcomes = []string{"", "repeated"}
			want, n := "(3)", int64(3)
			if len(ops) > 1 {
				want, n = "(on_purpose)", 1
			}
			reply, err := hs.invoke(t.Context(), "a", "Do", script(opAdd(1), opCall("b", opAgain("a", ops...))), "")
			if reply != "1 ("+want+")" || err != nil {
				t.Errorf("%q, %v", reply, err)
			}
			hs.want(t, map[string]int64{"a": n})
			hs.settled(t)
		})
	}
}

// TestCopyOfABrokenCallback: a callback whose connection breaks while it runs is taken back, and its copy
// runs. What the first one has called at another host is called once.
func TestCopyOfABrokenCallback(t *testing.T) {
	for _, key := range []string{"k", ""} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{})
			hs.outcomes = []string{"", "broken"}
			backs := 0
			methods := map[string]hosttest.Func{
				"Begin": addAndCall(1, "b.Middle"), "Middle": addAndCall(1, "a.Back"), "Inner": addAndCall(4),
				"Back": func(t *hosttest.Turn) error {
					if err := addAndCall(2, "b-other.Inner")(t); err != nil {
						return err
					}
					if backs++; backs == 1 {
						hs.broken()
					}
					return addAndCall(2, "b-third.Inner")(t)
				},
			}
			for _, s := range hs.stages {
				s.world.Deploy("app", "T", withMethods(methods, "Back"))
			}
			if reply, err := hs.invoke(t.Context(), "a", "Begin", "", key); reply != "called" || err != nil || backs != 2 {
				t.Errorf("%q: %q, %v, and %d runs of the callback", key, reply, err, backs)
			}
			hs.want(t, map[string]int64{"a": 5, "b": 1, "b-other": 4, "b-third": 4})
			hs.settled(t)
		})
	}
}

// TestRepliesOfCallbacks: a turn that calls back without end does not have the host keep more replies than a commit may
// have: the waiting chain ends.
func TestRepliesOfCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		ran := 0
		methods := map[string]hosttest.Func{
			"Begin": addAndCall(1, "b.Middle"),
			"Large": func(t *hosttest.Turn) error {
				ran++
				return t.Reply(strings.Repeat("x", 1<<20))
			},
			"Middle": func(t *hosttest.Turn) error {
				for range 100 {
					if _, err := t.Call("T", "a", "Large", ""); err != nil {
						return err
					}
				}
				return t.Reply("called")
			},
		}
		for _, s := range hs.stages {
			s.world.Deploy("app", "T", withMethods(methods, "Large"))
		}
		_, err := hs.invoke(t.Context(), "a", "Begin", "", "")
		wantCondition(t, err, actor.ErrChainTooLarge)
		if ran > actor.MaxCommitBytes>>20 {
			t.Errorf("%d turns have run", ran)
		}
		hs.want(t, map[string]int64{"a": 0, "b": 0})
		hs.settled(t)
	})
}

// TestUnknownOutcomeOfACallThatCalledBack: whether what has called back is committed is not known. Nothing
// of the waiting chain remains; a repetition has all of it.
func TestUnknownOutcomeOfACallThatCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		ops := script(opAdd(1), opCall("b", opAdd(8), opAgain("a", opAdd(2))), opAdd(4))
		hs.outcomes = []string{"lost"}
		_, err := hs.invoke(t.Context(), "a", "Do", ops, "k")
		wantCondition(t, err, actor.ErrUnavailable)
		hs.want(t, map[string]int64{"a": 0, "b": 8})
		if reply, err := hs.invoke(t.Context(), "a", "Do", ops, "k"); reply != "1 (8 (3)) 7" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.want(t, map[string]int64{"a": 7, "b": 8})
		hs.outcomes = []string{"lost"}
		_, err = hs.invoke(t.Context(), "a", "Do", ops, "")
		wantCondition(t, err, actor.ErrLeft)
		hs.want(t, map[string]int64{"a": 7, "b": 16})
		hs.settled(t)
	})
}

// TestCallbackOutOfTime: a callback ends with the time of the turn that waits for its caller, and with
// its own caller's; neither leaves a trace.
func TestCallbackOutOfTime(t *testing.T) {
	for _, limit := range []uint32{0, 50} {
		synctest.Test(t, func(t *testing.T) {
			hs := newHosts(t, host.Limits{TurnDeadline: time.Second})
			g := newGate()
			methods := map[string]hosttest.Func{
				"Block": func(t *hosttest.Turn) error {
					if _, err := t.Add("n", 2); err != nil {
						return err
					}
					return g.wait(t)
				},
				"Middle": func(t *hosttest.Turn) error {
					m := message("a", "Block", limit)
					r, _, err := t.Calls.Call(&m)
					if err != nil {
						t.End(err)
					}
					return t.Reply(r.Code)
				},
			}
			for _, s := range hs.stages {
				a := withMethods(methods, "Block")
				a.Methods["Forward"] = hs.methods["Forward"]
				s.world.Deploy("app", "T", a)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			reply, err := hs.invoke(ctx, "a", "Forward", "b . Middle ", "")
			if limit == 0 {
				wantCondition(t, err, actor.ErrDeadline)
				hs.want(t, map[string]int64{"a": 0})
			} else if reply != "timeout flags 1" && reply != "deadline_exceeded flags 1" || err != nil { // which of the two timers is first
				t.Errorf("%q, %v", reply, err)
			} else {
				hs.want(t, map[string]int64{"a": 1})
			}
			time.Sleep(2 * time.Second) // of a bubble's clock: nothing is left to wait for
			hs.settled(t)
		})
	}
}

// TestCallbackIntoADroppedChain: if the host has lost the waiting chain's actors, the callback ends its
// caller, and the chain runs again.
func TestCallbackIntoADroppedChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		runs := 0
		hs.stages[1].world.Deploy("app", "T", withMethods(map[string]hosttest.Func{"Middle": func(t *hosttest.Turn) error {
			if runs++; runs == 1 {
				hs.stages[0].DropAll()
			}
			if _, err := t.Add("n", 1); err != nil {
				return err
			}
			return passOn(t, "a", "DoAgain", script(opAdd(2)))
		}}))
		hs.stages[0].world.Deploy("app", "T", withMethods(map[string]hosttest.Func{"Middle": scripted, "Forward": hs.methods["Forward"]}))
		_, err := hs.forward(t, "a", "b . Middle ", "k")
		wantCondition(t, err, actor.ErrNotOwner) // the router asks again
		hs.want(t, map[string]int64{"a": 0, "b": 0})
		reply, err := hs.forward(t, "a", "b . Middle ", "k")
		if reply != "3 flags 1" || err != nil || runs != 2 {
			t.Errorf("%q, %v after %d runs", reply, err, runs)
		}
		hs.want(t, map[string]int64{"a": 3, "b": 1})
		hs.settled(t)
	})
}

// TestCallbackWaitsForCommits: the reply of a callback leaves when what its turn has seen is durable.
func TestCallbackWaitsForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(t, host.Limits{})
		seen := make(chan string, 1)
		hs.stages[1].world.Deploy("app", "T", withMethods(map[string]hosttest.Func{"Middle": func(t *hosttest.Turn) error {
			hold := make(chan struct{})
			hs.store.mu.Lock()
			hs.store.hold = hold
			hs.store.mu.Unlock()
			go func() { _, _ = hs.invoke(context.WithoutCancel(t.Context), "c", "Do", script(opAdd(1)), "") }()
			synctest.Wait()
			go func() {
				reply, _ := t.Call("T", "a", "DoAgain", script(op{Do: "call", ID: "c", Look: true}))
				seen <- reply
			}()
			synctest.Wait()
			select {
			case reply := <-seen:
				return hosttest.Fail("seen " + reply)
			default:
			}
			hs.store.mu.Lock()
			hs.store.hold = nil
			hs.store.mu.Unlock()
			close(hold)
			return t.Reply(<-seen)
		}}))
		hs.stages[0].world.Deploy("app", "T", withMethods(map[string]hosttest.Func{"Middle": scripted, "Forward": hs.methods["Forward"]}))
		if reply, err := hs.forward(t, "a", "b . Middle ", ""); reply != "(1) flags 1" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		hs.settled(t)
	})
}

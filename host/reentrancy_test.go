package host_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestReentrancy: a reentrant method runs on what the open turn of its actor has done by then,
// in another instance, and the open turn goes on from what it has left; what a failed call
// has done to the open turn's state is taken back, and nothing else of that.
func TestReentrancy(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, host.Config{})
			a := scriptedActor()
			a.Placement = placement
			s.world.Deploy("app", "T", a)
			add := func(n int64) op { return op{Do: "add", N: n} }
			call := func(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops} }
			again := func(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops, Again: true} }
			look, fail, trap := op{Do: "call", ID: "a", Look: true, Again: true}, op{Do: "fail"}, op{Do: "trap"}
			var before int64
			for _, c := range []struct {
				ops   []op
				reply string // of a whose number was 0
				a, b  int64  // added
			}{
				{ops: []op{add(1), again("a", add(2)), add(4)}, reply: "1 (3) 7", a: 7},
				{ops: []op{add(1), again("a", add(2), fail), add(4)}, reply: "1 (on_purpose) 5", a: 5},
				{ops: []op{add(1), again("a", add(2), trap), add(4)}, reply: "1 (trap) 5", a: 5},
				{ops: []op{add(1), call("b", add(1), again("a", add(2))), add(4)}, reply: "1 (1 (3)) 7", a: 7, b: 1},
				{ops: []op{add(1), again("a", add(2)), call("b", add(1), again("a", add(8)), fail), look, add(4)}, reply: "1 (3) (on_purpose) (3) 7", a: 7},
				{ops: []op{again("a", add(1), again("a", add(2), again("a", add(4)), add(8)), add(16))}, reply: "(1 (3 (7) 15) 31)", a: 31},
				{ops: []op{again("a", add(1), again("a", add(2), again("a", add(4)), fail), add(16)), add(32)}, reply: "(1 (on_purpose) 17) 49", a: 49},
				{ops: []op{add(1), call("b", again("a", add(2), call("c", again("b", add(1)), fail), again("b", add(2))), add(4)), look}, reply: "1 ((3 (on_purpose) (2)) 6) (3)", a: 3, b: 6},
				{ops: []op{add(1), call("a")}, reply: "1 (not_reentrant)", a: 1},
			} {
				for id, n := range map[string]int64{"a": s.number(t, "a"), "b": s.number(t, "b")} {
					if _, err := s.do(t, id, add(-n)); err != nil {
						t.Fatal(err)
					}
				}
				reply, err := s.do(t, "a", c.ops...)
				if err != nil || reply != c.reply {
					t.Errorf("%+v: %q, %v, want %q", c.ops, reply, err, c.reply)
				}
				s.wantNumbers(t, map[string]int64{"a": c.a, "b": c.b})
				before = c.a
			}
			if _, err := s.do(t, "a", again("a", add(1)), call("b", again("a", add(1))), fail); err == nil {
				t.Error("no error")
			}
			s.wantNumbers(t, map[string]int64{"a": before})
			if n := s.world.Open(); placement == abi.PlacementSticky && n != 3 {
				t.Errorf("%d instances are open of three actors that have one each", n)
			}
		})
	}
}

// TestOpenTurnLearns: the revision of an open turn's state moves when a call has changed it, and
// stays when it has not. No two turns that it called have begun with one revision: what a guest has
// cached in one that failed is not current in the next.
func TestOpenTurnLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		a := scriptedActor()
		seen := map[uint64]bool{}
		a.Methods["DoAgain"] = func(c *hosttest.Turn) error {
			if seen[c.Frame.Revision] {
				t.Errorf("the revision %d comes back", c.Frame.Revision)
			}
			seen[c.Frame.Revision] = true
			return scripted(c)
		}
		moved := func(c *hosttest.Turn, ops ...op) bool {
			before := c.Calls.StateRevision()
			if _, err := c.Call("T", "a", "DoAgain", script(ops...)); err != nil && len(ops) == 0 {
				t.Error(err)
			}
			return c.Calls.StateRevision() != before
		}
		a.Methods["Moves"] = func(t *hosttest.Turn) error {
			return t.Reply(fmt.Sprint(moved(t), moved(t, op{Do: "add", N: 1}), moved(t, op{Do: "add", N: 1}, op{Do: "fail"}), moved(t)))
		}
		s.world.Deploy("app", "T", a)
		if reply, err := s.call(t.Context(), "a", "Moves"); err != nil || reply != "false true false false" {
			t.Errorf("%q, %v", reply, err)
		}
	})
}

// TestSideEffectsOfReentrantTurns: they are added to those of the open turn, and taken back with a
// failed call; the reminder that the outermost turn is the firing of is taken.
func TestSideEffectsOfReentrantTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", scriptedActor())
		again := func(ops ...op) op { return op{Do: "call", ID: "a", Ops: ops, Again: true} }
		do := func(what, name string) op { return op{Do: what, ID: name, N: 3600} }
		names, fail := op{Do: "names"}, op{Do: "fail"}
		ops := []op{
			do("remind", "x"), again(names, do("cancel", "x"), do("remind", "y")), names,
			{Do: "call", ID: "b", Ops: []op{again(do("remind", "z"), do("time", "t")), fail}}, names,
			do("time", "t"), again(do("time", "t"), do("time", "u")), again(do("untime", "t"), fail), do("untime", "u"),
		}
		f := rems.place(t, "a", "Do")
		r, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Do", Firing: f, Payload: actor.Payload{Data: []byte(script(ops...))}})
		if want := "set ([x] canceled set) [y] (on_purpose) [y] false (true false) (on_purpose) true"; err != nil || string(r.Payload.Data) != want {
			t.Errorf("%q, %v, want %q", r.Payload.Data, err, want)
		}
		if got := remindedNames(t, rems, "a"); !slices.Equal(got, []string{"y"}) {
			t.Errorf("a has %q", got)
		}
		if got := rems.unused.Load(); got != 1 {
			t.Errorf("%d tokens were given back", got)
		}
		s.wantTimers(t, 1)
	})
}

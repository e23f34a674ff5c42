package host_test

import (
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

// remindedNames are the reminders that an actor has in the store.
func remindedNames(t *testing.T, rems *fakeReminders, id string) []string {
	t.Helper()
	names, err := rems.ReminderNames(t.Context(), key(id), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRemindersOfCalledTurns: what called turns do to reminders is seen by later turns of the
// chain, is taken back with a failed call, and is committed with the chain; the tokens of what is
// not committed are given back.
func TestRemindersOfCalledTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", scriptedActor())
		remind := func(name string) op { return op{Do: "remind", ID: name} }
		cancel := func(name string) op { return op{Do: "cancel", ID: name} }
		call := func(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops} }
		names, fail := op{Do: "names"}, op{Do: "fail"}
		for _, c := range []struct {
			ops    []op
			reply  string
			want   []string // of b, in the store
			unused int64
		}{
			{ops: []op{call("b", remind("x"), remind("y")), call("b", names)}, reply: "(set set) ([x y])", want: []string{"x", "y"}},
			{ops: []op{call("b", cancel("x")), call("b", names), call("b", remind("z"), names)}, reply: "(canceled) ([y]) (set [y z])", want: []string{"y", "z"}},
			{ // set in one turn of the chain, and cancelled in another
				ops:   []op{call("b", remind("w")), call("c", call("b", cancel("w"), cancel("y"))), call("b", names)},
				reply: "(set) ((canceled canceled)) ([z])", want: []string{"z"},
			},
			{ // and cancelled in one, and set in another
				ops:   []op{call("b", cancel("z")), call("b", remind("z"), names)},
				reply: "(canceled) (set [z])", want: []string{"z"},
			},
			{
				ops:   []op{call("b", remind("k")), call("c", call("b", cancel("k"), cancel("z"), remind("l"), remind("m")), fail), call("b", names)},
				reply: "(set) (on_purpose) ([k z])", want: []string{"k", "z"}, unused: 2,
			},
			{ops: []op{call("b", remind("n"), fail), call("b", names)}, reply: "(on_purpose) ([k z])", want: []string{"k", "z"}, unused: 1},
			{ops: []op{call("b", remind("n")), remind("own"), fail}, want: []string{"k", "z"}, unused: 2},
			{ops: []op{call("b", cancel("k"), cancel("z")), remind("own")}, reply: "(canceled canceled) set"},
		} {
			before := rems.unused.Load()
			reply, err := s.do(t, "a", c.ops...)
			if reply != c.reply || (err == nil) != (c.reply != "") {
				t.Errorf("%+v: %q, %v, want %q", c.ops, reply, err, c.reply)
			}
			if got := remindedNames(t, rems, "b"); !slices.Equal(got, c.want) {
				t.Errorf("%+v: b has %q, want %q", c.ops, got, c.want)
			}
			if got := rems.unused.Load() - before; got != c.unused {
				t.Errorf("%+v: %d tokens were given back, want %d", c.ops, got, c.unused)
			}
		}
		if got := remindedNames(t, rems, "a"); !slices.Equal(got, []string{"own"}) {
			t.Errorf("a has %q", got)
		}
	})
}

// TestTokensOfRefusedChain: a chain whose commit is refused gives back its tokens, and sets the
// reminders once when it runs again.
func TestTokensOfRefusedChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", scriptedActor())
		chain := []op{{Do: "add", N: 1}, {Do: "must", ID: "b", Ops: []op{{Do: "remind", ID: "x"}}}}
		if _, err := s.do(t, "a", chain...); err != nil {
			t.Fatal(err)
		}
		s.store.write(key("b"), func(*actor.Row) {})
		if _, err := s.do(t, "a", chain...); err != nil {
			t.Fatal(err)
		}
		if got := rems.unused.Load(); got != 1 {
			t.Errorf("%d tokens were given back", got)
		}
		for range 2 {
			if e := <-rems.committed; len(e.Set) != 1 || e.Set[0].Key != key("b") {
				t.Errorf("committed %+v", e)
			}
		}
	})
}

// TestTokensOfTurnsThatAreNotCommitted: a turn that has set reminders gives back its tokens, and those of
// the turns that it called, if nothing of it is committed though it has ended well.
func TestTokensOfTurnsThatAreNotCommitted(t *testing.T) {
	setTwo := func(call bool, wait hosttest.Func) hosttest.Func {
		return func(t *hosttest.Turn) error {
			var err error
			if call {
				_, err = t.Call("T", "b", "Do", script(op{Do: "remind", ID: "x"}))
			} else {
				err = set("x", "Do")(t)
			}
			return errors.Join(err, set("y", "Do")(t), wait(t))
		}
	}
	for name, call := range map[string]bool{"one actor": false, "a chain": true} {
		for _, when := range []string{"it runs", "it waits for another commit"} {
			t.Run(name+" is dropped while "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, rems := remind(t, host.Config{})
					g := newGate()
					a := scriptedActor()
					a.Methods["SetTwo"] = setTwo(call, g.wait)
					s.world.Deploy("app", "T", a)
					if _, err := s.do(t, "a", op{Do: "add", N: 1}); err != nil {
						t.Fatal(err)
					}
					s.store.write(key("a"), func(*actor.Row) {})
					commit := make(chan struct{})
					s.store.setHold(commit)
					before := make(chan error, 1)
					go func() {
						_, err := s.do(t, "a", op{Do: "add", N: 1})
						before <- err
					}()
					synctest.Wait()
					sets := s.start(t.Context(), "a", "SetTwo")
					<-g.entered
					s.store.setHold(nil)
					if when == "it runs" {
						close(commit)
						synctest.Wait()
						close(g.leave)
					} else {
						close(g.leave)
						synctest.Wait()
						close(commit)
					}
					if err := <-before; err != nil {
						t.Error(err)
					}
					if got := <-sets; got.err != nil {
						t.Error(got.err)
					}
					if got := rems.unused.Load(); got != 2 {
						t.Errorf("%d tokens were given back, want 2", got)
					}
				})
			})
		}
	}
	t.Run("the chain is too large", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, rems := remind(t, host.Config{})
			a := scriptedActor()
			a.Methods["Grow"] = func(t *hosttest.Turn) error { return t.Set("large", strings.Repeat("x", 900<<10)) }
			a.Methods["SetTwo"] = setTwo(true, func(t *hosttest.Turn) error {
				for i := range 10 {
					if _, err := t.Call("T", fmt.Sprint("big", i), "Grow", ""); err != nil {
						return err
					}
				}
				return nil
			})
			s.world.Deploy("app", "T", a)
			_, err := s.call(t.Context(), "a", "SetTwo")
			wantCondition(t, err, actor.ErrChainTooLarge)
			if got := rems.unused.Load(); got != 2 {
				t.Errorf("%d tokens were given back, want 2", got)
			}
		})
	})
}

// TestFiringIsAChain: the firing of a reminder calls others, and its step is committed with what
// they do, or not at all.
func TestFiringIsAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", scriptedActor())
		fire := func(ops ...op) (*actor.Firing, error) {
			f := rems.place(t, "a", "Do")
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: f.Step.Key, Method: "Do", Firing: f, Payload: actor.Payload{Data: []byte(script(ops...))}})
			return f, err
		}
		ops := []op{{Do: "add", N: 1}, {Do: "must", ID: "b", Ops: []op{{Do: "add", N: 1}, {Do: "remind", ID: "x"}}}}
		f, err := fire(ops...)
		if err != nil {
			t.Fatal(err)
		}
		if e := <-rems.committed; len(e.Steps) != 1 || len(e.Set) != 1 {
			t.Errorf("committed %+v", e)
		}
		s.wantNumbers(t, map[string]int64{"a": 1, "b": 1})
		wantCondition(t, s.fire(t.Context(), f), actor.ErrFiringTaken)
		if _, err := fire(append(ops, op{Do: "fail"})...); err == nil {
			t.Error("no error")
		}
		s.wantNumbers(t, map[string]int64{"a": 1, "b": 1})
		if got := remindedNames(t, rems, "a"); !slices.Equal(got, []string{"n"}) {
			t.Errorf("the reminder of a failed firing: %q", got)
		}
	})
}

// TestTimersOfCalledTurns: what called turns do to timers is seen by later turns of the chain, is
// taken back with a failed call, and takes effect when the chain has ended well.
func TestTimersOfCalledTurns(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeStore()
			fake.shared = shared
			s := newChainStage(t, host.Config{Committer: fake})
			s.store = fake
			set := func(name string) op { return op{Do: "time", ID: name, N: 60, Ops: []op{{Do: "add", N: 1}}} }
			end := func(name string) op { return op{Do: "untime", ID: name} }
			call := func(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops} }
			add, fail := op{Do: "add"}, op{Do: "fail"}
			for _, c := range []struct {
				ops   []op
				reply string
				want  []string // of b
			}{
				{ops: []op{call("b", set("x")), call("b", set("x"), set("y"))}, reply: "(false) (true false)", want: []string{"x", "y"}},
				{ops: []op{call("b", end("x")), call("b", end("x"), add)}, reply: "(true) (false 0)", want: []string{"y"}},
				{ops: []op{call("b", set("z")), call("c", call("b", end("z"))), call("b", end("z"))}, reply: "(false) ((true)) (false)", want: []string{"y"}},
				{ops: []op{call("b", set("z")), call("c", call("b", end("z"), end("y")), fail), call("b", set("y"))}, reply: "(false) (on_purpose) (true)", want: []string{"y", "z"}},
				{ops: []op{call("b", end("y"), end("z"), fail), call("b", set("z"))}, reply: "(on_purpose) (true)", want: []string{"y", "z"}},
				{ops: []op{call("b", end("y"), add), fail}, want: []string{"y", "z"}},
				{ops: []op{add, call("b", end("y")), call("c", set("c"))}, reply: "0 (true) (false)", want: []string{"z"}},
			} {
				reply, err := s.do(t, "a", c.ops...)
				if reply != c.reply || (err == nil) != (c.reply != "") {
					t.Errorf("%+v: %q, %v, want %q", c.ops, reply, err, c.reply)
				}
				var got []string
				for _, name := range []string{"x", "y", "z"} {
					if _, err := s.GetTimer(t.Context(), key("b"), name); err == nil {
						got = append(got, name)
					} else if !errors.Is(err, actor.ErrTimerNotFound) {
						t.Error(err)
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%+v: b has %q, want %q", c.ops, got, c.want)
				}
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			s.wantNumbers(t, map[string]int64{"b": 1, "c": 1})
			if s.Timers() != 0 {
				t.Errorf("%d timers are left", s.Timers())
			}
		})
	}
}

// TestTimersOfRefusedChain: timers of called turns wait for the commit of their chain, and are set
// by no attempt that was not applied.
func TestTimersOfRefusedChain(t *testing.T) {
	for fault, want := range map[string]int{"": 1, "unavailable": 0, "lost": 1, "applied": 1, "overtaken": 0, "stale": 1, "behind another": 1} {
		t.Run(fmt.Sprint("fault ", fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newChainStage(t, host.Config{})
				if _, err := s.do(t, "b", op{Do: "add"}); err != nil {
					t.Fatal(err)
				}
				switch fault {
				case "":
				case "stale", "behind another":
					s.store.write(key("b"), func(*actor.Row) {})
				default:
					s.store.plan("commit", fault)
				}
				slow := make(chan struct{})
				s.store.setHold(slow)
				before := make(chan error, 1)
				if fault == "behind another" { // whose commit is refused
					go func() {
						_, err := s.do(t, "b", op{Do: "add"}, op{Do: "add", N: 1})
						before <- err
					}()
					synctest.Wait()
				} else {
					before <- nil
				}
				done := make(chan error, 1)
				go func() {
					_, err := s.do(t, "a", op{Do: "add", N: 1}, op{Do: "must", ID: "b", Ops: []op{{Do: "add", N: 1}, {Do: "time", ID: "x", N: 3600}}})
					done <- err
				}()
				synctest.Wait()
				if n := s.Timers(); n != 0 {
					t.Errorf("%d timers before the commit has landed", n)
				}
				s.store.setHold(nil)
				close(slow)
				if err := <-done; (err == nil) != (want == 1) {
					t.Error(err)
				}
				if err := <-before; err != nil {
					t.Error(err)
				}
				s.wantTimers(t, want)
			})
		})
	}
}

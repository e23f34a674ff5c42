package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestLivesOfCalledTurns: a called turn changes the life of its actor for what follows in the
// chain, for good with the chain's commit, and not at all if the call or the chain fails.
func TestLivesOfCalledTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		actors := scriptedActor()
		s.world.Deploy("app", "T", actors)
		s.world.Deploy("app", "Child", scriptedActor())
		become := func(set string) op { return op{Do: "become", ID: set} }
		call := func(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops} }
		again := func(id string, ops ...op) op { return op{Do: "call", ID: id, Ops: ops, Again: true} }
		add, pass, fail, spawn := op{Do: "add", N: 1}, op{Do: "pass"}, op{Do: "fail"}, op{Do: "spawn", Type: "Child"}
		for _, c := range []struct {
			ops   []op
			reply string
			set   string // of b
			lives uint64 // of b
		}{
			{ops: []op{call("b", add, become("open")), again("b", add)}, reply: "(1 open) (2)", set: "open"},
			{ops: []op{call("b", become("closed")), again("b", add), call("b", become("open")), again("b", add)}, reply: "(closed) (not_accepted) (open) (3)", set: "open"},
			{ops: []op{call("b", become("closed"), fail), again("b", add)}, reply: "(on_purpose) (4)", set: "open"},
			{ops: []op{call("c", call("b", become("closed")), fail), again("b", add)}, reply: "(on_purpose) (5)", set: "open"},
			{ops: []op{call("b", become("closed")), fail}, set: "open"},
			{ops: []op{call("b", become("ajar"))}, reply: "(become_-2)", set: "open"},
			// The outer turn of b sees what the inner one has chosen.
			{ops: []op{call("b", call("c", again("b", become("closed"))), call("c", again("b")))}, reply: "(((closed)) ((not_accepted)))", set: "closed"},
			{ops: []op{call("b", become("")), call("b", op{Do: "remind", ID: "r"})}, reply: "() (set)"},
			{ops: []op{call("b", pass, add), call("b", add)}, reply: "(add_-12) (6)"}, // the state cannot be written any more
			{ops: []op{call("b", add, pass), fail}, reply: ""},
			{ops: []op{call("c", call("b", pass), fail), call("b", add)}, reply: "(on_purpose) (7)"},
			{ops: []op{call("b", call("c", again("b", pass)))}, reply: "(((pass_-2)))"},
			{ops: []op{call("b", add, op{Do: "remind", ID: "s"}, pass), call("b", add)}, reply: "(8 set passed) (passed_away)", lives: 1},
			{ops: []op{call("b", add, become("open"))}, reply: "(1 open)", set: "open", lives: 1},
			{ops: []op{call("b", spawn, pass), call("c", spawn)}, reply: "(spawned passed) (spawned)", lives: 2},
		} {
			reply, err := s.do(t, "a", c.ops...)
			if (err == nil) != (c.reply != "") || reply != c.reply {
				t.Errorf("%+v: %q, %v, want %q", c.ops, reply, err, c.reply)
			}
			rows, err := s.store.LoadActors(t.Context(), []actor.Key{key("b")}, actor.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if rows[0].MethodSet != c.set || rows[0].Life != c.lives {
				t.Errorf("%+v: b has the set %q and life %d, want %q and %d", c.ops, rows[0].MethodSet, rows[0].Life, c.set, c.lives)
			}
		}
		if got := remindedNames(t, rems, "b"); len(got) != 0 {
			t.Errorf("b has the reminders %q", got)
		}
	})
}

// TestCallOfSpawned: an actor takes no call in the transaction that spawns it, and does once that
// is committed. Its hook comes first.
func TestCallOfSpawned(t *testing.T) {
	s := newStage(t, host.Config{})
	var children []string
	s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Make": func(t *hosttest.Turn) error {
		id, err := t.Spawn("Child")
		if err != nil {
			return err
		}
		children = append(children, id)
		_, err = t.Call("Child", id, "Add", "")
		var refused *actor.GuestError
		if !errors.As(err, &refused) || refused.Code != abi.CallNotAtomic || !strings.Contains(refused.Message, "send it a message") {
			return fmt.Errorf("a call of it: %v", err)
		}
		return t.SetNumber("made", 1)
	}}})
	s.world.Deploy("app", "Child", hosttest.Actor{
		Life: hosttest.Life{Spawn: abi.SpawnOnly, Hooks: abi.Hooks{Created: "OnCreated"}},
		Methods: map[string]hosttest.Func{
			"OnCreated": func(t *hosttest.Turn) error { return t.SetNumber("n", 10) },
			"Add": func(t *hosttest.Turn) error {
				n, err := t.Add("n", 1)
				return errors.Join(err, t.ReplyNumber(n))
			},
		},
	})
	for i := range 2 {
		if _, err := s.call(t.Context(), "a", "Make"); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			reply, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "Child", ID: children[i]}, Method: "Add"})
			if want := fmt.Sprint(11 + n); err != nil || string(reply.Payload.Data) != want {
				t.Errorf("it counts to %s: %v; want %s", reply.Payload.Data, err, want)
			}
		}
	}
}

// TestSpawnedTwiceInAChain: an actor that is called twice in a chain spawns another one each time, and the same ones
// in a chain that runs again.
func TestSpawnedTwiceInAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		var runs [][]string
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Add": add,
			"Make": func(t *hosttest.Turn) error {
				id, err := t.Spawn("Child")
				return errors.Join(err, t.Reply(id))
			},
			"MakeTwo": func(t *hosttest.Turn) error {
				one, err := t.Call("T", "b", "Make", "")
				two, err2 := t.Call("T", "b", "Make", "")
				runs = append(runs, []string{one, two})
				_, err3 := t.Add("n", 1)
				return errors.Join(err, err2, err3)
			},
		}})
		s.world.Deploy("app", "Child", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
		s.mustCall(t, "a", "Add", "1")
		s.store.write(key("a"), func(*actor.Row) {}) // the first run is refused
		s.mustCall(t, "a", "MakeTwo", "")
		if len(runs) != 2 || !slices.Equal(runs[0], runs[1]) || runs[0][0] == runs[0][1] {
			t.Fatalf("spawned %q, want two, and in a second run the same", runs)
		}
		for _, id := range runs[1] {
			if row := s.store.row(actor.Key{App: "app", Type: "Child", ID: id}); !row.Spawned {
				t.Errorf("the row of %s is %+v", id, row)
			}
		}
	})
}

// TestSpawnedInATransactionThatRunsAgain: a turn of a type placed any that runs again spawns the same actor.
func TestSpawnedInATransactionThatRunsAgain(t *testing.T) {
	s := newStage(t, host.Config{})
	var runs []string
	s.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementAny, Methods: map[string]hosttest.Func{"Make": func(t *hosttest.Turn) error {
		id, err := t.Spawn("T")
		runs = append(runs, id)
		_, err2 := t.Add("n", 1)
		return errors.Join(err, err2)
	}}})
	s.store.plan("locked", "serialization")
	s.mustCall(t, "a", "Make", "")
	if len(runs) != 2 || runs[0] != runs[1] {
		t.Fatalf("spawned %q, want one, and in a second run the same", runs)
	}
	if row := s.store.row(key(runs[0])); !row.Spawned {
		t.Errorf("its row is %+v", row)
	}
}

// TestCallOfSpawnedBeforeItsCommit: a turn that knows of an actor from a turn which is not committed yet, and which
// has spawned it, calls it once that is committed.
func TestCallOfSpawnedBeforeItsCommit(t *testing.T) {
	for _, spawn := range []string{"", abi.SpawnOnly} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, host.Config{})
			s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
				"Add": add,
				"Make": func(t *hosttest.Turn) error {
					id, err := t.Spawn("Child")
					return errors.Join(err, t.Set("child", id))
				},
				"Use": func(t *hosttest.Turn) error {
					id, err := t.Get("child")
					if err != nil {
						return err
					}
					reply, err := t.Call("Child", id, "Add", "")
					return errors.Join(err, t.Reply(reply))
				},
			}})
			s.world.Deploy("app", "Child", hosttest.Actor{Life: hosttest.Life{Spawn: spawn}, Methods: map[string]hosttest.Func{"Add": add}})
			hold := make(chan struct{})
			s.store.setHold(hold)
			var answers []<-chan answer
			for _, method := range []string{"Add", "Make", "Use", "Use"} { // the commit of the first is under way, and the others wait for it
				answers = append(answers, s.start(t.Context(), "a", method))
				synctest.Wait()
			}
			s.store.setHold(nil)
			close(hold)
			for i, want := range []string{"1", "", "1", "2"} {
				if a := <-answers[i]; a.reply != want || a.err != nil {
					t.Errorf("call %d: %q, %v, want %q", i, a.reply, a.err, want)
				}
			}
		})
	}
}

// hooked notes in the order of its turns what runs.
type hooked struct {
	mu  sync.Mutex
	ran []string
}

func (h *hooked) note(name string, f hosttest.Func) hosttest.Func {
	return func(t *hosttest.Turn) error {
		h.mu.Lock()
		h.ran = append(h.ran, name)
		h.mu.Unlock()
		if f != nil {
			return f(t)
		}
		return nil
	}
}

// wants checks what ran since the last time.
func (h *hooked) wants(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.ran, want) {
		t.Errorf("it ran %q, want %q", h.ran, want)
	}
	h.ran = nil
}

// TestHooks: created runs before the first turn of a life, and activated before the first turn
// on a state that was loaded, both in the commit of that turn. Read-only methods run none.
func TestHooks(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := remind(t, host.Config{Limits: host.Limits{IdleTimeout: time.Minute}, SweepEvery: time.Second})
				ran, broken := &hooked{}, false
				add := func(key string) hosttest.Func {
					return func(t *hosttest.Turn) error {
						n, err := t.Add(key, 1)
						return errors.Join(err, t.ReplyNumber(n))
					}
				}
				a := hosttest.Actor{
					Placement: placement,
					Life:      hosttest.Life{Hooks: abi.Hooks{Created: "OnCreated"}},
					Methods: map[string]hosttest.Func{
						"OnCreated": ran.note("created", func(t *hosttest.Turn) error {
							if broken {
								return hosttest.Fail("broken")
							}
							return add("made")(t)
						}),
						"OnActivated": ran.note("activated", nil),
						"Add":         ran.note("add", add("n")),
						"Idle":        ran.note("idle", nil),
						"Fail":        ran.note("fail", func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") }),
						"PassAway":    ran.note("pass", (*hosttest.Turn).PassAway),
					},
					ReadOnly: map[string]hosttest.Func{"Look": ran.note("look", func(t *hosttest.Turn) error {
						n, err := t.Number("made")
						return errors.Join(err, t.ReplyNumber(n))
					})},
				}
				activated := []string{}
				if placement != abi.PlacementAny {
					a.Life.Hooks.Activated, activated = "OnActivated", []string{"activated"}
				}
				s.world.Deploy("app", "T", a)
				call := func(method, want string) {
					t.Helper()
					reply, err := s.call(t.Context(), "a", method)
					if got := fmt.Sprint(reply, err); !strings.Contains(got, want) {
						t.Errorf("%s: %s, want %s", method, got, want)
					}
				}
				call("Look", "0")
				ran.wants(t, "look")
				call("Fail", "on_purpose")
				ran.wants(t, append(append([]string{"created"}, activated...), "fail")...)
				call("Idle", "<nil>") // is committed, since the hook has run
				ran.wants(t, append(append([]string{"created"}, activated...), "idle")...)
				call("Look", "1")
				call("Add", "1")
				ran.wants(t, "look", "add")
				call("PassAway", "<nil>")
				broken = true
				call("Add", "the hook OnCreated: broken")
				broken = false
				call("Add", "1")
				ran.wants(t, append(append([]string{"pass", "created", "created"}, activated...), "add")...)
				call("Look", "1")
				ran.wants(t, "look")
				time.Sleep(time.Hour) // it leaves memory, unless it is sticky
				call("Add", "2")
				if placement == abi.PlacementSticky {
					activated = nil
				}
				ran.wants(t, append(activated, "add")...)
				if err := s.Delete(t.Context(), key("a")); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestCreatedAlone: a hook that changes nothing runs once all the same, since its turn is committed, and its
// reply is nobody's.
func TestCreatedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := remind(t, host.Config{})
		var ran hooked
		s.world.Deploy("app", "T", hosttest.Actor{Life: hosttest.Life{Hooks: abi.Hooks{Created: "OnCreated"}}, Methods: map[string]hosttest.Func{
			"OnCreated": ran.note("created", func(t *hosttest.Turn) error { return t.Reply("of the hook") }),
			"Idle":      ran.note("idle", nil),
		}})
		s.mustCall(t, "a", "Idle", "")
		if row := s.store.row(key("a")); row.Version == 0 {
			t.Error("no row shows that the hook has run")
		}
		s.mustCall(t, "a", "Idle", "")
		ran.wants(t, "created", "idle", "idle")
	})
}

// TestPassAwayGivesBackTokensOnce: the token of a reminder that a called turn has set before it ended the life
// of its actor is given back, and not once more when the chain is taken back.
func TestPassAwayGivesBackTokensOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rems := remind(t, host.Config{})
		s.world.Deploy("app", "T", scriptedActor())
		if _, err := s.do(t, "a", op{Do: "call", ID: "b", Ops: []op{{Do: "remind", ID: "x"}, {Do: "pass"}}}, op{Do: "fail"}); err == nil {
			t.Error("it did not fail")
		}
		if n := rems.unused.Load(); n != 1 {
			t.Errorf("%d tokens were given back of one", n)
		}
	})
}

// sent returns the delivery of a message that b has sent to a.
func sent(t *testing.T, rems *fakeReminders, method string) *actor.Firing {
	t.Helper()
	r, err := rems.Prepare(t.Context(), actor.ReminderSpec{Key: key("a"), Method: method, Message: &actor.Message{From: key("b")}})
	if err != nil {
		t.Fatal(err)
	}
	r.Name = actor.UnorderedMessageName(r.ID)
	rems.mu.Lock()
	rems.setReminder(r)
	rems.mu.Unlock()
	f := deliveryOf(r)
	f.SentAt = time.Now()
	return f
}

// TestMessageToAnEarlierLife: a message that was sent before the actor passed away is not for its
// next life; one that was sent afterwards is.
func TestMessageToAnEarlierLife(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny} {
		t.Run(placement, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rems := remind(t, host.Config{})
				s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{
					"Add": func(t *hosttest.Turn) error {
						n, err := t.Add("n", 1)
						return errors.Join(err, t.ReplyNumber(n))
					},
					"PassAway": (*hosttest.Turn).PassAway,
				}})
				send := func() *actor.Firing { return sent(t, rems, "Add") }
				early := send()
				time.Sleep(time.Second)
				s.mustCall(t, "a", "Add", "1")
				s.mustCall(t, "a", "PassAway", "")
				if err := s.fire(t.Context(), early); !errors.Is(err, actor.ErrPassedAway) {
					t.Errorf("a message to the earlier life: %v", err)
				}
				s.mustCall(t, "a", "Add", "1")
				if err := s.fire(t.Context(), early); !errors.Is(err, actor.ErrPassedAway) {
					t.Errorf("once more: %v", err)
				}
				time.Sleep(time.Second)
				if err := s.fire(t.Context(), send()); err != nil {
					t.Errorf("a message to this life: %v", err)
				}
				s.mustCall(t, "a", "Add", "3")
			})
		})
	}
}

package host_test

import (
	"encoding/json"
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

// TestChildren: a child has a state in memory, and takes calls and volatile messages of its parent, of its
// siblings and of itself, whose replies and messages they get.
func TestChildren(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		one := k.must(t, "a", spawn)
		two := k.must(t, "a", spawn)
		k.want(t, "(1) (3) (5)", "a", kidCall(one, kidAdd(1)), kidCall(one, kidAdd(2)), kidCall(two, kidAdd(5)))
		k.want(t, "((7))", "a", kidCall(one, kidCall(two, kidAdd(2))))
		k.must(t, "a", kidTell(one, kidAdd(1), kidNote, kidTell(one, kidNote, kidTell(two, kidAdd(1), kidNote, kidTell("a", kidAdd(100), kidNote)))))
		k.wantNoted(t, "kid 4 from a-, kid 4 from kid, kid 8 from kid, a 100 from kid")
		k.want(t, "(4) (8) 100", "a", kidCall(one, kidLook), kidCall(two, kidLook), kidLook)
		k.must(t, "a", kidTell(one, kidCall("a", kidAdd(1)), kidCall(two, kidAdd(1))))
		synctest.Wait()
		k.want(t, "(4) (9) 101", "a", kidCall(one, kidLook), kidCall(two, kidLook), kidLook)
		k.store.mu.Lock()
		defer k.store.mu.Unlock()
		for key := range k.store.rows {
			if key.IsAnonymous() {
				t.Errorf("the store has a row of %q", key)
			}
		}
	})
}

// TestChildrenOfOneChain: an actor that is called twice in a chain has another child each time.
func TestChildrenOfOneChain(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		one, two, _ := strings.Cut(k.must(t, "a", kidCall("b", spawn), kidCall("b", spawn)), " ")
		one, two = strings.Trim(one, "()"), strings.Trim(two, "()")
		k.want(t, "(1) (2)", "b", kidCall(one, kidAdd(1)), kidCall(two, kidAdd(2)))
		k.want(t, "(1) (2)", "b", kidCall(one, kidLook), kidCall(two, kidLook))
	})
}

// TestReadsOfChildren: a read-only method of the parent calls read-only methods of its children.
func TestReadsOfChildren(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		for _, cfg := range []host.Config{{}, {Committer: sharedFake(), Ownership: hosttest.NewHoldings(actor.HeldClean)}} {
			k := newKids(t, cfg)
			one := k.must(t, "a", spawn)
			k.want(t, "(7)", "a", kidCall(one, kidAdd(7)))
			text, err := json.Marshal([]kidOp{kidLook, {Do: "read", To: one}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := k.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Look", Payload: actor.Payload{Data: text}})
			if err != nil || string(r.Payload.Data) != "0 (7)" {
				t.Errorf("%s, %v", r.Payload.Data, err)
			}
		}
	})
}

// TestChildrenOfRolledBackTurns: a turn that fails leaves no child behind, and nothing of what it did to
// children or sent to them. So does the part of a chain that is taken back.
func TestChildrenOfRolledBackTurns(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		one := k.must(t, "a", spawn)
		for _, end := range []kidOp{kidFail, kidTrap} {
			if _, err := k.do(t.Context(), "a", spawn, kidCall(one, kidAdd(1)), kidTell(one, kidNote), end); err == nil {
				t.Fatal("it did not fail")
			}
			k.wantNoted(t, "")
			k.want(t, "(0)", "a", kidCall(one, kidLook))
			k.want(t, fmt.Sprintf("(%s) (0)", map[string]string{"fail": "on_purpose", "trap": "trap"}[end.Do]), "a", kidCall(one, kidAdd(1), kidTell("a", kidNote), end), kidCall(one, kidLook))
			k.wantNoted(t, "")
		}
		k.want(t, "(on_purpose) (0)", "b", kidCall("a", kidOp{Do: "must", To: one, Ops: []kidOp{kidAdd(1)}}, kidFail), kidCall("a"+"", kidLook))
		k.want(t, "(0)", "a", kidCall(one, kidLook))
	})
}

// TestChildrenOfRefusedCommits: a turn whose commit is refused, or of an unknown outcome, runs again or is
// settled: it does to children and sends to them what it does once.
func TestChildrenOfRefusedCommits(t *testing.T) {
	for _, fault := range []string{"stale", "lost", "applied", "unavailable"} {
		t.Run(fault, func(t *testing.T) {
			eachMailbox(t, func(t *testing.T, spawn kidOp) {
				k := newKids(t, host.Config{})
				one := k.must(t, "a", spawn)
				if fault == "stale" {
					k.store.mu.Lock()
					row := k.store.rows[key("a")]
					row.Version += 5
					k.store.rows[key("a")] = row
					k.store.mu.Unlock()
				} else {
					k.store.plan("commit", fault)
				}
				reply, err := k.do(t.Context(), "a", spawn, kidAdd(1), kidCall(one, kidAdd(1)), kidTell(one, kidNote))
				if fault == "unavailable" { // it is not applied, and not run again
					wantCondition(t, err, actor.ErrUnavailable)
					k.wantNoted(t, "")
					k.want(t, "0 (0)", "a", kidLook, kidCall(one, kidLook))
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				two, _, _ := strings.Cut(reply, " ")
				k.wantNoted(t, "kid 1 from a-")
				k.want(t, "1 (1) (7)", "a", kidLook, kidCall(one, kidLook), kidCall(two, kidAdd(7)))
			})
		})
	}
}

// TestChildrenInDoubt: the children of a commit whose outcome is never known are gone.
func TestChildrenInDoubt(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{SettleGrace: time.Second})
		one, other := k.must(t, "a", spawn), k.must(t, "a", spawn)
		k.store.plan("commit", "applied")
		k.store.plan("settle", slices.Repeat([]string{"unavailable"}, 1000)...)
		_, err := k.do(t.Context(), "a", kidAdd(1), kidCall(one, kidAdd(1)))
		wantCondition(t, err, actor.ErrAmbiguous)
		k.store.mu.Lock()
		k.store.faults = map[string][]string{}
		k.store.mu.Unlock()
		k.want(t, "1 (passed_away)", "a", kidLook, kidCall(one, kidLook))
		_ = other
	})
}

// TestCallOfChildBeforeItsCommit: a turn that makes a child sends it messages, and does not call it. One
// that knows of it before that turn is committed calls it once it is.
func TestCallOfChildBeforeItsCommit(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		made := make(chan string, 1)
		k.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Add": add,
			"Make": func(t *hosttest.Turn) error {
				id, err := k.op(t, spawn)
				if err != nil {
					return err
				}
				if reply, err := k.op(t, kidCall(id, kidAdd(1))); err != nil || reply != "(not_atomic)" {
					return fmt.Errorf("a call of it: %s, %v", reply, err)
				}
				made <- id
				return t.SetNumber("made", 1)
			},
			"Use": func(t *hosttest.Turn) error {
				id := <-made
				made <- id
				reply, err := k.op(t, kidCall(id, kidAdd(3)))
				return errors.Join(err, t.Reply(reply))
			},
		}})
		hold := make(chan struct{})
		k.store.setHold(hold)
		var answers []<-chan answer
		for _, method := range []string{"Add", "Make", "Use", "Use"} {
			answers = append(answers, k.start(t.Context(), "a", method))
			if synctest.Wait(); method == "Make" {
				hold <- struct{}{} // the first commit: the child is made, and its own commit waits
				synctest.Wait()
			}
		}
		close(hold)
		for i, want := range []string{"1", "", "(3)", "(6)"} {
			if got := <-answers[i]; got.err != nil || got.reply != want {
				t.Errorf("turn %d: %q, %v, want %q", i, got.reply, got.err, want)
			}
		}
	})
}

// TestChildrenEndWithTheirParent: the children of an actor are gone when its activation is, and what they have
// in memory too. Others stay.
func TestChildrenEndWithTheirParent(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, k *kids){
		"idle":        func(*testing.T, *kids) { time.Sleep(2 * time.Minute) },
		"passed away": func(t *testing.T, k *kids) { k.must(t, "a", kidPass) },
		"passed away in a chain": func(t *testing.T, k *kids) {
			k.want(t, "(passed)", "c", kidCall("a", kidPass))
		},
		"deleted": func(t *testing.T, k *kids) {
			k.must(t, "a", kidAdd(1))
			if err := k.Delete(t.Context(), key("a")); err != nil {
				t.Fatal(err)
			}
		},
		"pressure": func(t *testing.T, k *kids) {
			for i := range 400 {
				k.must(t, fmt.Sprint("other", i), kidAdd(1))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachMailbox(t, func(t *testing.T, spawn kidOp) {
				k := newKids(t, host.Config{MaxActivations: 30, SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: time.Minute}})
				k.must(t, "b", kidAdd(1))
				before := k.StateMemory()
				one := k.must(t, "a", spawn)
				two := k.must(t, "a", spawn)
				k.want(t, "(1) (2)", "a", kidCall(one, kidAdd(1)), kidCall(two, kidAdd(2)))
				if k.StateMemory() <= before+2<<10 {
					t.Error("children count for nothing in memory")
				}
				end(t, k)
				synctest.Wait()
				k.want(t, "(passed_away) (passed_away)", "a", kidCall(one, kidLook), kidCall(two, kidLook))
				if _, err := k.do(t.Context(), "a", kidTell(one, kidNote)); err == nil {
					t.Error("a message to it was taken")
				}
				k.wantNoted(t, "")
				again := k.must(t, "a", spawn)
				if again == one || again == two {
					t.Error("another child has the ID of an earlier one")
				}
				k.want(t, "(1)", "a", kidCall(again, kidAdd(1)))
				time.Sleep(3 * time.Minute) // all of them leave
				synctest.Wait()
				if n := k.StateMemory(); n != 0 {
					t.Errorf("%d bytes are counted when no actor is in memory", n)
				}
			})
		})
	}
}

// TestChildThatIsUsed: calls of a child keep its parent in memory, and a child without calls stays as long as
// its parent does.
func TestChildThatIsUsed(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: time.Minute}})
		one, two := k.must(t, "a", spawn), k.must(t, "a", spawn)
		k.want(t, "(5) (6)", "a", kidCall(one, kidAdd(5)), kidCall(two, kidAdd(6)))
		again := kidTell(one, kidAdd(1))
		for range 5 { // one sends itself messages, and its parent sleeps
			again = kidOp{Do: "later", To: one, Ops: []kidOp{kidAdd(1), again}}
		}
		k.must(t, "a", again)
		time.Sleep(4*time.Minute + 10*time.Second)
		k.want(t, "(11) (6)", "a", kidCall(one, kidLook), kidCall(two, kidLook))
	})
}

// TestChildrenOfMovedParents: children end when their parent moves or their host loses it. A hand-over does
// not ask who holds a child, and one of others ends none.
func TestChildrenOfMovedParents(t *testing.T) {
	for _, how := range []string{"hand over", "hand over others", "lose"} {
		t.Run(how, func(t *testing.T) {
			eachMailbox(t, func(t *testing.T, spawn kidOp) {
				store, holdings := sharedFake(), hosttest.NewHoldings(actor.HeldClean)
				holdings.Set(func(key actor.Key) actor.Hold {
					if key.IsAnonymous() {
						t.Errorf("it was asked who holds %q", key)
					}
					return actor.HeldClean
				})
				var left []string
				k := newKids(t, host.Config{Committer: store, Ownership: holdings, Observers: []host.Events{{
					Deactivated: func(d host.Deactivation) { left = append(left, kidName(d.Key.ID)) },
				}}})
				one := k.must(t, "a", spawn)
				k.want(t, "(1)", "a", kidCall(one, kidAdd(1)))
				k.must(t, "a", kidTell(one, kidAdd(1), kidTell("a", kidAdd(1))))
				synctest.Wait()
				switch how {
				case "hand over":
					if err := k.HandOver(t.Context(), func(key actor.Key) bool { return key.ID == "a" }); err != nil {
						t.Fatal(err)
					}
				case "hand over others":
					if err := k.HandOver(t.Context(), func(key actor.Key) bool { return key.ID != "a" }); err != nil {
						t.Fatal(err)
					}
					k.want(t, "1 (2)", "a", kidLook, kidCall(one, kidLook))
					return
				case "lose":
					k.DropAll()
				}
				if slices.Sort(left); !slices.Equal(left, []string{"a", "kid"}) {
					t.Errorf("%q have left memory", left)
				}
				k.want(t, "1 (passed_away)", "a", kidLook, kidCall(one, kidLook))
			})
		})
	}
}

// TestChildrenAtWorkWhenTheirParentLeaves: a turn of a child that has begun when its family ends is not
// applied, and is not seen.
func TestChildrenAtWorkWhenTheirParentLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holdings := hosttest.NewHoldings(actor.HeldClean)
		k := newKids(t, host.Config{Committer: sharedFake(), Ownership: holdings})
		one := k.must(t, "a", kidNew)
		k.gate = make(chan struct{})
		k.must(t, "a", kidTell(one, kidOp{Do: "gate"}, kidAdd(1), kidTell("a", kidNote)), kidTell(one, kidAdd(1)))
		k.wantNoted(t, "kid waits")
		if err := k.HandOver(t.Context(), func(key actor.Key) bool { return key.ID == "a" }); err != nil {
			t.Fatal(err)
		}
		k.want(t, "(passed_away)", "a", kidCall(one, kidLook)) // the actor is back, without its child
		close(k.gate)
		k.wantNoted(t, "kid goes on, a undelivered passed_away, a undelivered passed_away")
	})
}

// TestChildAtWorkWhenOthersMove: a hand-over of other actors neither waits for a child nor refuses its messages, also if
// its ID is among those that are handed over.
func TestChildAtWorkWhenOthersMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKids(t, host.Config{Committer: sharedFake(), Ownership: hosttest.NewHoldings(actor.HeldClean)})
		one := k.must(t, "a", kidNew)
		k.gate = make(chan struct{})
		k.must(t, "a", kidTell(one, kidOp{Do: "gate"}), kidTell(one, kidAdd(1)))
		synctest.Wait()
		if err := k.HandOver(t.Context(), func(key actor.Key) bool { return key.ID != "a" }); err != nil {
			t.Fatal(err)
		}
		close(k.gate)
		k.wantNoted(t, "kid waits, kid goes on")
		k.want(t, "(1)", "a", kidCall(one, kidLook))
	})
}

// TestChildrenOfALostParent: when the host loses an actor, its children are gone at once, also while a turn of it
// runs on.
func TestChildrenOfALostParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKids(t, host.Config{Committer: sharedFake(), Ownership: hosttest.NewHoldings(actor.HeldClean), Limits: host.Limits{TurnDeadline: time.Hour}})
		one := k.must(t, "a", kidNew)
		k.must(t, "a", kidOp{Do: "later", To: one, Ops: []kidOp{kidNote}})
		k.gate = make(chan struct{})
		done := make(chan struct{})
		go func() { defer close(done); _, _ = k.do(t.Context(), "a", kidOp{Do: "gate"}) }()
		k.wantNoted(t, "a waits")
		k.DropAll()
		time.Sleep(time.Minute)
		k.wantNoted(t, "")
		close(k.gate)
		<-done
		k.wantNoted(t, "a goes on")
	})
}

// TestChildOfATypeThatNoHostKeeps: a child whose type is placed otherwise by now has no turns, and no row.
func TestChildOfATypeThatNoHostKeeps(t *testing.T) {
	for _, placement := range []string{abi.PlacementAny, abi.PlacementStateless} {
		eachMailbox(t, func(t *testing.T, spawn kidOp) {
			k := newKids(t, host.Config{})
			one := k.must(t, "a", spawn)
			kid := k.actor()
			kid.Placement = placement
			k.gate = make(chan struct{})
			k.must(t, "a", kidTell(one, kidOp{Do: "gate"}), kidTell(one, kidAdd(1)))
			synctest.Wait()
			k.world.Deploy("app", "Kid", kid)
			close(k.gate)
			k.wantNoted(t, "kid waits, kid goes on, a undelivered passed_away")
			k.want(t, "(passed_away)", "a", kidCall(one, kidAdd(1)))
			k.must(t, "a", kidTell(one, kidAdd(1)))
			k.wantNoted(t, "a undelivered passed_away")
			k.store.mu.Lock()
			defer k.store.mu.Unlock()
			for key := range k.store.rows {
				if key.IsAnonymous() {
					t.Errorf("the store has a row of %q", key)
				}
			}
		})
	}
}

// TestMailboxOfChildren: one that shares its parent's mailbox never runs beside the parent and beside others that
// share it, and what came first runs first. One with its own does run beside them.
func TestMailboxOfChildren(t *testing.T) {
	for _, shares := range []bool{true, false} {
		t.Run(fmt.Sprint(shares), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spawn, want := kidNew, "kid waits, a 0 from -, a 0 from -"
				if shares {
					spawn, want = kidShare, "kid waits"
				}
				k := newKids(t, host.Config{})
				one, two := k.must(t, "a", spawn), k.must(t, "a", spawn)
				k.gate = make(chan struct{})
				k.must(t, "a", kidTell(one, kidOp{Do: "gate"}))
				synctest.Wait()
				var wait sync.WaitGroup
				for range 2 {
					wait.Go(func() { k.must(t, "a", kidNote) })
					synctest.Wait()
				}
				k.wantNoted(t, want)
				close(k.gate)
				wait.Wait()
				if shares {
					k.wantNoted(t, "kid goes on, a 0 from -, a 0 from -")
					k.must(t, "a", kidTell(one, kidNote), kidTell("a", kidNote), kidTell(two, kidAdd(1), kidNote), kidTell(one, kidTell(two, kidNote), kidTell("a", kidNote)))
					k.wantNoted(t, "kid 0 from a-, a 0 from a-, kid 1 from a-, kid 1 from kid, a 0 from kid")
				}
			})
		})
	}
}

// TestSharedMailboxAmongSiblings: a child with a mailbox of its own calls one that shares their parent's:
// the parent runs nothing meanwhile.
func TestSharedMailboxAmongSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKids(t, host.Config{})
		own, shares := k.must(t, "a", kidNew), k.must(t, "a", kidShare)
		k.gate = make(chan struct{})
		k.must(t, "a", kidTell(own, kidCall(shares, kidAdd(1), kidOp{Do: "gate"}, kidAdd(1)), kidCall("a", kidAdd(1))))
		k.wantNoted(t, "kid waits")
		done := make(chan struct{})
		go func() { defer close(done); k.must(t, "a", kidNote) }()
		k.wantNoted(t, "")
		close(k.gate)
		<-done
		k.want(t, "1 (2)", "a", kidLook, kidCall(shares, kidLook))
	})
}

// TestChildIsUnknownOutside: a child reaches its parent and its siblings alone, and they alone reach it.
func TestChildIsUnknownOutside(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		one, other := k.must(t, "a", spawn), k.must(t, "b", spawn)
		family, _, _ := strings.Cut(one, ".")
		kid := func(id string) actor.Key { return actor.Key{App: "app", Type: "Kid", ID: id} }
		for _, id := range []string{one, family, family + ".", family + ".x", "\x01", "\x02", "\x01.", "\x02" + one[1:], "\x01" + one[1:]} {
			_, err := k.Invoke(t.Context(), actor.Invocation{Key: kid(id), Method: "Do"})
			wantCondition(t, err, actor.ErrPassedAway)
			_, err = k.Invoke(t.Context(), actor.Invocation{Key: kid(id), Method: "Look", IdempotencyKey: "k"})
			wantCondition(t, err, actor.ErrPassedAway)
			wantCondition(t, k.Delete(t.Context(), kid(id)), actor.ErrPassedAway)
			if err := kid(id).Validate(); err == nil {
				t.Errorf("%q is a valid ID", id)
			}
			k.want(t, "(passed_away)", "b", kidCall(id, kidLook))
			k.want(t, "(passed_away)", "b", kidCall("c", kidOp{Do: "must", To: id, Ops: []kidOp{kidLook}}))
			if _, err := k.do(t.Context(), "b", kidTell(id, kidNote)); err == nil {
				t.Errorf("a message of another actor to %q was taken", id)
			}
			if id != one {
				k.want(t, "(passed_away)", "a", kidCall(id, kidLook))
			}
		}
		k.want(t, "((invalid_call))", "a", kidCall(one, kidCall(other, kidLook)))
		calls := []actor.Call{{Key: key("a"), Method: "Do"}, {Key: kid(one), Method: "Do"}}
		_, err := k.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: actor.MethodAll, Payload: actor.Payload{Data: actor.EncodeCalls(calls)}})
		if err == nil {
			t.Error("a child was called with others from outside")
		}
		k.want(t, "((invalid_call))", "a", kidCall(one, kidCall("b", kidLook)))
		reply, err := k.do(t.Context(), "a", kidOp{Do: "must", To: one, Ops: []kidOp{kidTell("b", kidNote)}})
		if err == nil || !strings.Contains(err.Error(), "have the parent send") {
			t.Errorf("a child told a stranger: %q, %v", reply, err)
		}
		k.wantNoted(t, "")
		k.want(t, "(1)", "a", kidCall(one, kidAdd(1)))
	})
}

// TestWhatChildrenLack: nothing that a child does is for the store to keep.
func TestWhatChildrenLack(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		k.world.Deploy("app", "Kid", hosttest.Actor{Life: hosttest.Life{Sets: map[string][]string{"Closed": {"closed"}, "Open": {"open"}}}, Methods: map[string]hosttest.Func{
			"Do": func(t *hosttest.Turn) error {
				r := &abi.Reminder{Name: "r", Method: "Do", DelayNano: 1}
				_, timed := t.Calls.TimerSet(r)
				_, untimed := t.Calls.TimerCancel([]byte("r"))
				_, get, _ := t.Calls.ReminderGet([]byte("r"))
				_, names, _ := t.Calls.ReminderNames(nil)
				sent, _ := t.Calls.Send(&abi.Message{Type: "T", ID: "a", Method: "Do"})
				_, spawned := t.Calls.Spawn([]byte("T"))
				_, child := t.Calls.SpawnChild("Kid", 0)
				_, released := t.Calls.ServiceRelease([]byte("s"))
				subscribed, _ := t.Calls.EventSubscribe("T", "a", "Do")
				_, unsubscribed, _ := t.Calls.EventUnsubscribe("T", "a")
				_, watched := t.Calls.HostWatch("T", "a", "Do")
				_, followed := t.Calls.ServiceWatch("s", "Do")
				for name, code := range map[string]abi.Code{
					"timer_set": timed, "timer_cancel": untimed, "reminder_set": t.Calls.ReminderSet(r), "reminder_cancel": t.Calls.ReminderCancel([]byte("r")),
					"reminder_get": get, "reminder_names": names, "send": sent, "spawn": spawned, "spawn_child": child,
					"service_claim": t.Calls.ServiceClaim([]byte("s")), "service_release": released, "event_publish": t.Calls.Publish("e", "", nil),
					"event_subscribe": subscribed, "event_unsubscribe": unsubscribed, "host_watch": watched, "service_watch": followed,
				} {
					if code != abi.CodeNoState {
						return hosttest.Fail(fmt.Sprintf("%s is %d", name, code))
					}
				}
				told, _ := t.Calls.Send(&abi.Message{Type: "T", ID: "a", Method: "Do", Flags: abi.MessageVolatile, OnBehalfType: "T", OnBehalfID: "b"})
				if problem := t.Calls.Problem(); told != abi.CodeInvalid || !strings.Contains(problem, "for itself alone") {
					return hosttest.Fail(fmt.Sprintf("a message for another actor is %d: %s", told, problem))
				}
				t.Calls.ReminderNames(nil)
				if problem := t.Calls.Problem(); !strings.Contains(problem, "volatile child") {
					return hosttest.Fail("the problem is " + problem)
				}
				return t.Become("open")
			},
			"Open":   func(t *hosttest.Turn) error { return t.Reply("open") },
			"Closed": func(t *hosttest.Turn) error { return t.Reply("closed") },
		}})
		one := k.must(t, "a", spawn)
		k.want(t, "()", "a", kidOp{Do: "must", To: one})
		for method, want := range map[string]string{"Open": "open", "Closed": abi.CallNotAccepted} {
			k.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Do": func(t *hosttest.Turn) error {
				reply, err := t.Call("Kid", one, method, "")
				var failed *actor.GuestError
				if errors.As(err, &failed) {
					reply = failed.Code
				}
				return t.Reply(reply)
			}}})
			k.want(t, want, "a")
		}
	})
}

// TestHooksOfChildren: the hooks of a child run when it is made and loaded, and not when its host stops.
func TestHooksOfChildren(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		hook := func(name string) hosttest.Func {
			return func(*hosttest.Turn) error { k.note(name); return nil }
		}
		k.world.Deploy("app", "Kid", hosttest.Actor{
			Life:    hosttest.Life{Hooks: abi.Hooks{Created: "Created", Activated: "Activated", Leaving: "Leaving"}},
			Methods: map[string]hosttest.Func{"Do": k.run, "Created": hook("created"), "Activated": hook("activated"), "Leaving": hook("leaving")},
		})
		one := k.must(t, "a", spawn)
		k.want(t, "(1) (2)", "a", kidCall(one, kidAdd(1)), kidCall(one, kidAdd(1)))
		k.wantNoted(t, "created, activated")
		if err := k.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		k.wantNoted(t, "")
	})
}

// TestBoundOfChildren: an actor has so many children and not more, also if it makes them in turns of one batch, and more
// once some have passed away.
func TestBoundOfChildren(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		made := make(chan string, 200)
		k.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Make": func(t *hosttest.Turn) error {
				for i := range 60 {
					id, err := k.op(t, spawn)
					if err != nil && strings.Contains(err.Error(), "code -9") {
						return t.ReplyNumber(int64(i))
					}
					if err != nil {
						return err
					}
					made <- id
				}
				return t.ReplyNumber(60)
			},
			"End": func(t *hosttest.Turn) error {
				for range 10 {
					if _, err := k.op(t, kidOp{Do: "must", To: <-made, Ops: []kidOp{kidPass}}); err != nil {
						return err
					}
				}
				return nil
			},
		}})
		hold := make(chan struct{})
		k.store.setHold(hold)
		var answers []<-chan answer
		for range 3 {
			answers = append(answers, k.start(t.Context(), "a", "Make"))
			synctest.Wait()
		}
		close(hold)
		for i, want := range []string{"60", "40", "0"} {
			if got := <-answers[i]; got.err != nil || got.reply != want {
				t.Errorf("turn %d makes %q children, %v; want %s", i, got.reply, got.err, want)
			}
		}
		if _, err := k.call(t.Context(), "a", "End"); err != nil {
			t.Fatal(err)
		}
		if got, err := k.call(t.Context(), "a", "Make"); err != nil || got != "10" {
			t.Errorf("after ten have passed away: %q more, %v", got, err)
		}
	})
}

// TestTypesOfChildren: who is in memory between turns may have children, and who is kept there may be one.
func TestTypesOfChildren(t *testing.T) {
	k := newKids(t, host.Config{})
	k.world.Deploy("app", "Any", hosttest.Actor{Placement: abi.PlacementAny, Methods: map[string]hosttest.Func{"Do": k.run}})
	k.world.Deploy("app", "None", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"Do": k.run}})
	k.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Do": func(t *hosttest.Turn) error {
		var codes []abi.Code
		for _, typ := range []string{"Any", "None", "Missing", "T", "Kid"} {
			_, code := t.Calls.SpawnChild(typ, 0)
			codes = append(codes, code)
		}
		_, code := t.Calls.SpawnChild("Kid", 2)
		return t.Reply(fmt.Sprint(append(codes, code)))
	}}})
	k.want(t, "[-2 -2 -2 0 0 -2]", "a")
	for _, typ := range []string{"Any", "None"} {
		_, err := k.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: typ, ID: "a"}, Method: "Do", Payload: actor.Payload{Data: []byte(`[{"do":"new"}]`)}})
		if err == nil || !strings.Contains(err.Error(), "code -5") {
			t.Errorf("an actor of the type %s makes a child: %v", typ, err)
		}
	}
}

// TestChildrenUnderLoad: turns of a parent and of its children that call each other at once, some of whose commits
// are settled or refused, have effect once and together.
func TestChildrenUnderLoad(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		t.Run(fmt.Sprint("cluster ", cluster), func(t *testing.T) {
			cfg := host.Config{}
			if cluster {
				cfg = host.Config{Committer: sharedFake(), Ownership: hosttest.NewHoldings(actor.HeldClean)}
			}
			k := newKids(t, cfg)
			own, shares := k.must(t, "a", kidNew), k.must(t, "a", kidShare)
			both := func(id string) []kidOp {
				return []kidOp{{Do: "must", To: "a", Ops: []kidOp{kidAdd(1)}}, {Do: "must", To: id, Ops: []kidOp{kidAdd(1)}}}
			}
			const callers, turns = 4, 40
			var wait sync.WaitGroup
			for caller := range callers {
				wait.Go(func() {
					for i := range turns {
						if i%7 == caller {
							k.store.plan("commit", []string{"lost", "applied"}[i%2])
						}
						ops := []kidOp{kidAdd(1), {Do: "must", To: own, Ops: []kidOp{kidAdd(1)}}, {Do: "must", To: shares, Ops: []kidOp{kidAdd(1)}}}
						ops = append(ops, kidTell(own, append(both(shares), kidAdd(1))...), kidTell(shares, append(both(own), kidAdd(1))...))
						if _, err := k.do(t.Context(), "a", ops...); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wait.Wait()
			want := fmt.Sprintf("%d (%[1]d) (%[1]d)", 3*callers*turns)
			for got := ""; got != want; {
				if got = k.must(t, "a", kidLook, kidCall(own, kidLook), kidCall(shares, kidLook)); got == want {
					break
				}
				if back := k.took(); back != "" {
					t.Fatalf("%s, want %s, and messages came back: %s", got, want, back)
				}
			}
		})
	}
}

// TestChildrenCountForNothingStored: an app stores nothing more by children, by their states and by what they do.
func TestChildrenCountForNothingStored(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		book := &rulebook{}
		k := newKids(t, host.Config{Rules: book, Counter: fullApp{}})
		book.rule(t, k.stage, actor.Rules{Stored: map[actor.Quota]int64{actor.QuotaActors: 1e9, actor.QuotaBytes: 1e12}})
		k.must(t, "a", kidAdd(1))
		synctest.Wait()
		before, known := host.QuotasOf(k.Host).Stored("app")
		one := k.must(t, "a", spawn)
		k.want(t, "(5)", "a", kidCall(one, kidAdd(5)))
		k.must(t, "a", kidTell(one, kidAdd(1)))
		synctest.Wait()
		if got, _ := host.QuotasOf(k.Host).Stored("app"); got != before || !known {
			t.Errorf("the app stores %+v, and %+v before (known: %v)", got, before, known)
		}
	})
}

// TestKeyedCallsThatCallChildren: a call with an idempotency key that calls children has one effect, and what is recorded of
// it names no child.
func TestKeyedCallsThatCallChildren(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		hs := newHosts(t, host.Limits{})
		k := &kids{stage: hs.stages[0]}
		k.world.Deploy("app", "T", k.actor())
		k.world.Deploy("app", "Kid", k.actor())
		one := k.must(t, "a", spawn)
		text, err := json.Marshal([]kidOp{kidAdd(1), kidCall(one, kidAdd(5)), kidTell(one, kidAdd(10))})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := k.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Do", IdempotencyKey: "once", Payload: actor.Payload{Data: text}})
			if err != nil || string(r.Payload.Data) != "1 (5)" {
				t.Errorf("%s, %v", r.Payload.Data, err)
			}
			synctest.Wait()
		}
		k.want(t, "1 (15)", "a", kidLook, kidCall(one, kidLook))
		hs.store.mu.Lock()
		defer hs.store.mu.Unlock()
		if len(hs.store.calls) == 0 {
			t.Error("nothing was recorded")
		}
		for name := range hs.store.calls {
			if strings.ContainsAny(name, "\x01\x02") {
				t.Errorf("the store has the record %q", name)
			}
		}
		for key := range hs.store.rows {
			if key.IsAnonymous() {
				t.Errorf("the store has a row of %q", key)
			}
		}
	})
}

// TestChildOfAStickyType: the activation of an idle child ends, although its type is sticky. Its row stays with the
// family, so the next call finds the state.
func TestChildOfAStickyType(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		var left []string
		k := newKids(t, host.Config{SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: time.Minute}, Observers: []host.Events{{
			Deactivated: func(d host.Deactivation) { left = append(left, kidName(d.Key.ID)+" "+string(d.Reason)) },
		}}})
		kid := k.actor()
		kid.Placement = abi.PlacementSticky
		k.world.Deploy("app", "Kid", kid)
		one := k.must(t, "a", spawn)
		k.want(t, "(7)", "a", kidCall(one, kidAdd(7)))
		for range 3 {
			time.Sleep(40 * time.Second)
			k.must(t, "a", kidLook)
		}
		synctest.Wait()
		if !slices.Equal(left, []string{"kid idle"}) {
			t.Errorf("%q have left memory", left)
		}
		k.want(t, "(7)", "a", kidCall(one, kidLook))
	})
}

// TestChildThatCallsALeavingParent: a child that calls its parent while that leaves is refused, and it is asked nowhere
// who holds the child.
func TestChildThatCallsALeavingParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holdings := hosttest.NewHoldings(actor.HeldClean)
		k := newKids(t, host.Config{Committer: sharedFake(), Ownership: holdings, Limits: host.Limits{TurnDeadline: time.Hour}})
		one := k.must(t, "a", kidNew)
		k.must(t, "a", kidOp{Do: "later", To: one, Ops: []kidOp{kidCall("a", kidAdd(1)), {Do: "say"}}})
		k.gate = make(chan struct{})
		done := make(chan struct{})
		go func() { defer close(done); _, _ = k.do(t.Context(), "a", kidOp{Do: "gate"}) }()
		k.wantNoted(t, "a waits")
		holdings.Set(func(key actor.Key) actor.Hold {
			if key.IsAnonymous() {
				t.Errorf("it was asked who holds %q", key)
			}
			return actor.NotHeld
		})
		moved := make(chan error, 1)
		go func() { moved <- k.HandOver(t.Context(), func(key actor.Key) bool { return key.ID == "a" }) }()
		time.Sleep(time.Minute)
		k.wantNoted(t, "said") // it was answered, and went on
		close(k.gate)
		<-done
		if err := <-moved; err != nil {
			t.Fatal(err)
		}
		k.wantNoted(t, "a goes on")
	})
}

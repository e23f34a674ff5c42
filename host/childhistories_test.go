package host_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// kidsOf returns two hosts whose actors have children. The first host holds the actor a.
func kidsOf(t *testing.T) (*hosts, *kids) {
	hs := newHosts(t, host.Limits{})
	k := &kids{stage: hs.stages[0], gate: make(chan struct{})}
	for _, s := range hs.stages {
		s.world.Deploy("app", "T", k.actor())
		s.world.Deploy("app", "Kid", k.actor())
	}
	return hs, k
}

// TestChildNeverCallsAMovedParent: a child whose parent moves, and is about to leave this host, does not call the actor at
// its new host, which is not its parent, and sends it no message.
func TestChildNeverCallsAMovedParent(t *testing.T) {
	for method, want := range map[string]string{"call": "kid goes on, said", "read": "kid goes on", "tell": "kid goes on, said, kid undelivered not_owner"} { // which it fails with
		synctest.Test(t, func(t *testing.T) {
			hs, k := kidsOf(t)
			one := k.must(t, "a", kidNew)
			k.must(t, "a", kidTell(one, kidOp{Do: "gate"}, kidOp{Do: method, To: "a", Ops: []kidOp{kidAdd(1)}}, kidOp{Do: "say"}))
			k.wantNoted(t, "kid waits")
			parent := make(chan struct{})
			held := k.gate
			k.gate = parent
			var wait sync.WaitGroup
			wait.Go(func() { _, _ = k.do(t.Context(), "a", kidOp{Do: "gate"}) })
			k.wantNoted(t, "a waits")
			hs.mu.Lock()
			hs.moved["a"] = 1
			hs.mu.Unlock()
			wait.Go(func() {
				if err := k.HandOver(t.Context(), func(key actor.Key) bool { return key.ID == "a" }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			close(held)
			k.wantNoted(t, want)
			for _, inv := range hs.invocations() {
				t.Errorf("a child calls %v at another host, from %+v", inv.Key, inv.Origin)
			}
			close(parent)
			wait.Wait()
			k.wantNoted(t, "a goes on")
			hs.want(t, map[string]int64{"a": 0})
		})
	}
}

// TestChildrenOfParentsInDoubt: a commit deletes a parent or ends its life, and its outcome is never known. The children
// are gone, since the actor may have begun another life.
func TestChildrenOfParentsInDoubt(t *testing.T) {
	for _, how := range []string{"deleted", "passed away"} {
		for _, fault := range []string{"applied", "lost"} {
			t.Run(how+" "+fault, func(t *testing.T) {
				eachMailbox(t, func(t *testing.T, spawn kidOp) {
					k := newKids(t, host.Config{SettleGrace: time.Second, SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: time.Minute}})
					k.must(t, "a", kidAdd(1))
					one := k.must(t, "a", spawn)
					k.want(t, "(1)", "a", kidCall(one, kidAdd(1)))
					k.store.plan("commit", fault)
					k.store.plan("settle", slices.Repeat([]string{"unavailable"}, 1000)...)
					var err error
					if how == "deleted" {
						err = k.Delete(t.Context(), key("a"))
					} else {
						_, err = k.do(t.Context(), "a", kidPass)
					}
					wantCondition(t, err, actor.ErrAmbiguous)
					k.store.mu.Lock()
					k.store.faults = map[string][]string{}
					k.store.mu.Unlock()
					n := map[string]string{"applied": "0", "lost": "1"}[fault]
					k.want(t, n+" (passed_away)", "a", kidLook, kidCall(one, kidLook))
					two := k.must(t, "a", spawn)
					k.want(t, "(3)", "a", kidCall(two, kidAdd(3)))
					time.Sleep(3 * time.Minute)
					if n := k.StateMemory(); n != 0 {
						t.Errorf("%d bytes are counted when no actor is in memory", n)
					}
				})
			})
		}
	}
}

// TestChildrenInDoubtDoNotCount: a parent may make other children in the place of those that an unknown outcome has
// ended.
func TestChildrenInDoubtDoNotCount(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{SettleGrace: time.Second, SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: time.Minute}})
		var made []string
		for range 100 {
			made = append(made, k.must(t, "a", spawn))
		}
		before := k.StateMemory()
		ops := []kidOp{kidAdd(1)}
		for _, id := range made[:50] {
			ops = append(ops, kidCall(id, kidAdd(1)))
		}
		k.store.plan("commit", "lost")
		k.store.plan("settle", slices.Repeat([]string{"unavailable"}, 1000)...)
		_, err := k.do(t.Context(), "a", ops...)
		wantCondition(t, err, actor.ErrAmbiguous)
		k.store.mu.Lock()
		k.store.faults = map[string][]string{}
		k.store.mu.Unlock()
		k.want(t, "(passed_away)", "a", kidCall(made[0], kidLook))
		if _, err := k.do(t.Context(), "a", spawn); err != nil {
			t.Errorf("%v, with %d bytes, and %d before", err, k.StateMemory(), before)
		}
	})
}

// TestChildrenOfAParentPlacedAny: a parent whose type is placed any by now has the children that it had, and leaves none
// when it is deleted or passes away, with the lock of its row.
func TestChildrenOfAParentPlacedAny(t *testing.T) {
	for how, end := range map[string]func(t *testing.T, k *kids) error{
		"deleted":     func(t *testing.T, k *kids) error { return k.Delete(t.Context(), key("a")) },
		"passed away": func(t *testing.T, k *kids) error { _, err := k.call(t.Context(), "a", "Pass"); return err },
	} {
		for _, fault := range []string{"", "applied", "never known"} {
			t.Run(how+" "+fault, func(t *testing.T) {
				eachMailbox(t, func(t *testing.T, spawn kidOp) {
					k := newKids(t, host.Config{SettleGrace: time.Second})
					k.must(t, "a", kidAdd(1))
					one := k.must(t, "a", spawn)
					parent := k.actor()
					parent.Placement = abi.PlacementAny
					parent.Methods["Pass"] = func(t *hosttest.Turn) error { return t.PassAway() }
					k.world.Deploy("app", "T", parent)
					k.want(t, "(2)", "a", kidCall(one, kidAdd(2)))
					switch fault {
					case "applied":
						k.store.plan("commit", fault)
					case "never known":
						k.store.plan("commit", "applied")
						k.store.plan("settle", slices.Repeat([]string{"unavailable"}, 1000)...)
					}
					if err := end(t, k); fault == "never known" {
						wantCondition(t, err, actor.ErrAmbiguous)
					} else if err != nil {
						t.Fatal(err)
					}
					k.store.mu.Lock()
					k.store.faults = map[string][]string{}
					k.store.mu.Unlock()
					k.want(t, "0 (passed_away)", "a", kidLook, kidCall(one, kidLook))
				})
			})
		}
	}
}

// TestIDsThatNoChildHas: an ID that a guest has made up of that of a child, with what no ID has, is not taken for a message,
// which would have logs and callers show it.
func TestIDsThatNoChildHas(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{})
		one := k.must(t, "a", spawn)
		family, _, _ := strings.Cut(one, ".")
		for _, end := range []string{".\x1b[2J", ".\n", ".x\x00", ".ä", ".A", "." + strings.Repeat("a", 64)} {
			for _, op := range []kidOp{kidTell(family+end, kidNote), {Do: "must", To: one, Ops: []kidOp{kidTell(family+end, kidNote)}}} {
				if _, err := k.do(t.Context(), "a", op); err == nil {
					t.Errorf("a message to %q was taken", end)
				}
			}
			k.want(t, "(passed_away)", "a", kidCall(family+end, kidLook))
		}
		k.wantNoted(t, "")
		k.must(t, "a", kidTell(family+".x", kidNote)) // which a child may have that is not there yet
		k.wantNoted(t, "a undelivered passed_away")
	})
}

// TestManyParents: families come and go with their parents, and leave nothing.
func TestManyParents(t *testing.T) {
	eachMailbox(t, func(t *testing.T, spawn kidOp) {
		k := newKids(t, host.Config{MaxActivations: 40, SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: time.Minute}})
		for i := range 300 {
			id := fmt.Sprint("p", i)
			one := k.must(t, id, spawn)
			_, _ = k.do(t.Context(), id, kidTell(one, kidAdd(1)), kidCall(one, kidAdd(2))) // it may have left
			if i%3 == 0 {
				k.must(t, id, kidPass)
			}
			if _, err := k.do(t.Context(), id, spawn, kidFail); err == nil {
				t.Fatal("it did not fail")
			}
		}
		synctest.Wait()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := k.StateMemory(); n != 0 {
			t.Errorf("%d bytes are counted when no actor is in memory", n)
		}
	})
}

// TestChildrenAndTheirParentAgree: a parent and each of its children count the calls between them, and agree as long as
// the child lives, while commits fail or have unknown outcomes and parents are evicted, lost, deleted and handed over.
func TestChildrenAndTheirParentAgree(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		t.Run(fmt.Sprint("cluster ", cluster), func(t *testing.T) {
			cfg := host.Config{MaxActivations: 7, SettleGrace: 3 * time.Millisecond}
			if cluster {
				cfg.Committer, cfg.Ownership = sharedFake(), hosttest.NewHoldings(actor.HeldClean)
			}
			k := newKids(t, cfg)
			agreement(k)
			const callers = 4
			turns := 400
			if testing.Short() {
				turns = 100
			}
			var mu sync.Mutex
			seen := map[string]int{}
			var wait sync.WaitGroup
			for caller := range callers {
				wait.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(caller), rand.Uint64()))
					ids := map[string]string{}
					for range turns {
						parent := fmt.Sprint("p", rng.IntN(3))
						switch n := rng.IntN(40); {
						case n < 4:
							k.store.plan("commit", []string{"lost", "applied", "unavailable", "overtaken"}[n])
						case n == 4:
							k.store.plan("commit", []string{"lost", "applied"}[rng.IntN(2)])
							k.store.plan("settle", "unavailable", "unavailable", "unavailable", "unavailable", "unavailable")
						case n == 5 && cluster:
							k.DropAll()
						case n == 6 && cluster:
							_ = k.HandOver(t.Context(), func(key actor.Key) bool { return key.ID == parent })
						case n == 7:
							_ = k.Delete(t.Context(), key(parent))
						case n == 8:
							_, _ = k.call(t.Context(), parent, "Pass")
						case n == 9:
							_, _ = k.call(t.Context(), fmt.Sprint("other", rng.IntN(20)), "Step")
						}
						r, err := k.Invoke(t.Context(), actor.Invocation{Key: key(parent), Method: "Step", Payload: actor.Payload{Data: []byte(ids[parent])}})
						reply := string(r.Payload.Data)
						if err != nil { // ids name children that are gone, or are there still
							continue
						}
						kind, id, _ := strings.Cut(reply, " ")
						mu.Lock()
						seen[kind]++
						mu.Unlock()
						switch kind {
						case "new":
							ids[parent] = id
						case "bad":
							t.Error(reply)
						}
					}
				})
			}
			wait.Wait()
			if seen["ok"] == 0 || seen["new"] == 0 {
				t.Errorf("too little has happened: %v", seen)
			}
		})
	}
}

// agreement deploys parents and children that count together.
func agreement(k *kids) {
	k.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
		"Pass": func(t *hosttest.Turn) error { return t.PassAway() },
		// Step counts with the child that is named, or makes one.
		"Step": func(t *hosttest.Turn) error {
			id := string(t.Frame.Payload)
			bad, err := t.Number("bad")
			if err != nil {
				return err
			}
			if bad > 0 {
				return t.Reply("bad: a child has found so")
			}
			n, err := t.Add("n", 1)
			if err != nil {
				return err
			}
			if id != "" {
				mine, err := t.Add(id[1:], 1)
				if err != nil {
					return err
				}
				reply, err := t.Call("Kid", id, "Step", fmt.Sprint(mine))
				var failed *actor.GuestError
				switch {
				case errors.As(err, &failed) && failed.Code == abi.CallPassedAway: // another one follows it
				case err != nil:
					return err
				case reply != fmt.Sprint(mine):
					return t.Reply(fmt.Sprintf("bad %d, the child has %s", mine, reply))
				default:
					err = t.Send(&abi.Message{Type: "Kid", ID: id, Method: "Back", Flags: abi.MessageVolatile})
					return errors.Join(err, t.Reply("ok"))
				}
			}
			id, err = t.SpawnChild("Kid", uint32(n)%2*abi.ChildShared)
			if err != nil {
				return err
			}
			if err = t.Send(&abi.Message{Type: "Kid", ID: id, Method: "Back", Flags: abi.MessageVolatile}); err != nil {
				return err
			}
			return t.Reply("new " + id)
		},
		"Count": func(t *hosttest.Turn) error {
			n, err := t.Add(t.Frame.CallerID[1:], 1)
			if err == nil && string(t.Frame.Payload) != fmt.Sprint(n) {
				_, err = t.Add("bad", 1)
			}
			return errors.Join(err, t.ReplyNumber(n))
		},
	}})
	k.world.Deploy("app", "Kid", hosttest.Actor{Methods: map[string]hosttest.Func{
		"Step": func(t *hosttest.Turn) error {
			n, err := t.Add("n", 1)
			return errors.Join(err, t.ReplyNumber(n))
		},
		// Back has the parent count what the child does on its own.
		"Back": func(t *hosttest.Turn) error {
			n, err := t.Add("n", 1)
			if err != nil {
				return err
			}
			_, err = t.Call(t.Frame.CallerType, t.Frame.CallerID, "Count", fmt.Sprint(n))
			return err
		},
	}})
}

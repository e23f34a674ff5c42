package host_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

// kidsOf are two hosts with children, of which the first one has the actor a.
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
// its new host, which is not its parent.
func TestChildNeverCallsAMovedParent(t *testing.T) {
	for method, want := range map[string]string{"call": "kid goes on, said", "read": "kid goes on"} { // which it fails with
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

// TestChildrenOfParentsInDoubt: when the outcome of the commit is never known with which a parent is deleted or passes
// away, its children are gone: it may be another life that would have them.
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

// TestChildrenInDoubtDoNotCount: children that are gone since the outcome of a commit is not known make room for others.
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

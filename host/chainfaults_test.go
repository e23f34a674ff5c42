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

// A keyed call is repeated whose method changes another actor and then sends a request: the record
// is found before that, and what the turn has changed until then is nothing.
func TestRecordedChainChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &asked{}
		s := newChainStage(t, host.Config{Egress: out})
		a := scriptedActor()
		a.Methods["CallThenSend"] = func(t *hosttest.Turn) error {
			reply, err := t.Call("T", "b", "Do", script(op{Do: "add", N: 1}))
			t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/"})
			return errors.Join(err, t.Reply(reply))
		}
		s.world.Deploy("app", "T", a)
		for range 2 {
			r, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "CallThenSend", IdempotencyKey: "k"})
			if err != nil || string(r.Payload.Data) != "1" {
				t.Errorf("%q, %v", r.Payload.Data, err)
			}
		}
		s.wantNumbers(t, map[string]int64{"b": 1})
	})
}

// The answer of a call that is no part of a chain rests on no actor of the chain that happens to
// run when its commit has landed.
func TestAnswersRestOnNoChainThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeStore()
		fake.shared = true
		s := newStage(t, host.Config{Committer: fake})
		s.store = fake
		g := newGate()
		a := scriptedActor()
		a.Methods["Add"] = add
		a.Methods["Fail"] = func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") }
		a.Methods["Gate"] = func(t *hosttest.Turn) error { return g.wait(t) }
		a.Methods["Chain"] = func(t *hosttest.Turn) error {
			_, err := t.Call("T", "b", "Gate", "")
			return err
		}
		s.world.Deploy("app", "T", a)
		hold := make(chan struct{})
		fake.setHold(hold)
		first := s.start(t.Context(), "a", "Add")
		synctest.Wait()
		time.Sleep(time.Millisecond)
		fails := s.start(t.Context(), "a", "Fail") // rests on the commit of first, and then on a check
		synctest.Wait()
		other := s.start(t.Context(), "b", "Add") // b has a commit under way
		synctest.Wait()
		chain := s.start(t.Context(), "a", "Chain") // holds b, in its turn
		synctest.Wait()
		<-g.entered
		hold <- struct{}{} // the commit of a
		<-first
		synctest.Wait()
		select {
		case got := <-fails:
			t.Log(got.err)
		default:
			t.Error("the failure of a call of a waits for b, which it has nothing to do with")
		}
		fake.setHold(nil)
		close(hold)
		close(g.leave)
		<-other
		t.Log((<-chain).err)
	})
}

// A chain that only reads joins the batches of its actors, as far as one commit takes them.
func TestChainThatReadsJoinsNoMoreThanACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		a := scriptedActor()
		large := strings.Repeat("x", 900<<10)
		a.Methods["Grow"] = func(t *hosttest.Turn) error { return t.Set("large", large) }
		six := func(group string) hosttest.Func {
			return func(t *hosttest.Turn) error {
				for i := range 6 {
					if _, err := t.Call("T", fmt.Sprint(group, i), "Grow", ""); err != nil {
						return err
					}
				}
				return add(t)
			}
		}
		a.Methods["One"], a.Methods["Two"] = six("one"), six("two")
		a.Methods["Both"] = func(t *hosttest.Turn) error {
			for _, id := range []string{"one0", "two0"} {
				if _, err := t.Call("T", id, "Look", ""); err != nil {
					return err
				}
			}
			return nil
		}
		s.world.Deploy("app", "T", a)
		s.store.applying = func(c *actor.Commit) {
			size := 0
			for i := range c.Rows {
				size += len(c.Rows[i].State.Data)
			}
			if size > actor.MaxCommitBytes {
				t.Errorf("a commit of %d rows and %d bytes; at most %d are allowed", len(c.Rows), size, actor.MaxCommitBytes)
			}
		}
		slow := make(chan struct{})
		s.store.setHold(slow)
		var all []<-chan answer
		for _, c := range [][2]string{{"a", "One"}, {"b", "Two"}, {"c", "One"}, {"d", "Two"}, {"e", "Both"}} {
			large += "y"
			all = append(all, s.start(t.Context(), c[0], c[1]))
			synctest.Wait()
		}
		s.store.setHold(nil)
		close(slow)
		for _, c := range all {
			if got := <-c; got.err != nil {
				t.Error(got.err)
			}
		}
	})
}

// A worker that waits for commits before it can go on has the next turn begin after that.
func TestTurnBeginsAfterItsWorkerWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		a := scriptedActor()
		large := strings.Repeat("x", 900<<10)
		a.Methods["Add"] = add
		leave := make(chan struct{})
		a.Methods["Gate"] = func(*hosttest.Turn) error { <-leave; return nil }
		a.Methods["Grow"] = func(t *hosttest.Turn) error { return t.Set("large", large) }
		a.Methods["Nine"] = func(t *hosttest.Turn) error {
			for i := range 9 {
				if _, err := t.Call("T", fmt.Sprint("big", i), "Grow", ""); err != nil {
					return err
				}
			}
			return add(t)
		}
		s.world.Deploy("app", "T", a)
		slow := make(chan struct{})
		s.store.setHold(slow)
		var all []<-chan answer
		for _, c := range [][2]string{{"a", "Nine"}, {"b", "Nine"}, {"big0", "Gate"}, {"big0", "Grow"}, {"big0", "Add"}} {
			large += "y"
			all = append(all, s.start(t.Context(), c[0], c[1]))
			synctest.Wait()
		}
		close(leave)
		synctest.Wait()
		time.Sleep(11 * time.Second) // more than a turn may take; the store is slow
		s.store.setHold(nil)
		close(slow)
		for i, c := range all {
			if got := <-c; got.err != nil {
				t.Error(i, got.err)
			}
		}
	})
}

// What calls of other actors count for in Config.CallMemory is given back where it was taken.
func TestCallsOfChainsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		for i := range 200 {
			if _, err := s.do(t, "a", op{Do: "call", ID: "b", Look: true}); err != nil {
				t.Fatal(i, err)
			}
		}
		if common, app := s.CallsInCommon(), s.CallsOf("app"); common != 0 || app != 0 {
			t.Errorf("an idle host has %d bytes of calls in common, and %d of the app", common, app)
		}
	})
}

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

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// holding deploys actors whose method Hold calls b, waits at the gate, and calls c.
func holding(s *stage, placement string) *gate {
	g := newGate()
	a := scriptedActor()
	a.Placement = placement
	a.Methods["Hold"] = func(t *hosttest.Turn) error {
		if _, err := t.Add("n", 1); err != nil {
			return err
		}
		if _, err := t.Call("T", "b", "Do", script(op{Do: "add", N: 1})); err != nil {
			return err
		}
		if err := g.wait(t); err != nil {
			return err
		}
		_, err := t.Call("T", "c", "Do", script(op{Do: "add", N: 1}))
		return err
	}
	s.world.Deploy("app", "T", a)
	return g
}

// TestChainOfOthersActors: a callee that another host holds is not called, and one that is
// held joins the commit, which settles what earlier owners did.
func TestChainOfOthersActors(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
		for _, hold := range []actor.Hold{actor.Held, actor.HeldClean} {
			synctest.Test(t, func(t *testing.T) {
				holdings := hosttest.NewHoldings(hold)
				holdings.Set(func(k actor.Key) actor.Hold {
					if k.ID == "away" {
						return actor.NotHeld
					}
					return hold
				})
				fake := sharedFake()
				s := newStage(t, host.Config{Committer: fake, Ownership: holdings})
				s.store = fake
				a := scriptedActor()
				a.Placement = placement
				s.world.Deploy("app", "T", a)
				for n := range 2 {
					reply, err := s.do(t, "a", op{Do: "add", N: 1}, op{Do: "call", ID: "away"}, op{Do: "call", ID: "b", Ops: []op{{Do: "add", N: 1}}}, op{Do: "call", ID: "c", Look: true})
					if err != nil || reply != fmt.Sprintf("%d (not_atomic) (%d) (0)", n+1, n+1) {
						t.Fatalf("%q, %v", reply, err)
					}
				}
				s.wantNumbers(t, map[string]int64{"a": 2, "b": 2})
			})
		}
	}
}

// TestChainEndsWithItsHost: a chain whose host stops, or whose caller leaves, and one whose
// callee moves, ends without a trace if it is not sealed; nothing of it stays behind.
func TestChainEndsWithItsHost(t *testing.T) {
	t.Run("caller leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newChainStage(t, host.Config{})
			holding(s, "")
			ctx, cancel := context.WithCancel(t.Context())
			held := s.start(ctx, "a", "Hold")
			synctest.Wait()
			cancel()
			if got := <-held; !errors.Is(got.err, actor.ErrCanceled) {
				t.Error(got.err)
			}
			if reply, err := s.do(t, "b", op{Do: "add", N: 1}); err != nil || reply != "1" {
				t.Errorf("%q, %v", reply, err)
			}
			s.wantNumbers(t, map[string]int64{"a": 0, "b": 1})
		})
	})
	t.Run("caller leaves while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newChainStage(t, host.Config{})
			g := holding(s, "")
			held := s.start(t.Context(), "a", "Hold")
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Invoke(ctx, actor.Invocation{Key: key("x"), Method: "Do", Payload: actor.Payload{Data: []byte(script(op{Do: "add", N: 1}, op{Do: "call", ID: "b"}))}})
			wantCondition(t, err, actor.ErrDeadline)
			close(g.leave)
			if got := <-held; got.err != nil {
				t.Error(got.err)
			}
			s.wantNumbers(t, map[string]int64{"a": 1, "b": 1, "c": 1, "x": 0})
		})
	})
	t.Run("host stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newChainStage(t, host.Config{})
			g := holding(s, "")
			held := s.start(t.Context(), "a", "Hold")
			synctest.Wait()
			stopped := make(chan error, 1)
			go func() { stopped <- s.Stop(context.Background()) }()
			synctest.Wait()
			close(g.leave) // and it needs one more actor
			got := <-held
			wantCondition(t, got.err, actor.ErrStopping)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			s.wantNumbers(t, map[string]int64{"a": 0, "b": 0})
		})
	})
	t.Run("host is killed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newChainStage(t, host.Config{})
			holding(s, "")
			held := s.start(t.Context(), "a", "Hold")
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Stop(ctx); err == nil {
				t.Error("no error")
			}
			got := <-held
			wantCondition(t, got.err, actor.ErrStopping)
			s.wantNumbers(t, map[string]int64{"a": 0, "b": 0})
		})
	})
	for _, tt := range []struct {
		name        string
		lost, stays bool // whether the caller stays
	}{
		{"callee moves", false, true}, {"all move", false, false}, {"all are lost", true, false},
	} {
		lost := tt.lost
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holdings := hosttest.NewHoldings(actor.HeldClean)
				fake := sharedFake()
				s := newStage(t, host.Config{Committer: fake, Ownership: holdings})
				s.store = fake
				g := holding(s, "")
				held := s.start(t.Context(), "a", "Hold")
				synctest.Wait()
				waits := s.start(t.Context(), "b", "Look")
				synctest.Wait()
				holdings.Set(func(k actor.Key) actor.Hold {
					if tt.stays && k.ID == "a" {
						return actor.HeldClean
					}
					return actor.NotHeld
				})
				moved := make(chan error, 1)
				if lost {
					s.DropAll()
				} else {
					go func() {
						moved <- s.HandOver(t.Context(), func(k actor.Key) bool { return k.ID == "b" })
					}()
				}
				synctest.Wait()
				<-waits
				close(g.leave)
				var guest *actor.GuestError
				got := <-held // c is not held any more
				if refused := errors.As(got.err, &guest) && guest.Code == abi.CallNotAtomic; refused != tt.stays || !refused && !errors.Is(got.err, actor.ErrNotOwner) {
					t.Error(got.err)
				}
				if !lost {
					if err := <-moved; err != nil {
						t.Error(err)
					}
				}
				s.wantNumbers(t, map[string]int64{"a": 0, "b": 0, "c": 0})
			})
		})
	}
}

// TestChainSends: a request of any turn in a chain leaves when all that the chain has seen is
// durable, and a chain that has sent one is not run again.
func TestChainSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &asked{}
		s := newChainStage(t, host.Config{Egress: out})
		slow := make(chan struct{})
		a := scriptedActor()
		send := func(t *hosttest.Turn) error {
			n, err := t.Number("n")
			t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/", Body: []byte(fmt.Sprint(n))})
			return errors.Join(err, add(t))
		}
		a.Methods["Send"] = send
		a.Methods["CallSend"] = func(t *hosttest.Turn) error {
			if _, err := t.Call("T", "seen", "Look", ""); err != nil {
				return err
			}
			reply, err := t.Call("T", "b", "Send", "")
			return errors.Join(err, t.Reply(reply))
		}
		s.world.Deploy("app", "T", a)
		s.store.setHold(slow)
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			if _, err := s.do(t, "seen", op{Do: "add", N: 1}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		sends := s.start(t.Context(), "a", "CallSend")
		synctest.Wait()
		if len(out.bodies) != 0 {
			t.Error("a request left before what the chain has seen was durable")
		}
		slow <- struct{}{}
		<-seen
		synctest.Wait()
		if len(out.bodies) != 1 {
			t.Error("no request left")
		}
		s.store.setHold(nil)
		slow <- struct{}{}
		if got := <-sends; got.err != nil || got.reply != "1" {
			t.Errorf("%+v", got)
		}

		s.store.write(key("b"), func(*actor.Row) {})
		_, err := s.call(t.Context(), "a", "CallSend")
		wantCondition(t, err, actor.ErrLeft)
		if len(out.bodies) != 2 {
			t.Errorf("%d requests", len(out.bodies))
		}
	})
}

// TestRequestOfAChainThatCannotGoOn: a chain sends a request, and then cannot have another actor as it is:
// a commit of an earlier owner lands before the fence. The chain does not send the request again, unless
// it has an idempotency key.
func TestRequestOfAChainThatCannotGoOn(t *testing.T) {
	for _, idem := range []string{"", "k"} {
		synctest.Test(t, func(t *testing.T) {
			out := &asked{}
			o := newOwned(t, abi.PlacementSticky, actor.Held, host.Config{Egress: out})
			a := o.actor(abi.PlacementSticky)
			hold := make(chan struct{})
			a.Methods["SendCall"] = func(t *hosttest.Turn) error {
				t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/"})
				if len(out.bodies) == 1 {
					o.store.setHold(hold)
				}
				_, err := t.Call("T", "b", "Add", "")
				return err
			}
			o.world.Deploy("app", "T", a)
			o.store.write(key("b"), setTo(1))
			late := actor.CommitOf(actor.RowWrite{
				Key: key("b"), ReadVersion: 1, NewVersion: 2, Generation: 1,
				State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":100}`)},
			})
			ended := make(chan error)
			go func() {
				_, err := o.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "SendCall", IdempotencyKey: idem})
				ended <- err
			}()
			synctest.Wait() // for the fence of b
			if err := o.store.applyNow(late); err != nil {
				t.Fatal(err)
			}
			o.store.setHold(nil)
			close(hold)
			requests, n := 1, "100"
			if err := <-ended; idem != "" {
				requests, n = 2, "101"
				if err != nil {
					t.Error(err)
				}
			} else {
				wantCondition(t, err, actor.ErrLeft)
			}
			if len(out.bodies) != requests {
				t.Errorf("key %q: %d requests", idem, len(out.bodies))
			}
			o.must(t, "b", "View", n)
		})
	}
}

// TestRevisionAfterACallThatFailed: what a guest has cached of a called turn that failed does not look
// current to the next turn of the actor in the chain.
func TestRevisionAfterACallThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		a := scriptedActor()
		var revisions []uint64
		a.Methods["Fail"] = func(t *hosttest.Turn) error {
			revisions = append(revisions, t.Frame.Revision)
			return errors.Join(t.Set("n", "1"), hosttest.Fail("on_purpose"))
		}
		a.Methods["Calls"] = func(t *hosttest.Turn) error {
			for range 3 {
				if _, err := t.Call("T", "b", "Fail", ""); codeOf(err) != "on_purpose" {
					return err
				}
			}
			return nil
		}
		s.world.Deploy("app", "T", a)
		if _, err := s.call(t.Context(), "a", "Calls"); err != nil {
			t.Fatal(err)
		}
		slices.Sort(revisions)
		if len(slices.Compact(revisions)) != 3 {
			t.Errorf("revisions %d", revisions)
		}
	})
}

// TestTakingBackATurnChangesNoOther: a turn is taken back long after one that it called, and that others of
// the chain had changed, has ended. The memory of that one is another turn's by then.
func TestTakingBackATurnChangesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		first, others := newGate(), newGate()
		a := scriptedActor()
		a.Methods["Do"] = func(t *hosttest.Turn) error {
			switch t.Frame.ID[0] {
			case '1':
				return first.wait(t)
			case '2':
				return others.wait(t)
			}
			return scripted(t)
		}
		s.world.Deploy("app", "T", a)
		var ended []<-chan answer
		do := func(id string, ops ...op) {
			c := make(chan answer, 1)
			go func() {
				reply, err := s.do(t, id, ops...)
				c <- answer{reply, err}
			}()
			ended = append(ended, c)
		}
		again := op{Do: "call", ID: "b", Again: true, Ops: []op{{Do: "add", N: 50}}}
		do("o", op{Do: "call", ID: "a", Ops: []op{{Do: "call", ID: "b", Ops: []op{{Do: "call", ID: "c", Ops: []op{again}}}}, {Do: "call", ID: "1"}, {Do: "fail"}}})
		<-first.entered
		want := map[string]int64{"a": 0, "b": 0}
		for i := range 4 {
			do(fmt.Sprint("z", i), op{Do: "add", N: 7}, op{Do: "call", ID: fmt.Sprint("2", i)})
			<-others.entered
			want[fmt.Sprint("z", i)] = 7
		}
		close(first.leave)
		<-ended[0]
		close(others.leave)
		for _, c := range ended[1:] {
			if got := <-c; got.err != nil {
				t.Error(got.err)
			}
		}
		s.wantNumbers(t, want)
	})
}

// TestChainsGiveBackWhatCallsCount: calls of an actor in chains count in its share of Config.CallMemory, and
// in the whole, until their chains have ended.
func TestChainsGiveBackWhatCallsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{CallMemory: 1 << 20, Limits: host.Limits{PayloadBytes: 64 << 10}})
		for range 100 { // 128 KiB are for one actor
			if reply, err := s.do(t, "a", op{Do: "must", ID: "b", Ops: []op{{Do: "add", N: 1}}}); err != nil {
				t.Fatalf("%q, %v", reply, err)
			}
		}
		if n := s.CallMemory(); n != 0 {
			t.Errorf("%d bytes count for calls that have ended", n)
		}
	})
}

// TestChainTooLarge: what a chain changes is within one commit, and so is what several chains
// that share one change together.
func TestChainTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainStage(t, host.Config{})
		a := scriptedActor()
		large := strings.Repeat("x", 900<<10)
		a.Methods["Grow"] = func(t *hosttest.Turn) error { return t.Set("large", large) }
		growing := func(n int) hosttest.Func {
			return func(t *hosttest.Turn) error {
				for i := range n {
					if _, err := t.Call("T", fmt.Sprint("big", i), "Grow", ""); err != nil {
						return err
					}
				}
				return add(t)
			}
		}
		a.Methods["Ten"], a.Methods["Six"] = growing(10), growing(6)
		a.Methods["Other"] = func(t *hosttest.Turn) error {
			if _, err := t.Call("T", "big0", "Look", ""); err != nil {
				return err
			}
			for i := range 6 {
				if _, err := t.Call("T", fmt.Sprint("other", i), "Grow", ""); err != nil {
					return err
				}
			}
			return nil
		}
		s.world.Deploy("app", "T", a)
		var sizes []int
		s.store.applying = func(c *actor.Commit) {
			size := 0
			for i := range c.Rows {
				size += len(c.Rows[i].State.Data)
			}
			sizes = append(sizes, size)
		}
		_, err := s.call(t.Context(), "a", "Ten")
		wantCondition(t, err, actor.ErrChainTooLarge)
		if len(sizes) != 0 {
			t.Error("something was committed")
		}
		large += "y"
		slow := make(chan struct{})
		s.store.setHold(slow)
		first := s.start(t.Context(), "a", "Six") // under way
		synctest.Wait()
		large += "y"
		second := s.start(t.Context(), "b", "Six") // pending behind it
		synctest.Wait()
		third := s.start(t.Context(), "c", "Other")
		synctest.Wait()
		s.store.setHold(nil)
		close(slow)
		for _, c := range []<-chan answer{first, second, third} {
			if got := <-c; got.err != nil {
				t.Error(got.err)
			}
		}
		for _, size := range sizes {
			if size > actor.MaxCommitBytes {
				t.Errorf("a commit of %d bytes", size)
			}
		}
	})
}

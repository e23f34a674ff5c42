package host_test

import (
	"context"
	"fmt"
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

const shared = abi.PlacementRing + ":2"

// newReader is a stage of a host that holds nothing and is a reader of everything.
func newReader(t *testing.T, cfg host.Config) *owned {
	o := newOwned(t, shared, actor.NotHeld, cfg)
	o.holdings.Read(true)
	return o
}

// TestReaderReads: a reader answers read-only methods, each time with what was the newest
// after it was asked, and nothing else; what it keeps is no activation.
func TestReaderReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []host.TurnEnd
		var mu sync.Mutex
		o := newReader(t, host.Config{Observers: []host.Events{{
			TurnEnd: func(e host.TurnEnd) {
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, e)
			},
			Activated: func(key actor.Key) { t.Errorf("%v was activated", key) },
		}}})
		o.store.write(key("a"), setTo(5))
		o.must(t, "a", "View", "5")
		time.Sleep(time.Millisecond)
		o.store.takeLoads()
		o.must(t, "a", "View", "5")
		if loads, asked := o.store.takeLoads(), o.store.takeVersions(); loads != 0 || asked != 1 {
			t.Errorf("what has not changed: %d loads, %d questions; want 0 and 1", loads, asked)
		}
		time.Sleep(time.Millisecond) // far below actor.MaxReadAge
		o.store.write(key("a"), setTo(6))
		o.must(t, "a", "View", "6")
		if ends[0].Lane != host.LaneCopy || ends[0].Lane.String() != "copy" {
			t.Errorf("the lane is %v", ends[0].Lane)
		}
		version := o.store.row(key("a")).Version
		for _, inv := range []actor.Invocation{
			{Method: "Add"}, {Method: "Touch"}, {Method: "Add", IdempotencyKey: "K"}, {Method: "View", Consistency: actor.ConsistencyStrong},
		} {
			inv.Key = key("a")
			_, err := o.Invoke(t.Context(), inv)
			wantCondition(t, err, actor.ErrNotOwner)
		}
		wantCondition(t, o.Delete(t.Context(), key("a")), actor.ErrNotOwner)
		o.world.Deploy("app", "T", hosttest.Actor{Placement: shared, ReadOnly: map[string]hosttest.Func{"View": view, "Change": add}})
		if reply, err := o.call(t.Context(), "a", "Change"); err == nil {
			t.Errorf("a read-only method changed its actor and answered %q", reply)
		}
		o.must(t, "b", "View", "0") // there is none
		if got := o.store.row(key("a")).Version; got != version {
			t.Errorf("the version went from %d to %d", version, got)
		}

		refused := func() {
			t.Helper()
			_, err := o.call(t.Context(), "a", "View")
			wantCondition(t, err, actor.ErrNotOwner)
		}
		o.holdings.Pause()
		refused()
		o.holdings.Resume()
		o.must(t, "a", "View", "6")
		o.world.Deploy("app", "T", o.actor(abi.PlacementRing)) // it knows that the type is not shared any more
		refused()
		o.world.Deploy("app", "T", o.actor(shared))
		o.holdings.Read(false)
		refused()
	})
}

// TestReadersShareOneQuestion: calls that come together ask the store once; one that comes
// while the question is under way asks anew, since it may have been told of a change.
func TestReadersShareOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowAnswers{fakeStore: sharedFake()}
		o := newReader(t, host.Config{Committer: store})
		var together []<-chan answer
		for range 50 {
			together = append(together, o.start(t.Context(), "a", "View"))
		}
		for _, c := range together {
			if a := <-c; a.reply != "0" || a.err != nil {
				t.Errorf("%+v", a)
			}
		}
		if loads := store.takeLoads(); loads != 1 {
			t.Errorf("50 calls at once: %d loads", loads)
		}
		read, wait := store.next()
		early := o.start(t.Context(), "b", "View")
		<-read
		store.write(key("b"), setTo(7))
		time.Sleep(time.Millisecond)
		late := o.start(t.Context(), "b", "View")
		synctest.Wait()
		close(wait)
		if a := <-early; a.reply != "0" || a.err != nil {
			t.Errorf("a call that came before the change: %+v", a)
		}
		if a := <-late; a.reply != "7" || a.err != nil {
			t.Errorf("a call that came after the change: %+v", a)
		}
		// A caller that gives up does not end what others wait for.
		time.Sleep(time.Millisecond)
		store.write(key("b"), setTo(8))
		read, wait = store.next()
		ctx, cancel := context.WithCancel(t.Context())
		gone := o.start(ctx, "b", "View")
		<-read
		stays := o.start(t.Context(), "b", "View")
		cancel()
		a := <-gone
		wantCondition(t, a.err, actor.ErrCanceled)
		close(wait)
		if a := <-stays; a.reply != "8" || a.err != nil {
			t.Errorf("after another caller gave up: %+v", a)
		}
	})
}

// lateAcks is a store that, once, tells of a commit that was applied only when the test
// says so.
type lateAcks struct {
	*fakeStore
	mu      sync.Mutex
	applied chan struct{}
	ack     chan struct{}
}

func (s *lateAcks) Commit(ctx context.Context, commits []actor.Commit) []error {
	errs := s.fakeStore.Commit(ctx, commits)
	s.mu.Lock()
	applied, ack := s.applied, s.ack
	s.applied, s.ack = nil, nil
	s.mu.Unlock()
	if applied != nil {
		close(applied)
		<-ack
	}
	return errs
}

// TestHolderIsNotOlderThanReaders: what a reader was shown by the store the holder does not
// answer older, though it has not heard yet that its commit was applied. When nothing is
// under way it asks for nothing.
func TestHolderIsNotOlderThanReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateAcks{fakeStore: sharedFake()}
		o := newOwned(t, shared, actor.HeldClean, host.Config{Committer: store})
		reader := newReader(t, host.Config{Committer: store.fakeStore})
		o.must(t, "a", "Add", "1")
		time.Sleep(time.Millisecond)
		o.must(t, "a", "View", "1")
		if asked := store.takeVersions(); asked != 0 {
			t.Errorf("an idle actor: the store was asked %d times", asked)
		}
		store.mu.Lock()
		store.applied, store.ack = make(chan struct{}), make(chan struct{})
		applied, ack := store.applied, store.ack
		store.mu.Unlock()
		adding := o.start(t.Context(), "a", "Add")
		<-applied
		time.Sleep(time.Millisecond)
		reader.must(t, "a", "View", "2")
		time.Sleep(time.Millisecond)
		o.must(t, "a", "View", "2")
		// The type is not shared any more, and a reader may not have heard of it.
		o.world.Deploy("app", "T", o.actor(abi.PlacementRing))
		o.must(t, "a", "View", "2")
		close(ack)
		if a := <-adding; a.reply != "2" || a.err != nil {
			t.Errorf("the turn: %+v", a)
		}
		o.must(t, "a", "View", "2")
	})
}

// TestStaleReadIsNotOlderThanACopy: when nobody holds the actor any more, a read that may be
// stale is no older than what this host has answered from a copy.
func TestStaleReadIsNotOlderThanACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &pastReads{fakeStore: sharedFake()}
		o := newReader(t, host.Config{Committer: store})
		store.write(key("a"), setTo(5))
		store.past = store.row(key("a"))
		store.write(key("a"), setTo(6))
		o.must(t, "a", "View", "6")
		o.world.Deploy("app", "T", o.actor(abi.PlacementAny))
		o.holdings.Set(func(actor.Key) actor.Hold { return actor.Held })
		o.must(t, "a", "View", "6")
	})
}

// TestUncleanHolderIsNotOlderThanReaders: nor does a holder for whose actor a commit of an
// earlier one may still land, however shortly ago it has asked the store.
func TestUncleanHolderIsNotOlderThanReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, shared, actor.Held, host.Config{})
		o.store.write(key("a"), setTo(1))
		for n := 1; n <= 3; n++ {
			o.store.write(key("a"), setTo(n)) // and readers see it
			time.Sleep(time.Millisecond)
			for _, method := range []string{"View", "Touch"} {
				o.must(t, "a", method, fmt.Sprint(n))
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// TestCopiesGoFirst: where there is too little memory for all states, copies are dropped
// before any activation is, and copies of actors that the host is no reader of any more
// are gone at the next sweep.
func TestCopiesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget, held, copied = 256 << 10, 8, 40
		o := newOwned(t, shared, actor.NotHeld, host.Config{
			CallMemory: 128 << 10, StateMemory: budget, SweepEvery: time.Second,
			Limits: host.Limits{PayloadBytes: 8 << 10, StateBytes: 16 << 10, IdleTimeout: time.Hour},
			Observers: []host.Events{{Deactivated: func(d host.Deactivation) {
				if d.Reason == host.DeactivatePressure {
					t.Errorf("%v left memory", d.Key)
				}
			}}},
		})
		o.holdings.Set(func(key actor.Key) actor.Hold {
			if key.ID[0] == 'h' {
				return actor.HeldClean
			}
			return actor.NotHeld
		})
		o.holdings.Read(true)
		large := fmt.Appendf(nil, `{"n":1,"large":%q}`, strings.Repeat("x", 8<<10))
		read := func(kind string, n int) {
			for i := range n {
				id := fmt.Sprint(kind, i)
				o.store.write(key(id), func(row *actor.Row) {
					row.Generation, row.State = 1, actor.EncodedState{Format: actor.FormatJSON, Data: large}
				})
				o.must(t, id, "View", "1")
			}
		}
		read("h", held)
		before := o.StateMemory()
		read("c", copied)
		synctest.Wait() // a copy that was read makes room after its reader has gone on
		if used := o.StateMemory(); used > budget || used <= before {
			t.Errorf("%d bytes are in use, %d before there were copies; at most %d", used, before, budget)
		}
		o.store.takeLoads()
		for i := range held {
			o.must(t, fmt.Sprint("h", i), "View", "1")
		}
		if loads := o.store.takeLoads(); loads != 0 {
			t.Errorf("%d of %d actors that are held were loaded again", loads, held)
		}
		o.holdings.Read(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if used := o.StateMemory(); used != before {
			t.Errorf("%d bytes are in use after the copies have gone, %d before there were any", used, before)
		}
	})
}

// TestReaderCallsNobody: a read-only method that calls others is for the holder of its actor, which
// knows what was so at one moment.
func TestReaderCallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newReader(t, host.Config{})
		o.store.write(key("a"), setTo(5))
		o.world.Deploy("app", "T", hosttest.Actor{Placement: shared, ReadOnly: map[string]hosttest.Func{
			"View": func(t *hosttest.Turn) error { return t.Reply("5") },
			"Ask": func(t *hosttest.Turn) error {
				_, err := t.Call("T", "b", "View", "")
				return err
			},
		}})
		o.must(t, "a", "View", "5")
		_, err := o.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Ask"})
		wantCondition(t, err, actor.ErrNotOwner)
	})
}

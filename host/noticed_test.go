package host_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestGivenUpCallsLeaveRoom: calls that are given up while they wait take nothing of
// what the calls of their actor may have.
func TestGivenUpCallsLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small(t) // an actor's calls may have 16 KiB
		release := make(chan struct{})
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Wait": func(turn *hosttest.Turn) error { <-release; return turn.ReplyNumber(0) },
			"Add":  add,
		}})
		first := s.start(t.Context(), "hot", "Wait")
		synctest.Wait()
		send := func(ctx context.Context) error {
			_, err := s.Invoke(ctx, actor.Invocation{Key: key("hot"), Method: "Add", Payload: actor.Payload{Data: bytes.Repeat([]byte("x"), 8<<10)}})
			return err
		}
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			wantCondition(t, send(ctx), actor.ErrDeadline)
			cancel()
		}
		last := make(chan error, 1)
		go func() { last <- send(t.Context()) }()
		synctest.Wait()
		close(release)
		if err := <-last; err != nil {
			t.Errorf("after calls that were given up: %v", err)
		}
		<-first
	})
}

// TestReadersKeepAnActorInMemory: an actor that is read is not idle.
func TestReadersKeepAnActorInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var gone []host.DeactivateReason
		s := newStage(t, host.Config{
			SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: 3 * time.Second},
			Observers: []host.Events{{Deactivated: func(d host.Deactivation) {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, d.Reason)
			}}},
		})
		left := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(gone)
		}
		s.world.Deploy("app", "T", counted())
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Second)
			if reply, err := s.call(t.Context(), "a", "View"); reply != "1" || err != nil {
				t.Fatal(reply, err)
			}
		}
		if n := left(); n > 0 {
			t.Errorf("it left memory %d times while it was read", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := left(); n != 1 {
			t.Errorf("it left memory %d times after that", n)
		}
	})
}

// TestRowMadeAnew: a row that another host has swept and made anew may have a lower
// version than the one in memory, and is seen all the same.
func TestRowMadeAnew(t *testing.T) {
	for _, method := range []string{"View", "Touch"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFakeStore()
				fake.shared = true
				s := newStage(t, host.Config{Committer: fake})
				s.world.Deploy("app", "T", counted())
				if _, err := s.call(t.Context(), "a", "Add"); err != nil {
					t.Fatal(err)
				}
				fake.write(key("a"), func(row *actor.Row) {
					row.Version -= 5
					row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":7}`)}
				})
				time.Sleep(2 * actor.MaxReadAge)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if reply, err := s.call(ctx, "a", method); reply != "7" || err != nil {
					t.Errorf("got %q, %v", reply, err)
				}
			})
		})
	}
}

// slowVersions is a store of which one question for versions waits for the test, before
// it is asked and before it is answered.
type slowVersions struct {
	*fakeStore
	entered, ask, asked, answer chan struct{} // nil: it waits for nothing
	once                        sync.Once
}

func (s *slowVersions) Versions(ctx context.Context, keys []actor.Key) (versions []actor.RowVersion, err error) {
	first := false
	s.once.Do(func() { first = true })
	if !first {
		return s.fakeStore.Versions(ctx, keys)
	}
	close(s.entered)
	<-s.ask
	versions, err = s.fakeStore.Versions(ctx, keys)
	close(s.asked)
	<-s.answer
	return versions, err
}

// TestLateAnswerAboutAVersion: what a reader is told of the row's version long after
// it asked says nothing against what was committed here meanwhile.
func TestLateAnswerAboutAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowVersions{
			fakeStore: newFakeStore(), entered: make(chan struct{}), ask: make(chan struct{}), asked: make(chan struct{}), answer: make(chan struct{}),
		}
		store.shared = true
		s := newStage(t, host.Config{Committer: store})
		s.world.Deploy("app", "T", counted())
		add := func() {
			t.Helper()
			if _, err := s.call(t.Context(), "a", "Add"); err != nil {
				t.Fatal(err)
			}
		}
		add()
		time.Sleep(2 * actor.MaxReadAge)
		late := s.start(t.Context(), "a", "View")
		<-store.entered
		add()
		close(store.ask)
		<-store.asked
		add()
		store.takeLoads()
		close(store.answer)
		if got := <-late; got.reply != "3" || got.err != nil {
			t.Errorf("the reader got %+v", got)
		}
		add()
		if n := store.takeLoads(); n > 0 {
			t.Errorf("the state of the actor was dropped, and read again %d times", n)
		}
	})
}

// TestStatesUnderWayCount: a state that is on its way to the store counts beside the
// one before it and the one after it, each of them once.
func TestStatesUnderWayCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small(t)
		const large = 8 << 10 // what a state of Grow has
		if _, err := s.call(t.Context(), "a", "Grow"); err != nil {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		s.store.setHold(hold)
		before := s.StateMemory()
		var running []<-chan answer
		begin := func(method, idem string, states int64) {
			t.Helper()
			done := make(chan answer, 1)
			go func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: method, IdempotencyKey: idem})
				done <- answer{err: err}
			}()
			running = append(running, done)
			synctest.Wait()
			// The host grants each its first KiB.
			if grown := s.StateMemory() - before; grown < states*(large-1<<10) || grown > states*large {
				t.Errorf("after %s %d bytes more count, want those of %d states more", method, grown, states)
			}
		}
		begin("Touch", "K", 0) // records its reply, and leaves the state as it is
		begin("Grow", "", 1)
		hold <- struct{}{}
		synctest.Wait()
		begin("Grow", "", 2)
		close(hold)
		for _, r := range running {
			if got := <-r; got.err != nil {
				t.Error(got.err)
			}
		}
		synctest.Wait()
		if more := s.StateMemory() - before; more >= 1<<10 { // the counter's digits are more
			t.Errorf("%d bytes more count afterwards", more)
		}
	})
}

// TestDamagedRowWithoutAVersion: a row that is so damaged that no commit can name it is
// not overwritten by a delete, which would name no row at all.
func TestDamagedRowWithoutAVersion(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		a := counted()
		a.Placement = placement
		s.world.Deploy("app", "T", a)
		s.store.plan("load", "damaged", "damaged")
		s.store.plan("locked", "damaged")
		wantCondition(t, s.Delete(t.Context(), key("a")), actor.ErrStateDamaged)
		if row := s.store.row(key("a")); row.Version != 0 {
			t.Errorf("the row is %+v", row)
		}
	})
}

// TestCallThatChangesLanes: what a call did in the lane that it began in counts for it,
// and what it waits for in the next one is waiting.
func TestCallThatChangesLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ends := map[string]host.TurnEnd{}
		s := newStage(t, host.Config{Observers: []host.Events{{TurnEnd: func(e host.TurnEnd) {
			mu.Lock()
			defer mu.Unlock()
			ends[e.Method] = e
		}}}})
		waits := func(*hosttest.Turn) error { time.Sleep(time.Second); return nil }
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods: map[string]hosttest.Func{"Add": add, "Wait": waits},
			ReadOnly: map[string]hosttest.Func{"View": func(turn *hosttest.Turn) error {
				// Meanwhile it becomes a method like others, and the actor another one.
				s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add, "Wait": waits, "View": view}})
				if _, err := s.call(t.Context(), "a", "Add"); err != nil {
					t.Error(err)
				}
				s.start(t.Context(), "a", "Wait")
				synctest.Wait()
				turn.Calls.Fuel().Used += 7
				return view(turn)
			}},
		})
		r, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "View", Consistency: actor.ConsistencyStrong})
		if string(r.Payload.Data) != "1" || err != nil {
			t.Fatalf("%q, %v", r.Payload.Data, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if end := ends["View"]; end.Lane != host.LaneWarm || end.Runs != 2 || end.Fuel != 7 || end.QueueWait != time.Second {
			t.Errorf("its end was told as %+v, want 2 runs with 7 units of fuel, the last in the warm lane after a second", end)
		}
	})
}

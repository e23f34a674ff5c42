package host_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// refusing is a method that fails, and says which state made it.
func refusing(t *hosttest.Turn) error {
	n, err := t.Number("n")
	if err != nil {
		return err
	}
	return hosttest.Fail(fmt.Sprint("n is ", n))
}

func numbered(n int) func(*actor.Row) {
	return func(row *actor.Row) {
		row.State = actor.EncodedState{Format: actor.FormatJSON, Data: fmt.Appendf(nil, `{"n":%d}`, n)}
	}
}

// TestStrongFailureIsCurrent: what a strong read answers is confirmed also when its
// method fails.
func TestStrongFailureIsCurrent(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		fake := newFakeStore()
		fake.shared = true
		s := newStage(t, host.Config{Committer: fake})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement,
			Methods: map[string]hosttest.Func{"Add": add}, ReadOnly: map[string]hosttest.Func{"Refuse": refusing}})
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		fake.write(key("a"), numbered(7))
		_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Refuse", ReadOnly: true, Consistency: actor.ConsistencyStrong})
		var guest *actor.GuestError
		if !errors.As(err, &guest) || guest.Code != "n is 7" {
			t.Errorf("a strong read fails with %v after another host wrote 7", err)
		}
	})
}

// TestUnfitStateIsCurrent: that a state does not fit the module is not answered of a
// state that another host has replaced.
func TestUnfitStateIsCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeStore()
		fake.shared = true
		s := newStage(t, host.Config{Committer: fake})
		kind := counted()
		kind.StateSchema = 2
		s.world.Deploy("app", "T", kind)
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		kind.StateSchema = 1
		d := s.world.Deploy("app", "T", kind)
		_, err := s.call(t.Context(), "a", "Add")
		wantCondition(t, err, actor.ErrSchemaNewer)
		fake.write(key("a"), func(row *actor.Row) {
			numbered(7)(row)
			row.StateSchema, row.Generation = 1, d.Generation
		})
		time.Sleep(time.Second)
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "8" || err != nil {
			t.Errorf("%q, %v, long after another host wrote what fits", reply, err)
		}
	})
}

// TestReadOfAnotherPlacementIsNoted: what a reader of placement any was answered is
// the least that turns and readers of placement ring are, which came before it.
func TestReadOfAnotherPlacementIsNoted(t *testing.T) {
	for _, consistency := range []actor.Consistency{actor.ConsistencyDefault, actor.ConsistencyStrong} {
		synctest.Test(t, func(t *testing.T) {
			store := &slowAnswers{fakeStore: newFakeStore()}
			store.shared = true
			s := newStage(t, host.Config{Committer: store})
			ring, anywhere := counted(), counted()
			anywhere.Placement = abi.PlacementAny
			store.write(key("a"), numbered(1))
			s.world.Deploy("app", "T", ring)
			read, wait := store.next()
			touch := s.start(t.Context(), "a", "Touch")
			<-read
			store.write(key("a"), numbered(7))
			s.world.Deploy("app", "T", anywhere)
			view := make(chan string)
			go func() {
				r, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "View", Consistency: consistency})
				view <- fmt.Sprint(string(r.Payload.Data), err)
			}()
			synctest.Wait()
			for range 12 { // its load gets a lane of its own in time
				time.Sleep(time.Millisecond)
			}
			if got := <-view; got != "7<nil>" {
				t.Fatal(got)
			}
			s.world.Deploy("app", "T", ring)
			close(wait)
			if got := <-touch; got.reply != "7" || got.err != nil {
				t.Errorf("a turn is answered %+v after a reader was answered 7", got)
			}
			if reply, err := s.call(t.Context(), "a", "View"); reply != "7" || err != nil {
				t.Errorf("a reader is answered %q, %v after one was answered 7", reply, err)
			}
		})
	}
}

// TestStatelessFailureBehindAFence: no run of a call of a stateless type that began
// before its failure was answered is recorded afterwards.
func TestStatelessFailureBehindAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeStore()
		fake.shared = true
		first, second := newStage(t, host.Config{Committer: fake}), newStage(t, host.Config{Committer: fake})
		g := newGate()
		runs := 0
		first.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"Do": func(turn *hosttest.Turn) error {
			runs++
			g.wait(turn)
			return turn.ReplyNumber(int64(runs))
		}}})
		second.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"Do": func(*hosttest.Turn) error {
			return hosttest.Fail("no")
		}}})
		inv := actor.Invocation{Key: key("a"), Method: "Do", IdempotencyKey: "k"}
		late := make(chan string)
		go func() {
			r, err := first.Invoke(t.Context(), inv)
			late <- fmt.Sprint(string(r.Payload.Data), err)
		}()
		<-g.entered
		_, err := second.Invoke(t.Context(), inv)
		var guest *actor.GuestError
		if !errors.As(err, &guest) {
			t.Fatal(err)
		}
		close(g.leave)
		if got := <-late; got != "2<nil>" {
			t.Errorf("the run that began before the failure was answered: %s", got)
		}
	})
}

// TestStaleReadsAfterWarmTurns: what turns and readers of placement ring were
// answered is the least that readers of placement any are, when the type has become
// one, whether the state is still in memory or not.
func TestStaleReadsAfterWarmTurns(t *testing.T) {
	for _, gone := range []bool{false, true} {
		for _, method := range []string{"Add", "Touch", "View"} {
			synctest.Test(t, func(t *testing.T) {
				store := &staleReads{fakeStore: newFakeStore()}
				store.shared = true
				s := newStage(t, host.Config{Committer: store, SweepEvery: 100 * time.Millisecond, Limits: host.Limits{IdleTimeout: time.Second}})
				anywhere := counted()
				anywhere.Placement = abi.PlacementAny
				store.write(key("a"), numbered(1))
				s.world.Deploy("app", "T", counted())
				want, err := s.call(t.Context(), "a", method)
				if err != nil {
					t.Fatal(err)
				}
				if gone {
					time.Sleep(2 * time.Second)
				}
				s.world.Deploy("app", "T", anywhere)
				if reply, err := s.call(t.Context(), "a", "View"); reply != want || err != nil {
					t.Errorf("after %s was answered %s, gone %t, a read shows %q, %v", method, want, gone, reply, err)
				}
			})
		}
	}
}

// pastReads is a store whose reads that are allowed to be stale show past.
type pastReads struct {
	*fakeStore
	past actor.Row
}

func (s *pastReads) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	if opts.AllowStale {
		return []actor.Row{s.past}, nil
	}
	return s.fakeStore.LoadActors(ctx, keys, opts)
}

// TestStaleReadConfirmsNothing: that a read which may be seconds old shows the state
// that is in memory does not make that the newest of now.
func TestStaleReadConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &pastReads{fakeStore: newFakeStore()}
		store.shared = true
		s := newStage(t, host.Config{Committer: store})
		anywhere := counted()
		anywhere.Placement = abi.PlacementAny
		s.world.Deploy("app", "T", counted())
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		store.past = store.row(key("a"))
		store.write(key("a"), numbered(7))
		time.Sleep(time.Second)
		s.world.Deploy("app", "T", anywhere)
		if reply, err := s.call(t.Context(), "a", "View"); reply != "1" || err != nil {
			t.Errorf("a stale read shows %q, %v", reply, err)
		}
		s.world.Deploy("app", "T", counted())
		if reply, err := s.call(t.Context(), "a", "View"); reply != "7" || err != nil {
			t.Errorf("a read shows %q, %v a second after 7 was written", reply, err)
		}
	})
}

// TestFullDiskAfterARequest: of a turn that has sent something nobody is told to repeat it,
// also when it was not committed because the disk is full.
func TestFullDiskAfterARequest(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{Egress: &asked{}})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Tell": func(t *hosttest.Turn) error {
			t.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/"})
			return add(t)
		}}})
		s.store.plan("commit", "full")
		_, err := s.call(t.Context(), "a", "Tell")
		wantCondition(t, err, actor.ErrLeft)
	})
}

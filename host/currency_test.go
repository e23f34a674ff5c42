package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// slowAnswers is a store whose reads, once, are answered only when the test says so:
// what they show is from before.
type slowAnswers struct {
	*fakeStore
	mu   sync.Mutex
	read chan struct{} // closed when the read is done and waits
	wait chan struct{}
}

func (s *slowAnswers) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	rows, err := s.fakeStore.LoadActors(ctx, keys, opts)
	s.mu.Lock()
	read, wait := s.read, s.wait
	s.read, s.wait = nil, nil
	s.mu.Unlock()
	if read != nil {
		close(read)
		<-wait
	}
	return rows, err
}

func (s *slowAnswers) next() (read, wait chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read, s.wait = make(chan struct{}), make(chan struct{})
	return s.read, s.wait
}

func counted() hosttest.Actor {
	return hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add, "Touch": view}, ReadOnly: map[string]hosttest.Func{"View": view}}
}

// TestLateLoadIsNotKept: a state that a reader asked for before the actor's newer
// one was written, answered and left memory is nobody's any more when it comes.
func TestLateLoadIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowAnswers{fakeStore: newFakeStore()}
		s := newStage(t, host.Config{Committer: store, SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: 2 * time.Second}})
		s.world.Deploy("app", "T", counted())
		read, wait := store.next()
		late := s.start(t.Context(), "a", "View")
		<-read
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "1" || err != nil {
			t.Fatal(reply, err)
		}
		time.Sleep(5 * time.Second) // the bubble's: it leaves memory
		synctest.Wait()
		close(wait)
		<-late
		for _, method := range []string{"View", "Touch"} {
			if reply, err := s.call(t.Context(), "a", method); reply != "1" || err != nil {
				t.Errorf("%s answers %q, %v after 1 was acknowledged", method, reply, err)
			}
		}
	})
}

// TestLateLoadOfAWorker: what a worker asked for before a reader was answered
// something newer is read again.
func TestLateLoadOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowAnswers{fakeStore: newFakeStore()}
		s := newStage(t, host.Config{Committer: store})
		s.world.Deploy("app", "T", counted())
		read, wait := store.next()
		touch := s.start(t.Context(), "a", "Touch")
		<-read
		store.write(key("a"), func(row *actor.Row) {
			row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":7}`)}
		})
		view := s.start(t.Context(), "a", "View")
		synctest.Wait()
		for range 12 { // its load gets a lane of its own in time
			time.Sleep(time.Millisecond)
		}
		if got := <-view; got.reply != "7" {
			t.Errorf("the reader got %+v", got)
		}
		close(wait)
		if got := <-touch; got.reply != "7" || got.err != nil {
			t.Errorf("the turn got %+v after 7 was answered", got)
		}
		if reply, err := s.call(t.Context(), "a", "View"); reply != "7" || err != nil {
			t.Errorf("a reader gets %q, %v after 7 was answered", reply, err)
		}
	})
}

// TestConfirmationsAreShared: readers of an actor ask the store for its version once in
// actor.MaxReadAge, however many they are, and once more if some come while it is asked; not at all
// on a store of this host alone.
func TestConfirmationsAreShared(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeStore()
			fake.shared = shared
			s := newStage(t, host.Config{Committer: fake})
			s.world.Deploy("app", "T", counted())
			if _, err := s.call(t.Context(), "a", "Add"); err != nil {
				t.Fatal(err)
			}
			const rounds = 5
			for range rounds {
				var readers sync.WaitGroup
				for range 20 {
					readers.Go(func() {
						if reply, err := s.call(t.Context(), "a", "View"); reply != "1" || err != nil {
							t.Errorf("%q, %v", reply, err)
						}
					})
				}
				readers.Wait()
				time.Sleep(actor.MaxReadAge + time.Millisecond)
			}
			want := map[bool]int{false: 0, true: rounds - 1}[shared]
			if asked := fake.takeVersions(); asked < want || asked > 2*want {
				t.Errorf("shared %t: the store was asked %d times, want %d to %d", shared, asked, want, 2*want)
			}
		})
	}
}

// TestUnconfirmed: without the store nothing is answered that it would have to
// confirm, and the actor works when the store does.
func TestUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeStore()
		fake.shared = true
		s := newStage(t, host.Config{Committer: fake})
		s.world.Deploy("app", "T", counted())
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		for _, method := range []string{"View", "Touch"} {
			time.Sleep(actor.MaxReadAge + time.Millisecond)
			fake.plan("versions", "unavailable")
			_, err := s.call(t.Context(), "a", method)
			wantCondition(t, err, actor.ErrUnavailable)
			if reply, err := s.call(t.Context(), "a", method); reply != "1" || err != nil {
				t.Errorf("%s afterwards: %q, %v", method, reply, err)
			}
		}
	})
}

// TestCommitsConfirm: an actor that commits all the time is current for its readers.
func TestCommitsConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeStore()
		fake.shared = true
		s := newStage(t, host.Config{Committer: fake})
		s.world.Deploy("app", "T", counted())
		for n := range 20 {
			for _, method := range []string{"Add", "View", "Touch"} {
				if reply, err := s.call(t.Context(), "a", method); reply != fmt.Sprint(n+1) || err != nil {
					t.Errorf("%s: %q, %v", method, reply, err)
				}
			}
			time.Sleep(actor.MaxReadAge / 2)
		}
		if asked := fake.takeVersions(); asked != 0 {
			t.Errorf("the store was asked %d times", asked)
		}
	})
}

// TestRepeatingClientCostsOneRefusal: of a client that repeats a recorded call, the
// neighbours on the actor notice one refused commit, whatever it does for a while.
func TestRepeatingClientCostsOneRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		refused, again := 0, 0
		s := newStage(t, host.Config{Observers: []host.Events{{
			Commit: func(e host.CommitEnd) {
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(e.Err, actor.ErrKeyExists) {
					refused++
				}
			},
			TurnEnd: func(e host.TurnEnd) {
				mu.Lock()
				defer mu.Unlock()
				again += max(0, e.Runs-1)
			},
		}}})
		s.world.Deploy("app", "T", counted())
		repeat := actor.Invocation{Key: key("a"), Method: "Add", IdempotencyKey: "K"}
		if _, err := s.Invoke(t.Context(), repeat); err != nil {
			t.Fatal(err)
		}
		var clients sync.WaitGroup
		for client := range 8 {
			clients.Go(func() {
				for range 50 {
					var err error
					if client == 0 {
						var r actor.Reply
						if r, err = s.Invoke(t.Context(), repeat); err == nil && string(r.Payload.Data) != "1" {
							t.Errorf("the repeated call: %q", r.Payload.Data)
						}
					} else {
						_, err = s.call(t.Context(), "a", "Add")
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		clients.Wait()
		if reply, err := s.call(t.Context(), "a", "View"); reply != "351" || err != nil {
			t.Errorf("%q, %v", reply, err)
		}
		if refused > 1 || again > 8 {
			t.Errorf("%d commits were refused, %d turns run again", refused, again)
		}
	})
}

// TestGiveUpWhileLookedUp: a begun call that is looked up before it is admitted is
// answered when it is given up, once, and takes no effect.
func TestGiveUpWhileLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowRecords{fakeStore: newFakeStore()}
		s := newStage(t, host.Config{Committer: store})
		s.world.Deploy("app", "T", counted())
		call := func(ctx context.Context, idem string) (receiver, host.Begun) {
			to := make(receiver, 1)
			return to, s.Begin(ctx, actor.Invocation{Key: key("a"), Method: "Add", IdempotencyKey: idem}, to)
		}
		for range 2 { // the second one is a repetition
			to, _ := call(t.Context(), "K")
			if got := <-to; got.reply != "1" || got.err != nil {
				t.Fatal(got)
			}
		}
		store.wait = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		to, begun := call(ctx, "L")
		other, _ := call(t.Context(), "M")
		synctest.Wait()
		cancel()
		begun.GiveUp()
		wantCondition(t, (<-to).err, actor.ErrCanceled)
		close(store.wait)
		if got := <-other; got.reply != "2" || got.err != nil {
			t.Errorf("the one that nobody gave up: %+v", got)
		}
		begun.GiveUp()
	})
}

// slowRecords is a store whose look-ups wait for the test.
type slowRecords struct {
	*fakeStore
	wait chan struct{}
}

func (s *slowRecords) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	if s.wait != nil {
		<-s.wait
	}
	return s.fakeStore.LoadIdempotency(ctx, calls)
}

// TestFailuresBehindFences: many failures of calls with keys cost the actor one
// commit while another one is under way, and its next turn goes on from there.
func TestFailuresBehindFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := faultstore.New(committer{fakeStore: newFakeStore()}, faultstore.Config{})
		var mu sync.Mutex
		commits := 0
		s := newStage(t, host.Config{Committer: faults, Observers: []host.Events{{Commit: func(host.CommitEnd) {
			mu.Lock()
			defer mu.Unlock()
			commits++
		}}}})
		a := counted()
		a.Placement = abi.PlacementRing
		a.Methods["Fail"] = func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") }
		s.world.Deploy("app", "T", a)
		held := faults.Hold(faultstore.BeforeCommit)
		first := s.start(t.Context(), "a", "Add")
		<-held.Reached()
		errs := make(chan error, 10)
		for i := range cap(errs) {
			go func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Fail", IdempotencyKey: fmt.Sprint(i)})
				errs <- err
			}()
		}
		synctest.Wait()
		if len(errs) > 0 {
			t.Error("a failure is answered before the commit that it rests on")
		}
		held.Release()
		for range cap(errs) {
			var guest *actor.GuestError
			if err := <-errs; !errors.As(err, &guest) {
				t.Error(err)
			}
		}
		<-first
		if commits != 2 {
			t.Errorf("%d commits, want the first one and a fence for all", commits)
		}
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "2" || err != nil {
			t.Errorf("afterwards: %q, %v", reply, err)
		}
	})
}

// TestSeenDuringAFlight: a failure of a turn that began while a commit was under
// way is not proved by that commit, which may have been followed by another
// writer's before the turn began.
func TestSeenDuringAFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeStore()
		fake.shared = true
		faults := faultstore.New(committer{fakeStore: fake}, faultstore.Config{})
		s := newStage(t, host.Config{Committer: faults})
		a := counted()
		a.Methods["Fail"] = func(turn *hosttest.Turn) error {
			n, err := turn.Number("n")
			return errors.Join(err, hosttest.Fail(fmt.Sprint("at ", n)))
		}
		s.world.Deploy("app", "T", a)
		held := faults.Hold(faultstore.AfterCommit)
		first := s.start(t.Context(), "a", "Add")
		<-held.Reached()
		fake.write(key("a"), func(row *actor.Row) {
			row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":7}`)}
		})
		time.Sleep(time.Millisecond)
		failing := s.start(t.Context(), "a", "Fail")
		synctest.Wait()
		held.Release()
		if got := <-first; got.reply != "1" || got.err != nil {
			t.Errorf("got %+v", got)
		}
		var guest *actor.GuestError
		if got := <-failing; !errors.As(got.err, &guest) || guest.Code != "at 7" {
			t.Errorf("got %v, and the store has had 7 since before it began", got.err)
		}
	})
}

// TestFailureLeavesNoActor: the fence of a failure makes no actor, and counts as a
// commit also where it goes together with a record.
func TestFailureLeavesNoActor(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		a := counted()
		a.Placement = placement
		a.Methods["Fail"] = func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") }
		s.world.Deploy("app", "T", a)
		keyed := func(method, idem string) error {
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: method, IdempotencyKey: idem})
			return err
		}
		var guest *actor.GuestError
		for _, idem := range []string{"k", "k", "l"} {
			before := s.store.row(key("a")).Version
			if err := keyed("Fail", idem); !errors.As(err, &guest) {
				t.Error(err)
			}
			if after := s.store.row(key("a")); after.Version <= before || !after.Deleted {
				t.Errorf("after %d the row is %+v", before, after)
			}
		}
		if _, err := s.View(t.Context(), key("a")); !errors.Is(err, actor.ErrActorNotFound) {
			t.Errorf("a failure has made an actor: %v", err)
		}
		hold := make(chan struct{})
		s.store.setHold(hold)
		first := s.start(t.Context(), "a", "Add")
		synctest.Wait()
		outcomes := make(chan error, 2)
		for _, method := range []string{"Touch", "Fail"} {
			go func() { outcomes <- keyed(method, "m") }()
			synctest.Wait()
		}
		close(hold)
		<-first
		synctest.Wait()
		before := s.store.row(key("a"))
		if err := errors.Join(<-outcomes, <-outcomes); !errors.As(err, &guest) {
			t.Error(err)
		}
		if reply, err := s.call(t.Context(), "a", "Add"); reply != "2" || err != nil || s.store.row(key("a")).Version <= before.Version {
			t.Errorf("afterwards: %q, %v", reply, err)
		}
	})
}

// TestStatelessFailureFences: also where there is no state, no earlier attempt of a
// call can be recorded after its failure was answered.
func TestStatelessFailureFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{
			"Fail": func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") },
		}})
		earlier := actor.Commit{
			ID: actor.NewCommitID(), Fences: []actor.RowFence{{Key: key("a")}},
			Records: []actor.IdempotencyRecord{{Actor: key("a"), Method: "Fail", Key: "K", TTL: time.Hour}},
		}
		var guest *actor.GuestError
		if _, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Fail", IdempotencyKey: "K"}); !errors.As(err, &guest) {
			t.Error(err)
		}
		if err := s.store.Commit(t.Context(), []actor.Commit{earlier})[0]; !errors.Is(err, actor.ErrStale) {
			t.Errorf("an earlier attempt's commit: %v", err)
		}
	})
}

// asked is an outside that keeps what it is told.
type asked struct{ bodies []string }

func (o *asked) Do(_ context.Context, r host.EgressRequest) (abi.HTTPResponse, error) {
	if err := r.Leave(); err != nil {
		return abi.HTTPResponse{}, err
	}
	o.bodies = append(o.bodies, string(r.Request.Body))
	return abi.HTTPResponse{Status: 200}, nil
}

// TestStaleActorActsOnNothing: a delete that finds nothing, and a request to the
// outside, rest on what the store has, not on what this host remembers.
func TestStaleActorActsOnNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, out := newFakeStore(), &asked{}
		fake.shared = true
		s := newStage(t, host.Config{Committer: fake, Egress: out})
		a := counted()
		a.Methods["Tell"] = func(turn *hosttest.Turn) error {
			n, err := turn.Number("n")
			turn.HTTP(abi.HTTPRequest{Method: "POST", URL: "https://outside.example/", Body: []byte(fmt.Sprint(n))})
			return errors.Join(err, turn.ReplyNumber(n))
		}
		s.world.Deploy("app", "T", a)
		for _, id := range []string{"a", "b"} {
			if reply, err := s.call(t.Context(), id, "Touch"); reply != "0" || err != nil {
				t.Fatal(reply, err)
			}
			fake.write(key(id), func(row *actor.Row) {
				row.State = actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":7}`)}
			})
		}
		if err := s.Delete(t.Context(), key("a")); err != nil {
			t.Errorf("deleting what another host wrote: %v", err)
		}
		if reply, err := s.call(t.Context(), "b", "Tell"); reply != "7" || err != nil {
			t.Errorf("telling the outside: %q, %v", reply, err)
		}
		if len(out.bodies) != 1 || out.bodies[0] != "7" {
			t.Errorf("the outside was told %q", out.bodies)
		}
	})
}

// staleReads is a store whose reads that are allowed to be stale show no row at all,
// as a database may whose rows are a moment old.
type staleReads struct {
	*fakeStore
	fresh  int
	waited int  // of fresh, those that would wait for a row lock
	old    bool // they show what is long gone instead
}

func (s *staleReads) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error) {
	if opts.AllowStale && s.old {
		return []actor.Row{{Version: 1, State: actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":9}`)}}}, nil
	}
	if opts.AllowStale {
		return make([]actor.Row, len(keys)), nil
	}
	s.fresh++
	if !opts.BesideLocks {
		s.waited++
	}
	return s.fakeStore.LoadActors(ctx, keys, opts)
}

// TestStaleReadsDoNotGoBack: a read that may be stale is no older than what this
// host has answered of the actor, in whichever way; of others it may be.
func TestStaleReadsDoNotGoBack(t *testing.T) {
	for _, how := range []string{"turn", "failed turn", "strong read", "view", "recorded reply", "delete"} {
		synctest.Test(t, func(t *testing.T) {
			store := &staleReads{fakeStore: newFakeStore()}
			s := newStage(t, host.Config{Committer: store})
			other := newStage(t, host.Config{Committer: store})
			for _, one := range []*stage{s, other} {
				a := counted()
				a.Placement = abi.PlacementAny
				a.Methods["Fail"] = func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") }
				one.world.Deploy("app", "T", a)
			}
			call := actor.Invocation{Key: key("a"), Method: "Add", IdempotencyKey: "K"}
			if _, err := other.Invoke(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			if reply, err := s.call(t.Context(), "a", "View"); reply != "0" || err != nil || store.fresh != 0 {
				t.Errorf("%s: before this host knows of it: %q, %v", how, reply, err)
			}
			switch how {
			case "turn":
				s.call(t.Context(), "a", "Touch")
			case "failed turn":
				s.call(t.Context(), "a", "Fail")
			case "strong read":
				s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "View", Consistency: actor.ConsistencyStrong})
			case "view":
				s.View(t.Context(), key("a"))
			case "recorded reply":
				s.Invoke(t.Context(), call)
			case "delete":
				if err := s.Delete(t.Context(), key("a")); err != nil {
					t.Error(err)
				}
				store.old = true
				if reply, err := s.call(t.Context(), "a", "View"); reply != "0" || err != nil {
					t.Errorf("after its delete a read shows %q, %v", reply, err)
				}
				return
			}
			store.waited = 0
			if reply, err := s.call(t.Context(), "a", "View"); reply != "1" || err != nil || store.waited > 0 {
				t.Errorf("%s: afterwards a read shows %q, %v, and waits for locks %d times", how, reply, err, store.waited)
			}
		})
	}
}

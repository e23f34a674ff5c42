package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// sharedFake is a fake store that other processes write to as well.
func sharedFake() *fakeStore {
	s := newFakeStore()
	s.shared = true
	return s
}

func all(actor.Key) bool { return true }

func nothingHeld(actor.Key) actor.Hold { return actor.NotHeld }

// setTo is another writer's commit of a number.
func setTo(n int) func(*actor.Row) {
	return func(row *actor.Row) {
		row.Generation, row.Deleted = 1, false
		row.State = actor.EncodedState{Format: actor.FormatJSON, Data: fmt.Appendf(nil, `{"n":%d}`, n)}
	}
}

// owned is a stage with a steered ownership and the types that its tests use: T with
// a placement, and Gate and GateView, which wait in the middle.
type owned struct {
	*stage
	store    *fakeStore
	holdings *hosttest.Holdings
	gate     *gate
	ran      atomic.Int64
}

func newOwned(t *testing.T, placement string, hold actor.Hold, cfg host.Config) *owned {
	t.Helper()
	o := &owned{store: sharedFake(), holdings: hosttest.NewHoldings(hold), gate: newGate()}
	if cfg.Committer == nil {
		cfg.Committer = o.store
	}
	cfg.Ownership = o.holdings
	o.stage = newStage(t, cfg)
	o.world.Deploy("app", "T", o.actor(placement))
	return o
}

func (o *owned) actor(placement string) hosttest.Actor {
	counts := func(f hosttest.Func) hosttest.Func {
		return func(t *hosttest.Turn) error { o.ran.Add(1); return f(t) }
	}
	gated := func(f hosttest.Func) hosttest.Func {
		return func(t *hosttest.Turn) error { o.gate.wait(t); return f(t) }
	}
	fail := func(*hosttest.Turn) error { return hosttest.Fail("on_purpose") }
	return hosttest.Actor{
		Placement: placement,
		Methods: map[string]hosttest.Func{
			"Add": counts(add), "Set1": counts(func(t *hosttest.Turn) error { return errors.Join(t.SetNumber("n", 1), t.ReplyNumber(1)) }), "Touch": counts(view), "Fail": counts(fail),
			"GateAdd": counts(gated(add)), "GateTouch": counts(gated(view)), "GateFail": counts(gated(fail)),
		},
		ReadOnly: map[string]hosttest.Func{"View": counts(view), "GateView": counts(gated(view))},
	}
}

// must is call for what has to be answered with a number.
func (o *owned) must(t *testing.T, id, method, want string) {
	t.Helper()
	if reply, err := o.call(t.Context(), id, method); reply != want || err != nil {
		t.Errorf("%s answers %q, %v, want %s", method, reply, err, want)
	}
}

// TestNotOwnerHasNoEffect: a host runs nothing of what it does not hold, or not as long
// as its lease is over, and asks the store for nothing.
func TestNotOwnerHasNoEffect(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
		synctest.Test(t, func(t *testing.T) {
			o := newOwned(t, placement, actor.NotHeld, host.Config{})
			refused := func(id string) {
				t.Helper()
				for _, method := range []string{"Add", "Touch", "View"} {
					_, err := o.call(t.Context(), id, method)
					wantCondition(t, err, actor.ErrNotOwner)
					to := make(receiver, 1)
					o.Begin(t.Context(), actor.Invocation{Key: key(id), Method: method}, to)
					wantCondition(t, (<-to).err, actor.ErrNotOwner)
				}
				_, err := o.Invoke(t.Context(), actor.Invocation{Key: key(id), Method: "Add", IdempotencyKey: "K"})
				wantCondition(t, err, actor.ErrNotOwner)
				wantCondition(t, o.Delete(t.Context(), key(id)), actor.ErrNotOwner)
			}
			refused("a")
			o.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
			o.must(t, "b", "Add", "1")
			o.holdings.Pause()
			ran, loads := o.ran.Load(), o.store.loads
			refused("a")
			refused("b")
			if o.ran.Load() != ran || o.store.loads != loads || o.store.row(key("a")).Version != 0 {
				t.Errorf("%d turns, %d loads, row %+v", o.ran.Load()-ran, o.store.loads-loads, o.store.row(key("a")))
			}
			o.holdings.Resume()
			o.must(t, "b", "Add", "2")
		})
	}
}

// TestPlacesOfOtherTypes: turns of any types need the lease, and nobody that holds the
// actor; what reads of them asks for nothing, nor do turns of stateless types, nor does the
// delete of what no deployment serves.
func TestPlacesOfOtherTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementAny, actor.Held, host.Config{})
		o.world.Deploy("app", "S", hosttest.Actor{Placement: abi.PlacementStateless, Methods: map[string]hosttest.Func{"Echo": func(t *hosttest.Turn) error { return t.Reply("ok") }}})
		o.must(t, "a", "Add", "1")
		refused := func(why string) {
			t.Helper()
			_, err := o.call(t.Context(), "a", "Add")
			wantCondition(t, err, actor.ErrNotOwner)
			_, err = o.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Add", IdempotencyKey: "K"})
			wantCondition(t, err, actor.ErrNotOwner)
			wantCondition(t, o.Delete(t.Context(), key("a")), actor.ErrNotOwner)
			o.must(t, "a", "View", "1")
			stateless := actor.Key{App: "app", Type: "S", ID: "a"}
			for _, idempotencyKey := range []string{"", why} {
				if _, err := o.Invoke(t.Context(), actor.Invocation{Key: stateless, Method: "Echo", IdempotencyKey: idempotencyKey}); err != nil {
					t.Errorf("stateless, %s: %v", why, err)
				}
			}
			wantCondition(t, o.Delete(t.Context(), stateless), actor.ErrNotOwner)
		}
		o.holdings.Pause()
		refused("without a lease")
		o.holdings.Resume()
		o.must(t, "a", "Add", "2")
		o.must(t, "a", "Set1", "1")
		o.holdings.Set(nothingHeld)
		refused("another host may hold it")
		o.world.Remove("app", "T")
		if err := o.Delete(t.Context(), key("a")); err != nil {
			t.Error(err)
		}
		o.DropAll()
	})
}

// TestRowGivenLate: a turn of an any type that waited for its row has no effect when
// another host may have been given the actor meanwhile, and begins anew when another
// deployment serves the type.
func TestRowGivenLate(t *testing.T) {
	for name, meanwhile := range map[string]func(o *owned){
		"the lease is over":           func(o *owned) { o.holdings.Pause() },
		"another may hold it":         func(o *owned) { o.holdings.Set(nothingHeld) },
		"the placement is another":    func(o *owned) { o.holdings.Set(nothingHeld); o.world.Deploy("app", "T", o.actor(abi.PlacementRing)) },
		"it is held here by now":      func(o *owned) { o.world.Deploy("app", "T", o.actor(abi.PlacementRing)) },
		"the host hands the actor on": func(o *owned) { o.holdings.Set(nothingHeld); go o.HandOver(context.Background(), all) },
	} {
		for _, op := range []string{"turn", "call with a key", "delete"} {
			t.Run(name+", "+op, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := newOwned(t, abi.PlacementAny, actor.Held, host.Config{})
					o.must(t, "a", "Add", "1")
					o.ran.Store(0)
					row := o.store.lock(key("a"))
					done := make(chan error, 1)
					go func() {
						inv := actor.Invocation{Key: key("a"), Method: "Add"}
						switch op {
						case "delete":
							done <- o.Delete(t.Context(), key("a"))
							return
						case "call with a key":
							inv.IdempotencyKey = "K"
						}
						_, err := o.Invoke(t.Context(), inv)
						done <- err
					}()
					synctest.Wait() // it waits for the row
					meanwhile(o)
					synctest.Wait()
					<-row
					err := <-done
					if name == "it is held here by now" {
						if err != nil {
							t.Error(err)
						}
						return
					}
					wantCondition(t, err, actor.ErrNotOwner)
					if row := o.store.row(key("a")); o.ran.Load() != 0 || row.Deleted || string(row.State.Data) != `{"n":1}` {
						t.Errorf("%d turns ran, and the row is %+v", o.ran.Load(), row)
					}
				})
			})
		}
	}
}

// TestDeleteOfUnknownType: the delete of an actor whose type was deployed elsewhere a
// moment ago is for the host that holds the actor.
func TestDeleteOfUnknownType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementRing, actor.NotHeld, host.Config{})
		elsewhere := actor.Key{App: "app", Type: "New", ID: "a"}
		o.store.write(elsewhere, setTo(5))
		o.world.DeployElsewhere("app", "New", o.actor(abi.PlacementRing))
		wantCondition(t, o.Delete(t.Context(), elsewhere), actor.ErrNotOwner)
		if row := o.store.row(elsewhere); row.Deleted {
			t.Error("it is deleted, and its holder does not know")
		}
	})
}

// TestFrozenHost: a host whose lease ends while a guest runs answers nothing of what was in
// memory: without the store nothing at all, and with it what is stored by then.
func TestFrozenHost(t *testing.T) {
	for _, method := range []string{"GateTouch", "GateView", "GateFail"} {
		synctest.Test(t, func(t *testing.T) {
			o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{})
			o.must(t, "a", "Add", "1")
			frozen := o.start(t.Context(), "a", method)
			<-o.gate.entered
			o.holdings.Pause()
			o.store.plan("versions", "unavailable")
			o.gate.leave <- struct{}{}
			wantCondition(t, (<-frozen).err, actor.ErrUnavailable)

			o.holdings.Resume()
			frozen = o.start(t.Context(), "a", method)
			<-o.gate.entered
			o.holdings.Pause()
			o.store.write(key("a"), setTo(7)) // the next owner
			close(o.gate.leave)
			synctest.Wait()
			o.holdings.Resume()
			got := <-frozen
			switch {
			case method == "GateView" && got.reply == "7" && got.err == nil: // read again, from the store
			case method != "GateView" && errors.Is(got.err, actor.ErrNotOwner): // it would have to begin anew
			default:
				t.Errorf("%s answers %+v", method, got)
			}
		})
	}
}

// TestLeaseInsteadOfTheStore: what is held, and all of whose earlier commits are settled, is
// answered without a question to the store, however long ago that was.
func TestLeaseInsteadOfTheStore(t *testing.T) {
	for _, hold := range []actor.Hold{actor.HeldClean, actor.Held} {
		synctest.Test(t, func(t *testing.T) {
			o := newOwned(t, abi.PlacementRing, hold, host.Config{})
			o.store.write(key("a"), setTo(5))
			o.must(t, "a", "Touch", "5")
			for range 3 {
				time.Sleep(actor.MaxReadAge + time.Millisecond)
				for _, method := range []string{"Touch", "View"} {
					o.must(t, "a", method, "5")
				}
				if _, err := o.call(t.Context(), "a", "Fail"); err == nil {
					t.Error("the guest's error is lost")
				}
			}
			asked := o.store.takeVersions()
			if hold == actor.HeldClean && asked != 0 || hold == actor.Held && asked == 0 {
				t.Errorf("hold %d: the store was asked %d times", hold, asked)
			}
			// A record alone leaves the version where it is.
			if _, err := o.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Touch", IdempotencyKey: "K"}); err != nil {
				t.Error(err)
			}
			time.Sleep(actor.MaxReadAge + time.Millisecond)
			o.must(t, "a", "Touch", "5")
			if asked := o.store.takeVersions(); (hold == actor.Held) != (asked == 1) {
				t.Errorf("hold %d: the store was asked %d times after a record", hold, asked)
			}
			// A commit of its own moves the version past those of earlier owners.
			o.must(t, "a", "Add", "6")
			for range 3 {
				time.Sleep(actor.MaxReadAge + time.Millisecond)
				o.must(t, "a", "Touch", "6")
				o.must(t, "a", "View", "6")
			}
			if asked := o.store.takeVersions(); asked != 0 {
				t.Errorf("hold %d: the store was asked %d times after a commit", hold, asked)
			}
		})
	}
}

// TestLateCommitOfAnEarlierOwner: until a commit of its own has landed, the new owner of a
// ring actor that was not handed over in order shows what an earlier owner's commit did
// that landed late.
func TestLateCommitOfAnEarlierOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementRing, actor.Held, host.Config{})
		for n, method := range []string{"Touch", "View", "Touch", "View"} {
			o.must(t, "a", method, fmt.Sprint(n))
			o.store.write(key("a"), setTo(n+1))
			time.Sleep(actor.MaxReadAge + time.Millisecond)
		}
		o.must(t, "a", "Add", "5")
	})
}

// TestStickyFenceComesFirst: the first act of the owner of a sticky actor that was not
// handed over in order is a commit that no earlier owner's can pass; only then a turn
// begins, be it one that only reads.
func TestStickyFenceComesFirst(t *testing.T) {
	for _, method := range []string{"Add", "Touch", "View", "Fail"} {
		synctest.Test(t, func(t *testing.T) {
			o := newOwned(t, abi.PlacementSticky, actor.Held, host.Config{})
			o.store.write(key("a"), setTo(1))
			late := actor.CommitOf(actor.RowWrite{
				Key: key("a"), ReadVersion: 1, NewVersion: 2, Generation: 1,
				State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{"n":100}`)},
			})

			hold := make(chan struct{}, 1)
			o.store.setHold(hold)
			first := o.start(t.Context(), "a", method)
			synctest.Wait()
			if o.ran.Load() != 0 {
				t.Fatal("a turn runs before the fence")
			}
			if method == "Add" {
				// It lands before the fence: then the fence comes after it.
				if err := o.store.applyNow(late); err != nil {
					t.Fatal(err)
				}
			}
			o.store.setHold(nil)
			close(hold)
			got := <-first
			want := answer{reply: "1"}
			switch method {
			case "Add":
				want.reply = "101"
			case "Fail":
				want = answer{err: got.err}
			}
			if got != want {
				t.Errorf("%s: %+v, want %+v", method, got, want)
			}
			if err := o.store.applyNow(late); !errors.Is(err, actor.ErrStale) {
				t.Errorf("a commit of the earlier owner lands: %v", err)
			}
			version := o.store.row(key("a")).Version
			o.must(t, "a", "Touch", cmpOr(want.reply, "1"))
			if o.store.row(key("a")).Version != version || o.store.takeVersions() != 0 {
				t.Error("it is fenced, or confirmed, again")
			}
			if n := o.holdings.TimesFenced(); n != 1 {
				t.Errorf("that it is settled is told %d times", n)
			}
		})
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// applyNow is a commit that somebody else sent.
func (s *fakeStore) applyNow(c actor.Commit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(&c)
}

// TestFenceOfUnknownOutcome: a call whose turn could not begin, since nobody knows what
// became of the fence, may be repeated.
func TestFenceOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementSticky, actor.Held, host.Config{SettleGrace: time.Second})
		o.store.plan("commit", "lost")
		for range 100 {
			o.store.plan("settle", "unavailable")
		}
		_, err := o.call(t.Context(), "a", "Add")
		wantCondition(t, err, actor.ErrUnavailable)
		if o.ran.Load() != 0 {
			t.Error("a turn ran")
		}
	})
}

// TestUnsettledCommit: an owner that does not know what became of a commit of its own does
// not take itself for the only one who writes.
func TestUnsettledCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{SettleGrace: time.Second})
		o.must(t, "a", "Add", "1")
		o.store.plan("commit", "lost")
		for range 100 {
			o.store.plan("settle", "unavailable")
		}
		_, err := o.call(t.Context(), "a", "Add")
		wantCondition(t, err, actor.ErrAmbiguous)
		o.must(t, "a", "Touch", "1")
		o.store.write(key("a"), setTo(2)) // it lands now
		time.Sleep(actor.MaxReadAge + time.Millisecond)
		o.must(t, "a", "Touch", "2")
		o.must(t, "a", "Add", "3")
		o.store.takeVersions()
		time.Sleep(actor.MaxReadAge + time.Millisecond)
		o.must(t, "a", "Touch", "3")
		if asked := o.store.takeVersions(); asked != 0 {
			t.Errorf("the store was asked %d times after a commit", asked)
		}
	})
}

// TestUnsettledCommitWithCallsWaiting: nor does one whose actor has had more to do since.
func TestUnsettledCommitWithCallsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{SettleGrace: time.Second})
		o.must(t, "a", "Add", "1")
		o.store.plan("commit", "lost")
		for range 100 {
			o.store.plan("settle", "unavailable")
		}
		adding := o.start(t.Context(), "a", "GateAdd")
		<-o.gate.entered
		touching := o.start(t.Context(), "a", "Touch")
		synctest.Wait()
		close(o.gate.leave)
		wantCondition(t, (<-adding).err, actor.ErrAmbiguous)
		<-touching // whatever it was told
		o.must(t, "a", "Touch", "1")
		o.store.write(key("a"), setTo(2)) // it lands now
		time.Sleep(actor.MaxReadAge + time.Millisecond)
		for _, method := range []string{"Touch", "View"} {
			o.must(t, "a", method, "2")
		}
	})
}

// TestLostHost: a host that has lost everything answers what runs only behind a commit, and
// keeps nothing; what it holds anew begins with the store.
func TestLostHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{})
		methods := []string{"GateAdd", "GateTouch", "GateView", "GateFail"}
		var running, waiting []<-chan answer
		for _, id := range methods {
			o.must(t, id, "Add", "1")
			running = append(running, o.start(t.Context(), id, id))
			<-o.gate.entered
			if id != "GateView" {
				waiting = append(waiting, o.start(t.Context(), id, "Add"))
			}
		}
		synctest.Wait()
		o.holdings.Pause()
		o.holdings.Set(nothingHeld)
		o.DropAll()
		for _, w := range waiting {
			wantCondition(t, (<-w).err, actor.ErrNotOwner)
		}
		for _, id := range methods[1:] {
			o.store.write(key(id), setTo(7))
		}
		o.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean }) // another incarnation
		o.holdings.Resume()
		close(o.gate.leave)
		for i, id := range methods {
			got := <-running[i]
			if id == "GateAdd" {
				if got.reply != "2" || got.err != nil {
					t.Errorf("the turn whose commit was applied: %+v", got)
				}
				continue
			}
			wantCondition(t, got.err, actor.ErrNotOwner)
		}
		synctest.Wait()
		for _, id := range methods[1:] {
			o.must(t, id, "Touch", "7")
			o.must(t, id, "View", "7")
		}
	})
}

// TestHeldAfterADelete: what a host has in memory of an actor that it did not hold, since it
// has deleted it when nothing served its type, is not taken for the newest when it is given
// the actor: others may have had it in between.
func TestHeldAfterADelete(t *testing.T) {
	for _, method := range []string{"Touch", "View"} {
		synctest.Test(t, func(t *testing.T) {
			o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{})
			o.store.write(key("a"), setTo(1))
			o.world.Remove("app", "T")
			if err := o.Delete(t.Context(), key("a")); err != nil {
				t.Fatal(err)
			}
			o.store.write(key("a"), setTo(7)) // another holder
			time.Sleep(actor.MaxReadAge + time.Millisecond)
			o.world.Deploy("app", "T", o.actor(abi.PlacementRing))
			o.must(t, "a", method, "7")
		})
	}
}

// TestLoadAfterTheLease: a row that was read when the lease was over is not built on: it
// may be another owner's, behind whose fence this host would write.
func TestLoadAfterTheLease(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &slowAnswers{fakeStore: sharedFake()}
			o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{Committer: store})
			read, wait := store.next()
			call := o.start(t.Context(), "a", "Add")
			<-read
			o.holdings.Pause()
			if lost {
				o.DropAll()
				o.holdings.Resume()
			}
			close(wait)
			wantCondition(t, (<-call).err, actor.ErrNotOwner)
			if o.ran.Load() != 0 {
				t.Error("a turn ran")
			}
		})
	}
}

// TestLoadOfALostHostIsNotKept: a row that a reader asked for before the host lost all that it
// held is in nobody's way when it comes and the host holds the actor again.
func TestLoadOfALostHostIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowAnswers{fakeStore: sharedFake()}
		o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{Committer: store})
		read, wait := store.next()
		late := o.start(t.Context(), "a", "View")
		<-read
		o.holdings.Set(nothingHeld)
		o.DropAll()
		store.write(key("a"), setTo(7)) // another holder
		o.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
		close(wait)
		if got := <-late; got.reply != "7" && !errors.Is(got.err, actor.ErrNotOwner) {
			t.Errorf("the read that began before: %+v", got)
		}
		for _, method := range []string{"View", "Touch"} {
			o.must(t, "a", method, "7")
		}
	})
}

// TestFenceAnsweredAfterTheLease: no turn begins behind a fence whose answer came when the
// lease was over: another owner may have begun one since.
func TestFenceAnsweredAfterTheLease(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, method := range []string{"Add", "View"} {
			synctest.Test(t, func(t *testing.T) {
				o := newOwned(t, abi.PlacementSticky, actor.Held, host.Config{})
				hold := make(chan struct{})
				o.store.setHold(hold)
				call := o.start(t.Context(), "a", method)
				synctest.Wait()
				o.holdings.Pause()
				if lost {
					o.DropAll()
					o.holdings.Resume()
				}
				o.store.setHold(nil)
				close(hold)
				wantCondition(t, (<-call).err, actor.ErrNotOwner)
				if o.ran.Load() != 0 {
					t.Error("a turn ran")
				}
				o.holdings.Resume()
				if reply, err := o.call(t.Context(), "a", "Add"); err != nil || reply != "1" {
					t.Errorf("with a lease again: %q, %v", reply, err)
				}
			})
		}
	}
}

// TestInstanceAfterTheLease: no turn begins that has waited for an instance until the lease
// was over: another holder may have begun one since. The instance goes back.
func TestInstanceAfterTheLease(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
		synctest.Test(t, func(t *testing.T) {
			o := newOwned(t, placement, actor.HeldClean, host.Config{Limits: host.Limits{Instances: 1}})
			typ := o.actor(placement)
			typ.Instance = abi.InstanceShared
			o.world.Deploy("app", "T", typ)
			busy := o.start(t.Context(), "a", "GateAdd")
			<-o.gate.entered
			waits := o.start(t.Context(), "b", "Add")
			synctest.Wait()
			ran := o.ran.Load()
			o.holdings.Pause()
			close(o.gate.leave)
			<-busy
			wantCondition(t, (<-waits).err, actor.ErrNotOwner)
			if o.ran.Load() != ran {
				t.Errorf("%s: a turn ran", placement)
			}
			o.holdings.Resume()
			o.must(t, "b", "Add", "1")
		})
	}
}

// TestStickyStaysInMemory: an idle actor of a sticky type stays, which is told once for
// each time that it was idle for long.
func TestStickyStaysInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var skipped, left atomic.Int64
		o := newOwned(t, abi.PlacementSticky, actor.HeldClean, host.Config{
			SweepEvery: time.Second, Limits: host.Limits{IdleTimeout: 2 * time.Second},
			Observers: []host.Events{{
				IdleSkipped: func(actor.Key) { skipped.Add(1) },
				Deactivated: func(host.Deactivation) { left.Add(1) },
			}},
		})
		for n := range int64(3) {
			o.must(t, "a", "Add", fmt.Sprint(n+1))
			time.Sleep(10 * time.Second)
			if got := skipped.Load(); got != n+1 || left.Load() != 0 {
				t.Errorf("skipped %d times, want %d; %d left", got, n+1, left.Load())
			}
		}
	})
}

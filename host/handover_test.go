package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

// TestHandOver: what has begun is finished and answered, what waits is given back at once,
// the activation and its instance are gone when HandOver returns, and other actors do not
// notice.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan actor.Key, 10)
		o := newOwned(t, abi.PlacementSticky, actor.HeldClean, host.Config{Observers: []host.Events{{
			Deactivated: func(d host.Deactivation) {
				if d.Reason == host.DeactivateMoved {
					left <- d.Key
				}
			},
		}}})
		o.must(t, "idle", "Add", "1")
		running := o.start(t.Context(), "a", "GateAdd")
		reading := o.start(t.Context(), "b", "GateView")
		<-o.gate.entered
		<-o.gate.entered
		var waiting []<-chan answer
		for range 3 {
			waiting = append(waiting, o.start(t.Context(), "a", "Add"))
		}
		synctest.Wait()
		moving := func(k actor.Key) bool { return k.ID != "stays" }
		o.holdings.Set(func(k actor.Key) actor.Hold {
			if moving(k) {
				return actor.NotHeld
			}
			return actor.HeldClean
		})
		done := make(chan error, 1)
		go func() { done <- o.HandOver(t.Context(), moving) }()
		for _, w := range waiting {
			got := <-w
			wantCondition(t, got.err, actor.ErrNotOwner)
		}
		// What nobody runs on leaves at once, also if a reader is still at work.
		if one, other := <-left, <-left; one.ID == "a" || other.ID == "a" {
			t.Errorf("%s and %s left first", one.ID, other.ID)
		}
		for _, method := range []string{"Add", "View"} {
			_, err := o.call(t.Context(), "a", method)
			wantCondition(t, err, actor.ErrNotOwner)
			o.must(t, "stays", method, "1")
		}
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("handed over while a turn runs: %v", err)
		default:
		}
		hold := make(chan struct{})
		o.store.setHold(hold)
		close(o.gate.leave)
		if got := <-reading; got.reply != "0" || got.err != nil {
			t.Errorf("the read that had begun got %+v", got)
		}
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("handed over while a commit is under way: %v", err)
		default:
		}
		close(hold)
		if got := <-running; got.reply != "1" || got.err != nil {
			t.Errorf("the turn that had begun got %+v", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := <-left; got.ID != "a" {
			t.Errorf("%s left", got.ID)
		}
		if n := o.world.Open(); n > 3 { // that of stays, and two that readers had
			t.Errorf("%d instances are left", n)
		}
	})
}

// TestHandOverWaitsForSettling: a commit of an unknown outcome is settled first; one whose
// outcome was given up cannot land any more when the hand-over succeeds.
func TestHandOverWaitsForSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{SettleGrace: time.Second})
		o.must(t, "a", "Add", "1")
		for _, settles := range []bool{true, false} {
			o.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
			o.store.plan("commit", "applied")
			if settles {
				o.store.plan("settle", "unavailable")
			} else {
				for range 100 {
					o.store.plan("settle", "unavailable")
				}
			}
			call := o.start(t.Context(), "a", "Add")
			synctest.Wait()
			o.holdings.Set(nothingHeld)
			if !settles {
				if got := <-call; !errors.Is(got.err, actor.ErrAmbiguous) {
					t.Errorf("the call got %+v", got)
				}
				o.store.plan("versions", "unavailable")
				if err := o.HandOver(t.Context(), all); !errors.Is(err, actor.ErrUnavailable) {
					t.Errorf("handed over with a commit that may still land: %v", err)
				}
				version := o.store.row(key("a")).Version
				if err := o.HandOver(t.Context(), all); err != nil || o.store.row(key("a")).Version == version {
					t.Errorf("the row was not moved on: %v", err)
				}
				continue
			}
			if err := o.HandOver(t.Context(), all); err != nil {
				t.Errorf("hand-over ends with %v", err)
			}
			if got := <-call; got.reply != "2" || got.err != nil {
				t.Errorf("the call got %+v", got)
			}
		}
	})
}

// TestHandOverEnds: its context bounds it, and the actors go on leaving.
func TestHandOverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{})
		running := o.start(t.Context(), "a", "GateAdd")
		<-o.gate.entered
		o.holdings.Set(nothingHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.HandOver(ctx, all); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		o.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
		_, err := o.call(t.Context(), "a", "Add") // it still leaves
		wantCondition(t, err, actor.ErrNotOwner)
		close(o.gate.leave)
		if got := <-running; got.reply != "1" || got.err != nil {
			t.Error(got)
		}
		o.must(t, "a", "Add", "2")
	})
}

// TestActorsMoveUnderLoad moves actors between two hosts of one store while clients call
// them: no turn is lost or doubled, no commit refused, since one host at a time has an
// actor, and all that is answered is current.
func TestActorsMoveUnderLoad(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky} {
		t.Run(placement, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { moveUnderLoad(t, placement) }) })
	}
}

// timedCommits is a store whose commits take a while of the bubble's time.
type timedCommits struct{ *fakeStore }

func (s timedCommits) Commit(ctx context.Context, commits []actor.Commit) []error {
	time.Sleep(time.Millisecond)
	return s.fakeStore.Commit(ctx, commits)
}

func moveUnderLoad(t *testing.T, placement string) {
	const actors, clients, calls, moves = 4, 8, 150, 60
	store := timedCommits{sharedFake()}
	var refused, given atomic.Int64
	var owners [actors]atomic.Int64 // the host of each actor; -1: it moves
	var hosts [2]*owned
	index := func(k actor.Key) int { return int(k.ID[0] - '0') }
	for i := range hosts {
		hosts[i] = newOwned(t, placement, actor.NotHeld, host.Config{Committer: store, Observers: []host.Events{{
			Commit: func(e host.CommitEnd) {
				if e.Err != nil {
					refused.Add(1)
				}
			},
		}}})
		hosts[i].holdings.Set(func(k actor.Key) actor.Hold {
			if owners[index(k)].Load() == int64(i) {
				return actor.HeldClean
			}
			return actor.NotHeld
		})
	}
	var added [actors]atomic.Int64
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			var seen [actors]int64 // the least that this client may be shown
			for n := range calls {
				at := (client + n) % actors
				method := []string{"Add", "Touch", "View"}[n%3]
				least := added[at].Load()
				var reply string
				for {
					h := hosts[max(0, owners[at].Load())]
					var err error
					reply, err = h.call(t.Context(), fmt.Sprint(at), method)
					if !errors.Is(err, actor.ErrNotOwner) {
						if err != nil {
							t.Error(err)
						}
						break
					}
					given.Add(1)
					time.Sleep(time.Millisecond) // the bubble's
				}
				var got int64
				fmt.Sscan(reply, &got)
				if method == "Add" {
					added[at].Add(1)
					least = seen[at] + 1
				}
				if got < max(least, seen[at]) {
					t.Errorf("%s of %d answers %d after %d", method, at, got, max(least, seen[at]))
				}
				seen[at] = got
				time.Sleep(time.Duration(client) * 100 * time.Microsecond)
			}
		})
	}
	for n := range moves {
		at, from := n%actors, owners[n%actors].Load()
		owners[at].Store(-1)
		if err := hosts[from].HandOver(t.Context(), func(k actor.Key) bool { return index(k) == at }); err != nil {
			t.Error(err)
		}
		owners[at].Store(1 - from)
		time.Sleep(2 * time.Millisecond)
	}
	group.Wait()
	for at := range added {
		row := store.row(key(fmt.Sprint(at)))
		if want := fmt.Sprintf(`{"n":%d}`, added[at].Load()); !strings.Contains(string(row.State.Data), fmt.Sprint(added[at].Load())) {
			t.Errorf("actor %d has %s, want %s", at, row.State.Data, want)
		}
	}
	if refused.Load() != 0 || given.Load() == 0 {
		t.Errorf("%d commits were refused, %d calls given back", refused.Load(), given.Load())
	}
	if store.takeVersions() != 0 {
		t.Error("the store was asked for versions")
	}
}

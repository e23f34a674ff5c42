package faultstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/faultstore"
	"github.com/greenroom-run/greenroom/store/storetest"
)

func TestTransparentWithoutFaults(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, faultstore.Config{}) })
}

// TestContractHoldsUnderRetries runs the whole contract through a client that
// tries again whatever is unavailable.
func TestContractHoldsUnderRetries(t *testing.T) {
	faults := faultstore.Config{Seed: 7, Rates: map[faultstore.Fault]float64{
		faultstore.LoadFails: 0.2, faultstore.CommitFails: 0.2, faultstore.CommitPartlyFails: 0.2,
		faultstore.TurnRetried: 0.3, faultstore.TurnFails: 0.1, faultstore.SettleFails: 0.2,
		faultstore.ModuleWriteFails: 0.2, faultstore.SettingFails: 0.2, faultstore.VersionsFail: 0.2, faultstore.RecordLoadFails: 0.2,
		faultstore.ReminderReadFails: 0.2, faultstore.BucketFails: 0.2,
	}}
	storetest.Run(t, func(t *testing.T) store.Store {
		s := open(t, faults)
		if t.Name() == "TestContractHoldsUnderRetries/Open" {
			t.Cleanup(func() {
				if p := s.Pending(); len(p) > 0 {
					t.Errorf("planned faults that never happened: %q", p)
				}
			})
		}
		return retrying{s}
	})
}

// TestNothingLostUnderFaults increments counters from many clients, with every
// fault there is, and settles what is ambiguous: the sum is what was said to
// have applied.
func TestNothingLostUnderFaults(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rates := make(map[faultstore.Fault]float64)
			for _, f := range faultstore.Faults() {
				if f != faultstore.ModuleWriteFails && f != faultstore.SettingFails && f != faultstore.RecordLoadFails && f != faultstore.VersionsFail && f != faultstore.LeaseFails && f != faultstore.LeaseReplyLost &&
					f != faultstore.ReminderReadFails && f != faultstore.BucketFails && f != faultstore.BucketReplyLost {
					rates[f] = 0.15
				}
			}
			s := open(t, faultstore.Config{Seed: seed, Rates: rates})
			const clients, each, counters = 4, 60, 3
			var (
				wg      sync.WaitGroup
				mu      sync.Mutex
				applied [counters]int
				unknown [counters]int
			)
			for client := range clients {
				wg.Go(func() {
					for i := range each {
						at := (client + i) % counters
						k := key(fmt.Sprint(at))
						var err error
						if i%2 == 0 {
							err = incrementWarm(t.Context(), s, k)
						} else {
							err = incrementLocked(t.Context(), s, k)
						}
						mu.Lock()
						switch {
						case err == nil:
							applied[at]++
						case errors.Is(err, actor.ErrAmbiguous):
							unknown[at]++
						case !errors.Is(err, actor.ErrStale) && !errors.Is(err, actor.ErrUnavailable):
							t.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			// How often each operation happens is a matter of timing.
			for i := 0; i < 20*each && len(s.Pending()) > 0; i++ {
				_ = incrementWarm(t.Context(), s, key("other"))
				_ = incrementLocked(t.Context(), s, key("other"))
			}
			if p := s.Pending(); len(p) > 0 {
				t.Errorf("planned faults that never happened: %q", p)
			}
			s.Calm()
			for at := range counters {
				got := count(load(t, s, key(fmt.Sprint(at))))
				if got < applied[at] || got > applied[at]+unknown[at] {
					t.Errorf("counter %d is %d; %d increments applied, %d are unknown", at, got, applied[at], unknown[at])
				}
			}
			t.Logf("applied %v, unknown %v", applied, unknown)
		})
	}
}

func incrementWarm(ctx context.Context, s store.Store, k actor.Key) error {
	rows, err := s.LoadActors(ctx, []actor.Key{k}, actor.LoadOptions{})
	if err != nil {
		return err
	}
	c := counted(k, rows[0], count(rows[0])+1)
	return settled(ctx, s, c, s.Commit(ctx, []actor.Commit{c})[0])
}

func incrementLocked(ctx context.Context, s store.Store, k actor.Key) error {
	c, err := s.LockedTurn(ctx, k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
		c := counted(k, row, count(row)+1)
		return &c, nil
	})
	if err != nil && errors.Is(err, actor.ErrAmbiguous) {
		return settled(ctx, s, *c, err)
	}
	return err
}

// settled turns an ambiguous outcome into what settling says.
func settled(ctx context.Context, s store.Store, c actor.Commit, err error) error {
	for errors.Is(err, actor.ErrAmbiguous) {
		verdict := s.Settle(ctx, c)
		if !errors.Is(verdict, actor.ErrUnavailable) {
			return verdict
		}
	}
	return err
}

// TestEachFault has each fault there is happen once.
func TestEachFault(t *testing.T) {
	k := key("a")
	untested := faultstore.Faults()
	for _, c := range []struct {
		fault   faultstore.Fault
		answer  error
		applied bool
		do      func(t *testing.T, s store.Store, c actor.Commit) error
	}{
		{faultstore.LoadFails, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, err := s.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{})
			return err
		}},
		{faultstore.RecordLoadFails, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, err := s.LoadIdempotency(t.Context(), []actor.KeyedCall{{Actor: k, Method: "Add", Key: "k"}})
			return err
		}},
		{faultstore.VersionsFail, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, err := s.Versions(t.Context(), []actor.Key{k})
			return err
		}},
		{faultstore.CommitFails, actor.ErrUnavailable, false, commit},
		{faultstore.CommitPartlyFails, actor.ErrUnavailable, false, commit},
		{faultstore.CommitLost, actor.ErrAmbiguous, false, commit},
		{faultstore.CommitReplyLost, actor.ErrAmbiguous, true, commit},
		{faultstore.TurnRetried, nil, true, turn},
		{faultstore.TurnFails, actor.ErrUnavailable, false, turn},
		{faultstore.TurnLost, actor.ErrAmbiguous, false, turn},
		{faultstore.TurnReplyLost, actor.ErrAmbiguous, true, turn},
		{faultstore.SettleFails, actor.ErrUnavailable, false, settle},
		{faultstore.SettleReplyLost, actor.ErrUnavailable, false, settle},
		{faultstore.ModuleWriteFails, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			wasm := []byte("x")
			return s.PutModule(t.Context(), actor.Module{App: "app", Digest: actor.DigestOf(wasm), Size: 1}, bytes.NewReader(wasm), 0)
		}},
		{faultstore.SettingFails, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			return s.PutSetting(t.Context(), actor.Setting{App: "app", Kind: actor.SettingConfig, Name: "a"})
		}},
		{faultstore.LeaseFails, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, _, err := s.AcquireLease(t.Context(), "l", "h", time.Minute)
			return err
		}},
		{faultstore.LeaseReplyLost, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, _, err := s.AcquireLease(t.Context(), "l", "h", time.Minute)
			return err
		}},
		{faultstore.ReminderReadFails, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, err := s.FindReminders(t.Context(), []actor.ReminderName{{Key: k, Name: "n"}})
			return err
		}},
		{faultstore.BucketFails, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, err := s.AllocateBucket(t.Context(), "app", "h", vector)
			return err
		}},
		{faultstore.BucketReplyLost, actor.ErrUnavailable, false, func(t *testing.T, s store.Store, _ actor.Commit) error {
			_, err := s.AllocateBucket(t.Context(), "app", "h", vector)
			return err
		}},
	} {
		untested = slices.DeleteFunc(untested, func(f faultstore.Fault) bool { return f == c.fault })
		t.Run(string(c.fault), func(t *testing.T) {
			s := open(t, faultstore.Config{})
			s.Arm(c.fault, 1)
			if p := s.Pending(); !slices.Equal(p, []faultstore.Fault{c.fault}) {
				t.Fatalf("pending are %q", p)
			}
			attempt := counted(k, actor.Row{}, 1)
			if err := c.do(t, s, attempt); !errors.Is(err, c.answer) {
				t.Fatalf("answer is %v, want %v", err, c.answer)
			}
			if n, p := s.Fired(c.fault), s.Pending(); n != 1 || len(p) > 0 {
				t.Fatalf("fired %d times, pending %q", n, p)
			}
			if got := load(t, s, k).CommitID == attempt.ID; got != c.applied {
				t.Fatalf("applied: %t, want %t", got, c.applied)
			}
			_ = c.do(t, s, attempt) // whatever it says now, no fault is left
			if n := s.Fired(c.fault); n != 1 {
				t.Fatalf("the fault happened %d times", n)
			}
		})
	}
	if len(untested) > 0 {
		t.Errorf("no case for %q", untested)
	}
}

var vector = actor.Vector([]byte("abcdefgh"))

func commit(t *testing.T, s store.Store, c actor.Commit) error {
	t.Helper()
	return s.Commit(t.Context(), []actor.Commit{c})[0]
}

func settle(t *testing.T, s store.Store, c actor.Commit) error {
	t.Helper()
	return s.Settle(t.Context(), c)
}

func turn(t *testing.T, s store.Store, c actor.Commit) error {
	t.Helper()
	got, err := s.LockedTurn(t.Context(), c.Anchor().Key, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
		if row.Version != 0 {
			return nil, nil
		}
		return &c, nil
	})
	if errors.Is(err, actor.ErrAmbiguous) && (got == nil || got.ID != c.ID) {
		t.Errorf("the commit to settle is %v", got)
	}
	return err
}

func TestPartlyFailedGroup(t *testing.T) {
	s := open(t, faultstore.Config{Seed: 3})
	s.Arm(faultstore.CommitPartlyFails, 1)
	commits := make([]actor.Commit, 5)
	for i := range commits {
		commits[i] = counted(key(fmt.Sprint(i)), actor.Row{}, i)
	}
	failed := 0
	for i, err := range s.Commit(t.Context(), commits) {
		applied := load(t, s, commits[i].Anchor().Key).CommitID == commits[i].ID
		if applied != (err == nil) {
			t.Errorf("commit %d was answered %v; applied: %t", i, err, applied)
		}
		if err != nil {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d commits failed, want 1", failed)
	}
}

func TestSameSeedSameFaults(t *testing.T) {
	run := func() (outcomes []bool) {
		s := open(t, faultstore.Config{Seed: 42, Rates: map[faultstore.Fault]float64{faultstore.CommitFails: 0.5}})
		for i := range 50 {
			outcomes = append(outcomes, commit(t, s, counted(key(fmt.Sprint(i)), actor.Row{}, 1)) == nil)
		}
		return outcomes
	}
	if a, b := run(), run(); !slices.Equal(a, b) {
		t.Errorf("the same seed gave %v and %v", a, b)
	}
}

func TestHold(t *testing.T) {
	for _, c := range []struct {
		point   faultstore.Point
		applied bool // while it is held
		do      func(t *testing.T, s store.Store, c actor.Commit) error
	}{
		{faultstore.BeforeCommit, false, commit},
		{faultstore.AfterCommit, true, commit},
		{faultstore.BeforeTurnCommit, false, turn},
	} {
		t.Run(string(c.point), func(t *testing.T) {
			s := open(t, faultstore.Config{})
			held := s.Hold(c.point)
			attempt := counted(key("a"), actor.Row{}, 1)
			done := make(chan error)
			go func() { done <- c.do(t, s, attempt) }()
			<-held.Reached()
			if got := load(t, s, attempt.Anchor().Key).CommitID == attempt.ID; got != c.applied {
				t.Errorf("applied while held: %t, want %t", got, c.applied)
			}
			held.Release()
			held.Release()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if load(t, s, attempt.Anchor().Key).CommitID != attempt.ID {
				t.Error("not applied after the release")
			}
		})
	}
	t.Run("a context ends the wait honestly", func(t *testing.T) {
		s := open(t, faultstore.Config{})
		for point, want := range map[faultstore.Point]error{
			faultstore.BeforeCommit: context.Canceled, faultstore.AfterCommit: actor.ErrAmbiguous,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			held := s.Hold(point)
			done := make(chan error)
			go func() { done <- s.Commit(ctx, []actor.Commit{counted(key(string(point)), actor.Row{}, 1)})[0] }()
			<-held.Reached()
			cancel()
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("%s: error is %v, want %v", point, err, want)
			}
		}
	})
}

func open(t *testing.T, cfg faultstore.Config) *faultstore.Store {
	t.Helper()
	inner, err := embedded.Open(t.Context(), embedded.Config{Dir: "data", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	s := faultstore.New(inner, cfg)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func key(id string) actor.Key { return actor.Key{App: "app", Type: "Counter", ID: id} }

func counted(k actor.Key, row actor.Row, n int) actor.Commit {
	w := actor.RowWrite{
		Key: k, ReadVersion: row.Version, NewVersion: row.Version + 1,
		State: &actor.EncodedState{Format: actor.FormatJSON, Data: fmt.Appendf(nil, `{"count":%d}`, n)},
	}
	if row.Version == 0 {
		w.NewVersion = actor.FirstVersion()
	}
	return actor.CommitOf(w)
}

func count(row actor.Row) (n int) {
	if _, err := fmt.Sscanf(string(row.State.Data), `{"count":%d}`, &n); err != nil {
		return 0
	}
	return n
}

func load(t *testing.T, s store.Store, k actor.Key) actor.Row {
	t.Helper()
	rows, err := s.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return rows[0]
}

// TestLeaseReplyLost: a lease whose answer was lost is held all the same.
func TestLeaseReplyLost(t *testing.T) {
	s := open(t, faultstore.Config{})
	s.Arm(faultstore.LeaseReplyLost, 1)
	if _, taken, err := s.AcquireLease(t.Context(), "l", "a", time.Minute); taken && err == nil || !errors.Is(err, actor.ErrUnavailable) {
		t.Fatalf("taken: %t, %v", taken, err)
	}
	if _, taken, err := s.AcquireLease(t.Context(), "l", "b", time.Minute); taken || err != nil {
		t.Fatalf("another takes it: %t, %v", taken, err)
	}
}

// TestBucketReplyLost: what was done to a bucket is done, though the answer was lost.
func TestBucketReplyLost(t *testing.T) {
	s := open(t, faultstore.Config{})
	lost := func(err error) {
		t.Helper()
		if !errors.Is(err, actor.ErrUnavailable) {
			t.Fatalf("the answer is not lost: %v", err)
		}
		s.Arm(faultstore.BucketReplyLost, 1)
	}
	only := func() actor.BucketRow {
		t.Helper()
		rows, err := s.Buckets(t.Context(), actor.Bucket{}, 10)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%+v, %v", rows, err)
		}
		return rows[0]
	}
	lost(actor.ErrUnavailable)
	_, err := s.AllocateBucket(t.Context(), "app", "h", vector)
	lost(err)
	b := only()
	_, done, err := s.AssignBucket(t.Context(), b.Bucket, b.Epoch, "h")
	if lost(err); done || only().Owner != "h" {
		t.Errorf("answered %t, and the owner is %q", done, only().Owner)
	}
	lost(s.SaveBuckets(t.Context(), []store.BucketProgress{{Bucket: b.Bucket, Used: 7}}))
	lost(s.CloseBucket(t.Context(), b.Bucket))
	if b := only(); !b.Closed || b.Used != 7 {
		t.Errorf("%+v", b)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, err := s.RemoveBucket(t.Context(), b.Bucket, now.Add(time.Hour))
	if !errors.Is(err, actor.ErrUnavailable) || gone {
		t.Fatalf("%t, %v", gone, err)
	}
	if rows, err := s.Buckets(t.Context(), actor.Bucket{}, 10); err != nil || len(rows) > 0 {
		t.Errorf("left: %+v, %v", rows, err)
	}
}

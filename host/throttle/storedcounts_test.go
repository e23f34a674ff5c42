package throttle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// slowly is a warehouse whose counts take a while: they find what was there when they began.
type slowly struct {
	warehouse
	takes, spent time.Duration
}

func (s *slowly) CountStored(ctx context.Context, app string, quotas []actor.Quota) (actor.Stored, error) {
	found, err := s.warehouse.CountStored(ctx, app, quotas)
	time.Sleep(s.takes)
	s.spent += s.takes
	return found, err
}

// newStored returns a type of an app with rules, at one of so many hosts, which nobody has counted.
func newStored(t *testing.T, by Counter, hosts int, rules actor.Rules) (*Type, *rulebook) {
	t.Helper()
	book := &rulebook{rules: rules}
	g := New(Config{Source: book, Hosts: func() int { return hosts }, Counter: by})
	t.Cleanup(g.Stop)
	typ := TypeOf(g, "app", "T", true)
	if err := typ.Admit(t.Context(), call("Do", "a", "")); err != nil {
		t.Fatal(err)
	}
	return typ, book
}

var oneActor = actor.Stored{Actors: 1}

// TestCountsTakeAPartOfTheTime: however long a count takes, and whether it fails or not, a host counts for a
// twentieth of the time at most.
func TestCountsTakeAPartOfTheTime(t *testing.T) {
	for _, fails := range []error{nil, errors.New("away")} {
		for _, quota := range []int64{1e12, 10} {
			synctest.Test(t, func(t *testing.T) {
				w := &slowly{takes: 10 * time.Second, warehouse: warehouse{err: fails, has: actor.Stored{Actors: 10}}}
				typ, _ := newStored(t, w, 1, actor.Rules{Stored: map[actor.Quota]int64{actor.QuotaActors: quota}})
				began := time.Now()
				for time.Since(began) < 2*time.Hour {
					_ = typ.Grow(oneActor) // at the quota it is refused, and asks for counts all the same
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if most := time.Since(began)/countShare + w.takes; w.spent > most || w.spent < most/2 {
					t.Errorf("failing with %v, the quota %d: counted for %v in %v", fails, quota, w.spent, time.Since(began))
				}
			})
		}
	}
}

// TestFailedCountIsRepeated: a count that has failed is repeated after a moment, and not only when the last one is old.
func TestFailedCountIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &warehouse{err: errors.New("away")}
		typ, _ := newStored(t, w, 1, quotaOf10)
		for i := range 3 {
			if err := typ.Grow(oneActor); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if w.counts != i+1 {
				t.Errorf("counted %d times, want %d", w.counts, i+1)
			}
			time.Sleep(countFull)
		}
	})
}

// TestQuotaIsCountedAtOnce: a quota that was added is counted when something grows, however short ago others were; until
// then it refuses nothing, and then it does. No count begins for what stores nothing, and none after Stop.
func TestQuotaIsCountedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowly{takes: time.Second, warehouse: warehouse{has: actor.Stored{Messages: 100}}}
		typ, book := newStored(t, w, 10, actor.Rules{Stored: map[actor.Quota]int64{actor.QuotaActors: 1e6}})
		allow := func(by actor.Stored) {
			t.Helper()
			for range 3 { // more than a tenth of what the hosts share
				if err := typ.Grow(by); err != nil {
					t.Errorf("what was not counted refuses: %v", err)
				}
			}
		}
		allow(actor.Stored{Actors: 9e5})
		time.Sleep(2 * time.Second)
		if err := typ.Grow(oneActor); !errors.Is(err, actor.ErrQuotaExceeded) {
			t.Errorf("what was counted does not refuse: %v", err)
		}
		book.set(actor.Rules{Stored: map[actor.Quota]int64{actor.QuotaActors: 1e8, actor.QuotaMessages: 10}}, nil)
		if err := typ.app.by.Changed(t.Context(), "app"); err != nil {
			t.Fatal(err)
		}
		counts := w.counts
		allow(actor.Stored{Messages: 5})
		time.Sleep(2 * time.Second)
		if err := typ.Grow(actor.Stored{Messages: 1}); !errors.Is(err, actor.ErrQuotaExceeded) || w.counts != counts+1 {
			t.Errorf("after it was counted %d times: %v", w.counts-counts, err)
		}
		time.Sleep(time.Hour)
		counts = w.counts
		if err := typ.Grow(actor.Stored{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		typ.app.by.Stop()
		if err := typ.Grow(oneActor); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if w.counts != counts {
			t.Errorf("counted %d times", w.counts-counts)
		}
	})
}

// TestGrowthDuringACount: what is stored while a count is under way, which has not found it, is known after it.
func TestGrowthDuringACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowly{takes: time.Second}
		typ, _ := newStored(t, w, 1, quotaOf10)
		store := func() {
			t.Helper()
			if err := typ.Grow(oneActor); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // a count that it has begun has read
			w.put(oneActor)
		}
		for range 3 {
			store()
		}
		for range 4 {
			time.Sleep(countAgain)
			synctest.Wait()
			if stored, known := typ.app.by.Stored("app"); !known || stored.Actors != w.actors() {
				t.Errorf("%+v are known, and %d are stored", stored, w.actors())
			}
			store()
		}
	})
}

package throttle

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// warehouse is what an app really stores.
type warehouse struct {
	mu     sync.Mutex
	has    actor.Stored
	counts int
	err    error
}

func (w *warehouse) CountStored(context.Context, string, []actor.Quota) (actor.Stored, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts++
	return w.has, w.err
}

// put is a commit.
func (w *warehouse) put(by actor.Stored) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.has.Add(by, 1)
}

func (w *warehouse) actors() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.has.Actors
}

var quotaOf10 = actor.Rules{Stored: map[actor.Quota]int64{actor.QuotaActors: 10}}

// onHosts returns an app at so many hosts, where it was counted.
func onHosts(t *testing.T, hosts int, w *warehouse, rules actor.Rules) (types []*Type) {
	t.Helper()
	for range hosts {
		g := New(Config{Source: &rulebook{rules: rules}, Hosts: func() int { return hosts }, Counter: w})
		t.Cleanup(g.Stop)
		typ := TypeOf(g, "app", "T", true)
		if err := typ.Admit(t.Context(), call("Do", "a", "")); err != nil {
			t.Fatal(err)
		}
		if err := typ.Grow(actor.Stored{Reminders: 1}); err != nil {
			t.Fatal(err)
		}
		types = append(types, typ)
	}
	synctest.Wait()
	return types
}

// TestStoredQuota: what is above a quota is refused, with its name, and what shrinks or is bounded by another one is
// not; after something was removed, there is room again, and a quota of several hosts is passed by one growth of each
// other host at most.
func TestStoredQuota(t *testing.T) {
	for _, hosts := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			w := &warehouse{}
			types := onHosts(t, hosts, w, quotaOf10)
			one := actor.Stored{Actors: 1, Bytes: 1 << 40}
			grow := func() (refused int) {
				for i := range 60 {
					err := types[i%hosts].Grow(one)
					if err == nil {
						w.put(one)
						continue
					}
					refused++
					refusal(t, err, actor.ErrQuotaExceeded, "the quota actors of the app app is 10")
					if !strings.Contains(err.Error(), "greenroom apps set app --quota actors=") {
						t.Error(err)
					}
				}
				return refused
			}
			for range 10 { // until all is used up that the hosts leave each other
				grow()
				time.Sleep(countAgain)
				synctest.Wait()
			}
			if n := w.actors(); n < 10 || n > 10+int64(hosts)-1 {
				t.Errorf("%d hosts: %d actors", hosts, n)
			}
			if err := types[0].Grow(actor.Stored{Bytes: 5, Messages: 1}); err != nil {
				t.Errorf("what no quota bounds: %v", err)
			}
			freed := actor.Stored{Actors: -5}
			if err := types[0].Grow(freed); err != nil {
				t.Errorf("what shrinks: %v", err)
			}
			w.put(freed)
			if err := types[0].Grow(one); err != nil {
				t.Errorf("into what was removed here: %v", err)
			}
		})
	}
}

// TestStoredIsCounted: no app is counted without such a quota, none that does not grow, and one that grows not more often
// than it has to be; while the store cannot be read, the last count holds.
func TestStoredIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &warehouse{}
		typ := onHosts(t, 1, w, actor.Rules{Quotas: map[actor.Quota]actor.Rate{actor.QuotaTurns: {PerSecond: 1e6}}})[0]
		for range 5 {
			if err := typ.Grow(actor.Stored{Actors: 1000}); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if _, known := typ.app.by.Stored("app"); w.counts != 0 || known {
			t.Errorf("counted %d times without a quota", w.counts)
		}
		typ = onHosts(t, 1, w, quotaOf10)[0]
		if w.counts != 1 {
			t.Errorf("counted %d times", w.counts)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.counts != 1 {
			t.Errorf("counted %d times while nothing grows", w.counts)
		}
		for range 100 {
			if err := typ.Grow(actor.Stored{Actors: 1}); err == nil {
				w.put(actor.Stored{Actors: 1})
			}
			time.Sleep(countFull / 10)
			synctest.Wait()
		}
		if w.counts < 5 || w.counts > 13 || w.actors() != 10 {
			t.Errorf("counted %d times, %d actors", w.counts, w.actors())
		}
		w.err = errors.New("away")
		time.Sleep(countAgain)
		if err := typ.Grow(actor.Stored{Actors: 1}); !errors.Is(err, actor.ErrQuotaExceeded) {
			t.Errorf("while the store cannot be read: %v", err)
		}
		synctest.Wait()
		if stored, known := typ.app.by.Stored("app"); !known || stored.Actors != 10 {
			t.Errorf("%+v are stored", stored)
		}
	})
}

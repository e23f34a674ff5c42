package compile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// asked is a request for a place.
type asked struct {
	owner string
	cost  uint64
}

// served returns the order in which requests get the only place, which all of them
// wait for. then may ask for more, each time one has it.
func served(t *testing.T, all []asked, then func(asked) []asked) (order []asked) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		release, err := q.acquire(owned(t, "before"), 1)
		if err != nil {
			t.Fatal(err)
		}
		type given struct {
			asked
			release func()
		}
		places := make(chan given, 1)
		ask := func(a asked) {
			go func() {
				release, err := q.acquire(owned(t, a.owner), a.cost)
				if err != nil {
					t.Error(err)
				}
				places <- given{a, release}
			}()
			synctest.Wait()
		}
		for _, a := range all {
			ask(a)
		}
		release()
		for synctest.Wait(); len(places) > 0; synctest.Wait() {
			has := <-places
			order = append(order, has.asked)
			for _, more := range then(has.asked) {
				ask(more)
			}
			has.release()
		}
		empty(t, q)
	})
	return order
}

func empty(t *testing.T, q *queue) {
	t.Helper()
	if q.turns.Len() != 0 || q.turns.Running() != 0 {
		t.Errorf("%d wait and %d run at the end", q.turns.Len(), q.turns.Running())
	}
}

func nothing(asked) []asked { return nil }

// owned is a context of an app, which serves if its name begins with an exclamation mark.
func owned(t *testing.T, name string) context.Context {
	app, serves := strings.CutPrefix(name, "!")
	return engine.WithOwner(t.Context(), engine.Owner{App: app, Serving: serves})
}

// Apps that need modules to serve share the places: the heavy modules of one delay another's
// by one compilation.
func TestAppsThatServeTakeTurns(t *testing.T) {
	all := slices.Repeat([]asked{{"!loud", 500}}, 5)
	all = append(all, asked{"!quiet", 500}, asked{"!small", 10})
	order := served(t, all, nothing)
	if want := []asked{{"!small", 10}, {"!loud", 500}, {"!quiet", 500}, {"!loud", 500}}; !slices.Equal(order[:4], want) {
		t.Errorf("got %v, want first %v", order, want)
	}
}

// An owner that asks for much holds another one up by one compilation.
func TestOwnersTakeTurns(t *testing.T) {
	all := slices.Repeat([]asked{{"busy", 10}}, 20)
	all = append(all, asked{"other", 10})
	order := served(t, all, nothing)
	if want := []asked{{"busy", 10}, {"other", 10}}; !slices.Equal(order[:2], want) {
		t.Errorf("got %v, want first %v", order, want)
	}
}

// What calls wait for has several times the share of uploads, and does not starve them: not
// even an app whose modules need compiling again and again.
func TestServingHasALargerShareThanUploads(t *testing.T) {
	left := 200
	order := served(t, []asked{{"upload", 10}, {"upload", 10}, {"!", 10}, {"!", 10}}, func(a asked) []asked {
		if left--; left < 0 {
			return nil
		}
		return []asked{a}
	})
	uploads := 0
	for _, a := range order[:180] {
		if a.owner == "upload" {
			uploads++
		}
	}
	if uploads < 19 || uploads > 21 {
		t.Errorf("%d uploads had a turn among 180, of %v", uploads, order)
	}
}

// A load that several apps wait for has the turn of each of them: it does not wait behind
// what else the first one needs, and is dealt once.
func TestLoadHasTheTurnsOfAllItsApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		release, err := q.acquire(owned(t, "before"), 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		work := func(ctx context.Context, name string) {
			go func() {
				release, err := q.acquire(ctx, 100)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				release()
			}()
			synctest.Wait()
		}
		for range 5 {
			work(owned(t, "loud"), "loud")
		}
		p := &pending{mu: new(sync.Mutex), more: make(chan struct{})}
		p.mu.Lock()
		p.join(owned(t, "loud"))
		p.mu.Unlock()
		work(context.WithValue(t.Context(), pendingKey{}, p), "both")
		for _, owner := range []string{"quiet", "quiet", "!quiet"} {
			p.mu.Lock()
			p.join(owned(t, owner))
			p.mu.Unlock()
			synctest.Wait()
		}
		release()
		synctest.Wait()
		if order[0] != "both" || len(order) != 6 {
			t.Errorf("got %v", order)
		}
		empty(t, q)
	})
}

// What is cheap goes before what is costly, whose ever that is and whoever came first.
func TestCheapBeforeCostly(t *testing.T) {
	order := served(t, []asked{{"a", 500}, {"b", 400}, {"c", 5}, {"a", 3}, {"d", 300}, {"d", 4}}, nothing)
	want := []asked{{"a", 3}, {"d", 4}, {"c", 5}, {"d", 300}, {"b", 400}, {"a", 500}}
	if !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

// However many cheap ones come, of its own or of other owners, what is costly waits for
// about as much of each of them as it costs itself.
func TestCostlyIsNotStarved(t *testing.T) {
	for name, owners := range map[string][]string{"one other": {"busy"}, "its own": {"slow"}, "three": {"x", "y", "z"}} {
		left := 1000
		all := []asked{{"slow", 100}}
		for _, owner := range owners {
			all = append(all, asked{owner, 10}, asked{owner, 10})
		}
		order := served(t, all, func(a asked) []asked {
			if left--; left < 0 || a.cost == 100 {
				return nil
			}
			return []asked{a}
		})
		if at := slices.Index(order, all[0]); at > 12*len(owners) {
			t.Errorf("%s: the costly one was number %d of %d", name, at+1, len(order))
		}
	}
}

// New owners begin where the others are: they do not hold up what is costly for ever.
func TestNewOwnersBeginNow(t *testing.T) {
	news := 100
	order := served(t, []asked{{"slow", 100}, {"new", 10}}, func(a asked) []asked {
		if news--; news < 0 || a.owner == "slow" {
			return nil
		}
		return []asked{{fmt.Sprint("new", news), 10}}
	})
	if at := slices.Index(order, asked{"slow", 100}); at > 12 {
		t.Errorf("the costly one was number %d of %d", at+1, len(order))
	}
}

// A place that is given to a request as its context ends is given back, and a request that has
// ended before gets none.
func TestPlaceIsGivenToOneThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		first := &fair.Entry[*waiter]{App: "first", Value: &waiter{given: make(chan struct{})}}
		if err := q.turns.Push(first); err != nil {
			t.Fatal(err)
		}
		q.deal()
		ctx, cancel := context.WithCancel(owned(t, "ends"))
		go func() {
			if release, err := q.acquire(ctx, 1); err == nil {
				release()
			}
		}()
		synctest.Wait()
		q.mu.Lock()
		cancel()
		q.turns.Remove(first)
		q.deal()
		q.mu.Unlock()
		synctest.Wait()
		empty(t, q)
		for range 32 {
			if _, err := q.acquire(ctx, 1); err == nil {
				t.Fatal("a request that had ended got a place")
			}
		}
	})
}

// Who is gone has no place, and holds up nobody.
func TestQueueLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		release, err := q.acquire(owned(t, "first"), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(owned(t, "gone"))
		gone := make(chan error)
		go func() {
			_, err := q.acquire(ctx, 1)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; err == nil {
			t.Error("it got a place")
		}
		release()
		empty(t, q)
	})
}

// The compiler asks for places by what modules cost.
func TestCheapModulesAreCompiledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCompiler(t, Config{InProcess: true})
		release, err := c.queue.acquire(owned(t, "before"), 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []uint64
		load := func(cost uint64) {
			m := module(Native, answer(int32(cost%1000_003)))
			m.Cost = cost
			m.Prepare = func(wasm []byte) ([]byte, error) {
				order = append(order, cost)
				return wasm, nil
			}
			go func() {
				if _, err := (&loader{tb: t, compiler: c}).load(owned(t, "app"), m); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		load(100 * lightCost)
		load(2 * lightCost)
		load(lightCost) // has a place of its own
		if want := []uint64{lightCost}; !slices.Equal(order, want) {
			t.Errorf("while one compiles, %v were compiled", order)
		}
		release()
		synctest.Wait()
		if want := []uint64{lightCost, 2 * lightCost, 100 * lightCost}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

package compile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/engine"
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
		release, err := q.acquire(t.Context(), engine.Owner{App: "before"}, 1)
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
				release, err := q.acquire(t.Context(), ownerOf(a.owner), a.cost)
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
		if q.free != 1 || len(q.owners) != 0 {
			t.Errorf("left %+v", q)
		}
	})
	return order
}

func nothing(asked) []asked { return nil }

// ownerOf is the app of a name, which serves if the name begins with an exclamation mark.
func ownerOf(name string) engine.Owner {
	app, serves := strings.CutPrefix(name, "!")
	return engine.Owner{App: app, Serving: serves}
}

// Apps that need modules to serve go before uploads, and share the places: the heavy modules
// of one delay another's by one compilation.
func TestAppsThatServeTakeTurns(t *testing.T) {
	all := slices.Repeat([]asked{{"!loud", 500}}, 5)
	all = append(all, asked{"upload", 1}, asked{"!quiet", 500}, asked{"!small", 10})
	order := served(t, all, nothing)
	if want := []asked{{"!small", 10}, {"!loud", 500}, {"!quiet", 500}, {"!loud", 500}}; !slices.Equal(order[:4], want) || order[7].owner != "upload" {
		t.Errorf("got %v, want first %v and last the upload", order, want)
	}
}

// An owner that asks for much holds another one up by one compilation, and nobody
// holds up the server.
func TestOwnersTakeTurns(t *testing.T) {
	all := slices.Repeat([]asked{{"busy", 10}}, 20)
	all = append(all, asked{"other", 10}, asked{"!", 1000}, asked{"!", 1001})
	order := served(t, all, nothing)
	if want := []asked{{"!", 1000}, {"!", 1001}, {"busy", 10}, {"other", 10}}; !slices.Equal(order[:4], want) {
		t.Errorf("got %v, want first %v", order, want)
	}
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

// New owners begin where the others are: they do not hold up what is costly for ever, and of
// what ends at the same time that goes first whose owner has waited longer.
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
	order = served(t, []asked{{"a", 10}, {"a", 10}, {"b", 20}}, nothing)
	if want := []asked{{"a", 10}, {"b", 20}, {"a", 10}}; !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

// An owner that is behind catches up without moving the time back, and the server goes before
// it all the same, at no cost to others.
func TestOwnerThatIsBehind(t *testing.T) {
	begun := false
	order := served(t, []asked{{"a", 500}, {"b", 100}, {"b", 100}}, func(now asked) []asked {
		switch {
		case now.owner == "b" && !begun:
			begun = true
			return []asked{{"a", 3}, {"!", 1000}}
		case now.cost == 3:
			return []asked{{"c", 150}}
		case now.cost == 150:
			return []asked{{"!", 1000}, {"d", 200}}
		}
		return nil
	})
	want := []asked{{"b", 100}, {"!", 1000}, {"a", 3}, {"b", 100}, {"c", 150}, {"!", 1000}, {"d", 200}, {"a", 500}}
	if !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

// A place that is given to a request as its context ends is given back, and a request that has
// ended before gets none.
func TestPlaceIsGivenToOneThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		if _, err := q.acquire(t.Context(), engine.Owner{App: "first"}, 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := q.acquire(ctx, engine.Owner{App: "ends"}, 1); err == nil {
				t.Error("it did not end")
			}
		}()
		synctest.Wait()
		q.mu.Lock()
		cancel()
		q.owners[engine.Owner{App: "first"}].places-- // as release does
		q.free++
		q.next()
		q.tidy(engine.Owner{App: "first"})
		q.mu.Unlock()
		synctest.Wait()
		if q.free != 1 || len(q.owners) != 0 {
			t.Errorf("left %+v", q)
		}
		for range 32 {
			if _, err := q.acquire(ctx, engine.Owner{App: "ended"}, 1); err == nil {
				t.Fatal("a request that had ended got a place")
			}
		}
	})
}

// Who is gone has no place, and holds up nobody.
func TestQueueLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		release, err := q.acquire(t.Context(), engine.Owner{App: "first"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := q.acquire(ctx, engine.Owner{App: "gone"}, 1)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; err == nil {
			t.Error("it got a place")
		}
		release()
		if q.free != 1 || len(q.owners) != 0 {
			t.Errorf("left %+v", q)
		}
	})
}

// The compiler asks for places by what modules cost.
func TestCheapModulesAreCompiledFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCompiler(t, Config{InProcess: true})
		release, err := c.queue.acquire(t.Context(), engine.Owner{App: "before"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []uint64
		load := func(cost uint64) {
			m := module(Native, answer(int32(cost)))
			m.Cost = cost
			m.Prepare = func(wasm []byte) ([]byte, error) {
				order = append(order, cost)
				return wasm, nil
			}
			go func() {
				if _, err := (&loader{tb: t, compiler: c}).load(engine.WithOwner(t.Context(), engine.Owner{App: "app"}), m); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		load(1000)
		load(10)
		release()
		synctest.Wait()
		if want := []uint64{10, 1000}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

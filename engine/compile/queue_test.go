package compile

import (
	"context"
	"slices"
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
		release, err := q.acquire(t.Context(), "before", 1)
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
				release, err := q.acquire(t.Context(), a.owner, a.cost)
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

// An owner that asks for much holds another one up by one compilation, and nobody
// holds up the server.
func TestOwnersTakeTurns(t *testing.T) {
	all := slices.Repeat([]asked{{"busy", 10}}, 20)
	all = append(all, asked{"other", 10}, asked{"", 1000})
	order := served(t, all, nothing)
	if want := []asked{{"", 1000}, {"busy", 10}, {"other", 10}}; !slices.Equal(order[:3], want) {
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

// Who is gone has no place, and holds up nobody.
func TestQueueLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		release, err := q.acquire(t.Context(), "first", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := q.acquire(ctx, "gone", 1)
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
		release, err := c.queue.acquire(t.Context(), "before", 1)
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
				if _, err := (&loader{tb: t, compiler: c}).load(engine.WithOwner(t.Context(), "app"), m); err != nil {
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

package executor

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// spin has so many turns of a pool run without end, each on one processor, and counts their fuel in
// slices.
func spin(ctx context.Context, p *Pool, turns int) *atomic.Int64 {
	var used atomic.Int64
	for i := range turns {
		go func() {
			var slot Slot
			if slot.Enter(ctx, p, &actor.Key{App: fmt.Sprint(i % 2), Type: "T"}) != nil {
				return
			}
			for ctx.Err() == nil {
				time.Sleep(slice)
				used.Add(1)
				slot.Yield(slice)
			}
			slot.Leave(0)
		}()
	}
	return &used
}

// Pools whose turns never end use the processors by their weights, as far as their concurrency lets
// them, whatever the number of their turns.
func TestPoolsShareByWeight(t *testing.T) {
	for _, c := range []struct {
		name       string
		slots      int
		a, b       PoolConfig
		turns      [2]int
		wantShareA float64 // of all fuel
	}{
		{"by weight", 2, PoolConfig{Weight: 3}, PoolConfig{Weight: 1}, [2]int{8, 40}, 3. / 4},
		{"one processor", 1, PoolConfig{Weight: 8}, PoolConfig{Weight: 1}, [2]int{2, 40}, 8. / 9},
		{"the heavier one may have half", 2, PoolConfig{Weight: 9, Concurrency: 1}, PoolConfig{Weight: 1}, [2]int{8, 8}, 1. / 2},
		{"the other one may have half", 2, PoolConfig{Weight: 1}, PoolConfig{Weight: 9, Concurrency: 1}, [2]int{8, 8}, 1. / 2},
		{"less than its weight, by its concurrency", 4, PoolConfig{Weight: 9, Concurrency: 1}, PoolConfig{Weight: 1}, [2]int{8, 8}, 1. / 4},
		{"fewer turns than its weight is for", 4, PoolConfig{Weight: 9}, PoolConfig{Weight: 1}, [2]int{1, 40}, 1. / 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.a.Name, c.b.Name = "a", "b"
				s := New(c.slots, []PoolConfig{c.a, c.b})
				ctx, end := context.WithCancel(t.Context())
				b := spin(ctx, s.Pool("b"), c.turns[1])
				time.Sleep(100 * slice) // in which b has all that it may
				before := b.Load()
				a := spin(ctx, s.Pool("a"), c.turns[0])
				time.Sleep(1000 * slice)
				ofA, ofB := float64(a.Load()), float64(b.Load()-before)
				if share := ofA / (ofA + ofB); share < c.wantShareA*0.93 || share > c.wantShareA*1.07 {
					t.Errorf("a had %.3f of the fuel, want %.3f (%v of a, %v of b)", share, c.wantShareA, ofA, ofB)
				}
				end()
				time.Sleep(time.Second)
				if state := s.state.Load(); state != 0 {
					t.Errorf("state %x at the end", state)
				}
			})
		})
	}
}

// A flood of a pool that may not have all slots keeps none of another pool's turns waiting, and its
// own ones go on one after the other.
func TestFloodOfAPoolLeavesTheOtherItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		configs, err := Pools(2, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := New(2, configs)
		ctx, end := context.WithCancel(t.Context())
		flood := spin(ctx, s.Pool(PoolBatch), 100)
		time.Sleep(10 * slice)
		synctest.Wait() // a slice that ends at this instant has passed on its slot
		if p := s.Pool(PoolBatch); p.Running() != 1 || p.Waiting() != 99 {
			t.Fatalf("%d of the flood run, and %d wait", p.Running(), p.Waiting())
		}
		for range 20 {
			var turn Slot
			began := time.Now()
			if err := turn.Enter(t.Context(), s.Pool(PoolUser), &actor.Key{App: "a", Type: "U"}); err != nil || time.Since(began) != 0 {
				t.Fatalf("a turn has waited for %v: %v", time.Since(began), err)
			}
			time.Sleep(slice)
			if turn.Yield(slice); time.Since(began) > slice+idleFor {
				t.Errorf("it has gone behind the flood, for %v", time.Since(began))
			}
			turn.Leave(slice)
		}
		if n := flood.Load(); n < 25 {
			t.Errorf("the flood had %d slices beside it", n)
		}
		end()
		time.Sleep(time.Second)
	})
}

// A called turn has the slot of its caller also if its own pool has none free.
func TestCalledTurnRunsInThePoolOfItsCaller(t *testing.T) {
	s := New(2, []PoolConfig{{Name: "a", Concurrency: 1}, {Name: "b", Concurrency: 1}})
	var caller, called, other Slot
	who := actor.Key{App: "x", Type: "T"}
	for slot, pool := range map[*Slot]string{&caller: "a", &other: "b"} {
		if err := slot.Enter(t.Context(), s.Pool(pool), &who); err != nil {
			t.Fatal(err)
		}
	}
	if !called.TakeFrom(t.Context(), &caller, &who) || s.Pool("a").Running() != 1 || s.Pool("b").Running() != 1 {
		t.Error("the called turn has not the slot of its caller")
	}
	called.Leave(1)
	caller.Leave(1)
	other.Leave(1)
	if s.state.Load() != 0 || s.Pool("a").state.Load() != 0 {
		t.Errorf("state %x", s.state.Load())
	}
}

// What pools are configured, and which problem is named.
func TestPools(t *testing.T) {
	got, err := Pools(4, []PoolConfig{{Name: "reports", Concurrency: 1}, {Name: PoolBatch, Weight: 2}, {Name: PoolUser, Concurrency: 3}})
	want := []PoolConfig{{PoolSystem, 0, 8}, {PoolInterconnect, 0, 8}, {PoolUser, 3, 8}, {PoolBatch, 3, 2}, {"reports", 1, 8}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := Pools(1, nil); err != nil || got[3].Concurrency != 1 {
		t.Errorf("of one slot: %v, %v", got, err)
	}
	for _, bad := range [][]PoolConfig{
		{{Name: "a/b"}}, {{Name: ""}}, {{Name: "a"}, {Name: "a"}}, {{Name: "a", Concurrency: -1}}, {{Name: "a", Weight: -1}}, {{Name: "a", Weight: MaxWeight + 1}},
	} {
		if got, err := Pools(1, bad); err == nil {
			t.Errorf("%v became %v", bad, got)
		}
	}
	var many []PoolConfig
	for i := range MaxPools {
		many = append(many, PoolConfig{Name: fmt.Sprint("p", i)})
	}
	if _, err := Pools(1, many); err == nil {
		t.Error("more pools than there may be")
	}
}

// The virtual time does not pass its bounds, and pools keep their order.
func TestVirtualTimeStaysSmall(t *testing.T) {
	s := New(1, []PoolConfig{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	a, b, c := s.Pool("a"), s.Pool("b"), s.Pool("c")
	a.at, b.at, c.at = 1<<60, 1<<60+7, 3
	s.pass(a.at)
	if s.now != 0 || a.at != 0 || b.at != 7 || c.at != 0 {
		t.Errorf("now %d: %d, %d and %d", s.now, a.at, b.at, c.at)
	}
}

package recent

import (
	"reflect"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func of(t *Turns, app string, now time.Time) App { return Add(now, t.Of(app, now)) }

func TestTurnsByType(t *testing.T) {
	turns := New()
	a, b := turns.Type("shop", "Cart"), turns.Type("shop", "Order")
	other := turns.Type("bank", "Account")
	for range 99 {
		a.Add(noon, time.Millisecond, false)
	}
	a.Add(noon.Add(Step-1), 8*time.Second, true)
	a.Add(noon.Add(Step), time.Millisecond, false)
	b.Add(noon.Add(2*Step), 100*time.Microsecond, false)
	other.Add(noon, time.Hour, true)
	turns.Type("shop", "Idle")

	got := of(turns, "shop", noon.Add(2*Step+time.Second))
	if !got.Last.Equal(noon.Add(2*Step)) || !got.First.Equal(noon.Add(2*Step-(Steps-1)*Step)) {
		t.Errorf("from %v to %v", got.First, got.Last)
	}
	if len(got.Types) != 2 || got.Types[0].Type != "Cart" || got.Types[1].Type != "Order" {
		t.Fatalf("types %+v", got.Types)
	}
	cart := got.Types[0]
	if len(cart.Steps) != 2 || cart.Steps[0].Index != Steps-3 || cart.Steps[0].Turns != 100 || cart.Steps[0].Errors != 1 || cart.Steps[1].Turns != 1 {
		t.Errorf("steps %+v", cart.Steps)
	}
	if p := cart.Total.P50; p < 800*time.Microsecond || p > 1200*time.Microsecond {
		t.Errorf("p50 %v of turns of 1 ms", p)
	}
	if p := cart.Steps[0].P99; p < 800*time.Microsecond || p > 1200*time.Microsecond {
		t.Errorf("p99 %v, where 99 of 100 took 1 ms", p)
	}
	if got.All.Total.Turns != 102 || got.All.Total.Errors != 1 || len(got.All.Steps) != 3 {
		t.Errorf("all %+v", got.All)
	}
	// An hour later nothing is left, and what it took is free.
	if later := of(turns, "shop", noon.Add(time.Hour+2*Step)); len(later.Types) != 0 || later.All.Total.Turns != 0 {
		t.Errorf("after an hour %+v", later)
	}
	a.Add(noon.Add(2*time.Hour), time.Millisecond, false)
	if used := turns.room.Used(); used != 1 {
		t.Errorf("%d steps have memory, one has a turn", used)
	}
	a.Add(noon, time.Millisecond, false) // of long ago
	if got := of(turns, "shop", noon.Add(2*time.Hour)); got.All.Total.Turns != 1 || got.Uncounted != 1 {
		t.Errorf("a turn of two hours ago: %+v", got)
	}
}

// What several servers counted is as if one had.
func TestServersTogether(t *testing.T) {
	one, two, both := New(), New(), New()
	for i := range 1000 {
		at, took, failed := noon.Add(time.Duration(i)*time.Second), time.Duration(i)*time.Millisecond, i%7 == 0
		server := one
		if i%3 == 0 {
			server = two
		}
		for _, turns := range []*Turns{server, both} {
			turns.Type("app", string(rune('A'+i%5))).Add(at, took, failed)
		}
	}
	now := noon.Add(1000 * time.Second)
	if got, want := Add(now, one.Of("app", now), two.Of("app", now)), of(both, "app", now); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// A server whose clock is ahead, and one of another version.
	ahead := Counts{Types: map[string][]StepCounts{"A": {{Number: number(now) + 1, Durations: []uint32{1}}, {Number: number(now), Errors: 9, Durations: make([]uint32, 2*buckets)}}}}
	ahead.Types["A"][1].Durations[2*buckets-1] = 2
	if got := Add(now, ahead).All.Total; got.Turns != 2 || got.Errors != 2 || got.P50 < 16*time.Second {
		t.Errorf("%+v", got)
	}
}

// Every duration is in the bucket whose limits it is between, and quantiles are off by a fifth at most.
func TestDurations(t *testing.T) {
	for d := time.Duration(0); d < 30*time.Second; d += d/50 + time.Microsecond {
		i := bucketOf(d)
		if lower(i) > d || i < buckets-1 && d >= lower(i+1) {
			t.Fatalf("%v is in the bucket %d, from %v to %v", d, i, lower(i), lower(i+1))
		}
		if i == 0 || i == buckets-1 {
			continue
		}
		var s sum
		s.turns, s.durations[i] = 1000, 1000
		if p := s.quantile(50); float64(p) < 0.75*float64(d) || float64(p) > 1.3*float64(d) {
			t.Errorf("the median of %v is %v", d, p)
		}
	}
}

// An app that has many types leaves room for others, and turns without room are counted as such.
func TestAppsShareRoom(t *testing.T) {
	turns := New()
	for i := range maxSteps/Steps + 2 {
		typ := turns.Type("many", string(rune('A'+i%26))+time.Duration(i).String())
		for n := range Steps {
			typ.Add(noon.Add(time.Duration(n)*Step), time.Millisecond, false)
		}
	}
	few := turns.Type("few", "T")
	few.Add(noon.Add((Steps-1)*Step), time.Millisecond, false)
	now := noon.Add((Steps - 1) * Step)
	if got := of(turns, "few", now); got.All.Total.Turns != 1 || got.Uncounted != 0 {
		t.Errorf("few: %+v", got.All.Total)
	}
	many := of(turns, "many", now)
	if sum := many.All.Total.Turns + many.Uncounted; many.Uncounted == 0 || sum != (maxSteps/Steps+2)*Steps {
		t.Errorf("many: %d counted, %d not", many.All.Total.Turns, many.Uncounted)
	}
}

func TestConcurrentTurns(t *testing.T) {
	turns := New()
	var running sync.WaitGroup
	for g := range 8 {
		running.Go(func() {
			typ := turns.Type("app", "T")
			for i := range 1000 {
				typ.Add(noon.Add(time.Duration(i)*time.Second), time.Duration(g)*time.Millisecond, i%10 == 0)
			}
		})
	}
	running.Wait()
	if got := of(turns, "app", noon.Add(1000*time.Second)).All.Total; got.Turns != 8000 || got.Errors != 800 {
		t.Errorf("%+v", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	typ := New().Type("app", "T")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			typ.Add(noon, time.Millisecond, false)
		}
	})
}

package placement

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const quarter = Point(1) << 62

// inQuarter is the i-th cell of a quarter of the hash space.
func inQuarter(q, i int) Cell { return Cell(q*Cells/4 + i) }

func part(first Cell, last Cell, h HostID, since time.Duration) Moved {
	return Moved{first.First(), last.Last(), h, since}
}

// TestCooling: what is done about the heat of a ring of four ranges, of which host a has
// the first and the third.
func TestCooling(t *testing.T) {
	base := mustTable(t, on(0, "a"), on(quarter, "b"), on(2*quarter, "a"), on(3*quarter, "b"))
	type cells = map[Cell]float64
	whole := part(0, inQuarter(1, 0)-1, "b", time.Hour)
	for name, tt := range map[string]struct {
		a, b    float64 // in all
		cells   cells   // of a
		moved   []Moved
		cooling Cooling
		want    []Moved // nil: nothing is done
		split   bool
	}{
		"nothing is known":           {a: 1000, b: 0},
		"below the rate":             {a: 99, b: 0, cells: cells{1: 50, 900: 49}},
		"even":                       {a: 1000, b: 900, cells: cells{1: 500, inQuarter(2, 1): 500}},
		"not far enough above":       {a: 1390, b: 610, cells: cells{1: 300, inQuarter(2, 1): 300}},
		"two ranges":                 {a: 1000, b: 100, cells: cells{1: 400, inQuarter(2, 1): 500}, want: []Moved{whole}},
		"the bigger that fits":       {a: 1000, b: 0, cells: cells{1: 400, inQuarter(2, 1): 300}, want: []Moved{whole}},
		"one range, at the best cut": {a: 1000, b: 0, cells: cells{10: 300, 20: 190, 30: 200, 40: 300}, want: []Moved{part(30, inQuarter(1, 0)-1, "b", time.Hour)}, split: true},
		"its first side":             {a: 1000, b: 0, cells: cells{10: 450, 20: 550}, want: []Moved{{0, Cell(20).First() - 1, "b", time.Hour}}, split: true},
		"one actor":                  {a: 1000, b: 0, cells: cells{10: 1000}},
		"one actor, and crumbs":      {a: 1000, b: 0, cells: cells{9: 40, 10: 910, 11: 40}},
		"beside one hot actor":       {a: 1000, b: 0, cells: cells{9: 60, 10: 900}, want: []Moved{part(0, 9, "b", time.Hour)}, split: true},
		"as many as may be": {
			a: 1000, b: 0, cells: cells{1: 400}, moved: []Moved{part(inQuarter(2, 0), inQuarter(2, 9), "b", 0)}, cooling: Cooling{MaxMoved: 1},
		},
		"moved a moment ago": {a: 1000, b: 0, cells: cells{inQuarter(1, 1): 400}, moved: []Moved{part(inQuarter(1, 0), inQuarter(1, 9), "a", time.Hour-time.Second)}},
		"moved, and hot again: home": {
			a: 1000, b: 0, cells: cells{inQuarter(1, 1): 400}, moved: []Moved{part(inQuarter(1, 0), inQuarter(1, 9), "a", 0)}, want: []Moved{},
		},
		"moved, and a side is hot": {
			a: 1000, b: 0, cells: cells{inQuarter(1, 1): 400, inQuarter(1, 5): 550}, moved: []Moved{part(inQuarter(1, 0), inQuarter(1, 9), "a", 0)},
			want: []Moved{part(inQuarter(1, 5), inQuarter(1, 9), "a", 0)}, split: true,
		},
		"cold: the older goes back": {
			a: 50, b: 60, cells: cells{inQuarter(1, 1): 3}, moved: []Moved{part(1, 9, "b", time.Minute), part(inQuarter(1, 0), inQuarter(1, 9), "a", 0)},
			want: []Moved{part(1, 9, "b", time.Minute)},
		},
		"not cold": {a: 50, b: 60, cells: cells{inQuarter(1, 1): 7}, moved: []Moved{part(inQuarter(1, 0), inQuarter(1, 9), "a", 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			loads := []Load{{Host: "b", Total: tt.b}, {Host: "a", Total: tt.a, Cells: map[string]map[Cell]float64{"T": tt.cells}}}
			state := RingState{Type: "T", Base: base, Moved: tt.moved, Table: base.WithMoved(tt.moved, []HostID{"a", "b"})}
			step, found := tt.cooling.Next(loads, []RingState{state}, time.Hour)
			if found != (tt.want != nil) || !slices.Equal(step.Moved, tt.want) || step.Split != tt.split {
				t.Errorf("%+v (%v), want %+v, cut: %v", step, found, tt.want, tt.split)
			}
		})
	}
	if _, found := (Cooling{}).Next([]Load{{Host: "a", Total: 1000, Cells: map[string]map[Cell]float64{"T": {1: 400}}}}, []RingState{{Type: "T", Base: base, Table: base}}, 0); found {
		t.Error("something moves where there is one host")
	}
}

// TestCoolingByWeight: hosts are as hot as they are asked for by their weights, and what
// moves evens that out.
func TestCoolingByWeight(t *testing.T) {
	base := mustTable(t, on(0, "a"), on(quarter, "b"))
	for name, tt := range map[string]struct {
		a, b  Load
		moves float64 // of the calls of a
	}{
		"a bigger host with more":         {Load{Weight: 128, Total: 1000}, Load{Weight: 32, Total: 250}, 0},
		"a smaller host with less":        {Load{Weight: 32, Total: 400}, Load{Weight: 128, Total: 600}, 200},
		"equal calls, unequal hosts":      {Load{Weight: 32, Total: 500}, Load{Weight: 128, Total: 500}, 300},
		"no weight is that of a mean one": {Load{Total: 1000}, Load{Weight: MeanWeight, Total: 0}, 500},
	} {
		tt.a.Host, tt.b.Host = "a", "b"
		tt.a.Cells = map[string]map[Cell]float64{"T": {}}
		for i := range 100 {
			tt.a.Cells["T"][Cell(i)] = tt.a.Total / 100
		}
		step, _ := Cooling{}.Next([]Load{tt.a, tt.b}, []RingState{{Type: "T", Base: base, Table: base}}, time.Hour)
		moved := 0.0
		for cell, rate := range tt.a.Cells["T"] {
			if step.To == "b" && step.First <= cell.First() && cell.First() <= step.Last {
				moved += rate
			}
		}
		if moved > tt.moves || moved < tt.moves-tt.a.Total/100 {
			t.Errorf("%s: %v calls a second move, want %v", name, moved, tt.moves)
		}
	}
}

// TestCoolingSettles: whatever the load, hosts come to a state in which nothing moves any
// more; no step makes the receiver the hottest, and in the end no host is hot that a step
// could help. When all is cold everything is where the ring has it.
func TestCoolingSettles(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		hosts := named(2 + rnd.IntN(5))
		base := ringTable(t, Ring{Ranges: 64}, hosts)
		rates := map[Cell]float64{}
		for range 5 + rnd.IntN(400) {
			rates[Cell(rnd.IntN(Cells))] = 20 + 1000*rnd.ExpFloat64()*float64(rnd.IntN(2))
		}
		var moved []Moved
		now := time.Duration(0)
		measure := func() (loads []Load, table *Table) {
			table = base.WithMoved(moved, hosts)
			for _, h := range hosts {
				loads = append(loads, Load{Host: h, Cells: map[string]map[Cell]float64{"T": {}}})
			}
			for cell, rate := range rates {
				l := &loads[slices.Index(hosts, table.Owner(cell.First()))]
				l.Total += rate
				l.Cells["T"][cell] = rate
			}
			return loads, table
		}
		most := func(loads []Load) (n float64) {
			for _, l := range loads {
				n = max(n, l.Total)
			}
			return n
		}
		settle := func() (steps int) {
			for idle := 0; idle < 10; now += 10 * time.Second {
				loads, table := measure()
				step, found := Cooling{}.Next(loads, []RingState{{Type: "T", Base: base, Table: table, Moved: moved}}, now)
				if !found {
					idle++
					continue
				}
				idle = 0
				if steps++; steps > 400 {
					t.Fatalf("seed %d: it does not settle", seed)
				}
				before := most(loads)
				moved = step.Moved
				loads, table = measure()
				if after := most(loads); !step.Back && after > before+1e-6 {
					t.Fatalf("seed %d: %+v made a host hotter: %v, then %v", seed, step, before, after)
				}
				for _, p := range []Point{step.First, step.Last} {
					if table.Owner(p) != step.To {
						t.Fatalf("seed %d: %+v, and %v is at %s", seed, step, p, table.Owner(p))
					}
				}
			}
			return steps
		}
		settle()
		clear(rates)
		settle()
		if len(moved) > 0 {
			t.Errorf("seed %d: all is cold, and %v is not at home", seed, moved)
		}
	}
}

func TestWithMoved(t *testing.T) {
	base := mustTable(t, on(0, "a"), on(100, "b"), on(200, "a"))
	at := func(r Range) Range { r.Moved = true; return r }
	last := LastPoint
	for name, tt := range map[string]struct {
		moved []Moved
		want  []Range
	}{
		"nothing":           {nil, base.Ranges()},
		"of a host that is": {[]Moved{{100, 199, "x", 0}}, base.Ranges()},
		"a whole range":     {[]Moved{{100, 199, "c", 0}}, []Range{on(0, "a"), at(on(100, "c")), on(200, "a")}},
		"the first side":    {[]Moved{{100, 149, "c", 0}}, []Range{on(0, "a"), at(on(100, "c")), on(150, "b"), on(200, "a")}},
		"the last side":     {[]Moved{{150, 199, "c", 0}}, []Range{on(0, "a"), on(100, "b"), at(on(150, "c")), on(200, "a")}},
		"over a bound":      {[]Moved{{50, 149, "c", 0}}, []Range{on(0, "a"), at(on(50, "c")), at(on(100, "c")), on(150, "b"), on(200, "a")}},
		"the ends":          {[]Moved{{0, 0, "b", 0}, {last, last, "b", 0}}, []Range{at(on(0, "b")), on(1, "a"), on(100, "b"), on(200, "a"), at(on(last, "b"))}},
		"two in one":        {[]Moved{{110, 119, "a", 0}, {130, 139, "c", 0}}, []Range{on(0, "a"), on(100, "b"), at(on(110, "a")), on(120, "b"), at(on(130, "c")), on(140, "b"), on(200, "a")}},
	} {
		got := base.WithMoved(tt.moved, []HostID{"a", "b", "c"}).Ranges()
		if !slices.EqualFunc(got, tt.want, func(a, b Range) bool {
			return a.First == b.First && a.Moved == b.Moved && slices.Equal(a.Hosts, b.Hosts)
		}) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestCells: cells cover the hash space in order.
func TestCells(t *testing.T) {
	for _, c := range []Cell{0, 1, Cells / 2, Cells - 1} {
		if CellOf(c.First()) != c || CellOf(c.Last()) != c || c > 0 && CellOf(c.First()-1) != c-1 || c < Cells-1 && CellOf(c.Last()+1) != c+1 {
			t.Errorf("cell %d is from %#x to %#x", c, uint64(c.First()), uint64(c.Last()))
		}
	}
	if CellOf(LastPoint) != Cells-1 {
		t.Error("the last point lies in no cell")
	}
}

package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Cell is one of the equal parts of the hash space whose calls are counted.
type Cell uint16

const (
	// Cells is how many there are: a range of [DefaultRanges] has 16.
	Cells    = 1 << cellBits
	cellBits = 14
)

// CellOf returns the cell that a point lies in.
func CellOf(p Point) Cell { return Cell(p >> (64 - cellBits)) }

// First returns the first point of a cell.
func (c Cell) First() Point { return Point(c) << (64 - cellBits) }

// Last returns the last point of a cell.
func (c Cell) Last() Point { return c.First() + 1<<(64-cellBits) - 1 }

// Moved is a part of the hash space of a ring type that was moved because of its heat:
// it goes to Host rather than to where the ring has it, as long as Host is there.
type Moved struct {
	First, Last Point // inclusive
	Host        HostID
	// Since is when it was moved, on the clock of who decides.
	Since time.Duration
}

// Load is what one host was asked for lately, in calls per second.
type Load struct {
	Host   HostID
	Weight Weight  // 0: that of a mean host
	Total  float64 // of all types
	// Cells has for some ring types the rates of the cells that stand out.
	Cells map[string]map[Cell]float64
}

// weight returns the weight of the host in units of a mean one's.
func (l Load) weight() float64 { return cmp.Or(l.Weight, MeanWeight).Mean() }

// relative returns what the host is asked for as a mean host would be.
func (l Load) relative() float64 { return l.Total / l.weight() }

// RingState is where the actors of a ring type are, in ranges of one host each.
type RingState struct {
	Type  string // by which [Load.Cells] names it
	Base  *Table // by the ring alone
	Table *Table // with what was moved
	Moved []Moved
}

// Cooling says when a host is hot, and what may be done about it. Zero values mean the
// defaults.
type Cooling struct {
	// Rate is the least calls per second of a hot host. Defaults to 100.
	Rate float64
	// Factor is how many times the mean of all hosts, by their weights, a hot one has at
	// least. Defaults to 1.4: above what the bound on a ring's ranges allows.
	Factor float64
	// Settle is for how long a part that was moved stays. Defaults to a minute.
	Settle time.Duration
	// MaxMoved bounds the parts of a type that are not where the ring has them. Defaults
	// to 256.
	MaxMoved int
}

func (c Cooling) withDefaults() Cooling {
	c.Rate = cmp.Or(c.Rate, 100)
	c.Factor = cmp.Or(c.Factor, 1.4)
	c.Settle = cmp.Or(c.Settle, time.Minute)
	c.MaxMoved = cmp.Or(c.MaxMoved, 256)
	return c
}

const (
	// leastPart is the least part of a hot host's load that is worth a move, or that
	// either side of a cut has.
	leastPart = 0.05
	// splitCost is what a cut is worth less than to move a whole range.
	splitCost = 0.9
	// coldPart is the part of Cooling.Rate below which a part goes back.
	coldPart = 1.0 / 16
)

// Step is one change of a ring type's table.
type Step struct {
	Type  string
	Moved []Moved // in the place of those that were
	// First to Last go From one host To another; nowhere if they are there already.
	First, Last Point
	From, To    HostID
	// Split: the range was cut, and a part of it goes. Back: the part was cold, and is
	// where the ring has it again.
	Split, Back bool
}

// Next returns the one change that helps most, and false if no change helps. If there is a
// hot host, a range of the hottest host, or the side of a cut through it, goes to the host
// that has least to do, provided that this does not make the other host the hottest; hottest
// and least go by load relative to weight. Without a hot host, of the parts that are cold the
// one that was moved first goes back. loads are of all hosts that may be given ranges; now is
// on the clock of [Moved.Since]. A range whose calls are all of one cell stays whole: mostly
// they are of one actor, which has one place.
func (c Cooling) Next(loads []Load, types []RingState, now time.Duration) (Step, bool) {
	c = c.withDefaults()
	if len(loads) < 2 {
		return Step{}, false
	}
	sum, weights := 0.0, 0.0
	for _, l := range loads {
		sum, weights = sum+l.Total, weights+l.weight()
	}
	order := func(a, b Load) int {
		return cmp.Or(cmp.Compare(a.relative(), b.relative()), cmp.Compare(a.Host, b.Host))
	}
	hot, idle := slices.MaxFunc(loads, order), slices.MinFunc(loads, order)
	if hot.Total < c.Rate || hot.relative() < c.Factor*sum/weights {
		return c.forget(loads, types, now)
	}
	var (
		best  Step
		worth float64
	)
	for _, t := range types {
		step, gain := c.part(t, hot, idle, now)
		if gain > worth {
			best, worth = step, gain
		}
	}
	return best, worth > 0
}

// part returns the best part of a type to move from one host to another, and what that
// is worth; 0: no part is to move.
func (c Cooling) part(t RingState, from, to Load, now time.Duration) (best Step, worth float64) {
	// With the goal moved, both have as much by their weights.
	goal, least := (from.relative()-to.relative())/(1/from.weight()+1/to.weight()), leastPart*from.Total
	rates := from.Cells[t.Type]
	cells := slices.Sorted(maps.Keys(rates))
	ranges := t.Table.Ranges()
	for i, r := range ranges {
		last := LastPoint
		if i+1 < len(ranges) {
			last = ranges[i+1].First - 1
		}
		for len(cells) > 0 && cells[0].First() < r.First {
			cells = cells[1:] // it began in a range before
		}
		n, _ := slices.BinarySearchFunc(cells, last, func(c Cell, p Point) int {
			if c.First() <= p {
				return -1
			}
			return 1
		})
		in := cells[:n]
		cells = cells[n:]
		if n == 0 || len(r.Hosts) != 1 || r.Hosts[0] != from.Host || c.stays(t.Moved, r.First, last, now) {
			continue
		}
		sum := 0.0
		for _, cell := range in {
			sum += rates[cell]
		}
		consider := func(first, end Point, rate float64) {
			split := first != r.First || end != last
			gain := rate
			if split {
				gain *= splitCost
			}
			if rate > goal || rate < least || split && sum-rate < least || gain <= worth {
				return
			}
			moved := place(t, Moved{first, end, to.Host, now})
			if len(moved) > c.MaxMoved {
				return
			}
			best, worth = Step{Type: t.Type, Moved: moved, First: first, Last: end, From: from.Host, To: to.Host, Split: split}, gain
		}
		consider(r.First, last, sum)
		before := 0.0
		for j, cell := range in {
			if j > 0 {
				consider(r.First, cell.First()-1, before)
				consider(cell.First(), last, sum-before)
			}
			before += rates[cell]
		}
	}
	return best, worth
}

// stays reports whether something of a range was moved too short a time ago.
func (c Cooling) stays(moved []Moved, first, last Point, now time.Duration) bool {
	return slices.ContainsFunc(moved, func(m Moved) bool { return m.First <= last && first <= m.Last && now-m.Since < c.Settle })
}

// forget returns the step by which a part that is cold goes back.
func (c Cooling) forget(loads []Load, types []RingState, now time.Duration) (best Step, found bool) {
	oldest := now
	for _, t := range types {
		for i, m := range t.Moved {
			if now-m.Since < c.Settle || m.Since >= oldest {
				continue
			}
			rate := 0.0
			for _, l := range loads {
				for cell, r := range l.Cells[t.Type] {
					if m.First <= cell.Last() && cell.First() <= m.Last {
						rate += r
					}
				}
			}
			if rate >= c.Rate*coldPart {
				continue
			}
			step := Step{Type: t.Type, Moved: slices.Delete(slices.Clone(t.Moved), i, i+1), First: m.First, Last: m.Last, From: m.Host, Back: true}
			if home := t.Base.Find(m.First).Hosts; len(home) == 1 {
				step.To = home[0]
			}
			best, found, oldest = step, true, m.Since
		}
	}
	return best, found
}

// place returns what was moved of a type, with a part that is moved now.
func place(t RingState, part Moved) []Moved {
	moved := AddMoved(t.Moved, part)
	if home := t.Base.Find(part.First).Hosts; len(home) == 1 && home[0] == part.Host {
		moved = slices.DeleteFunc(moved, func(m Moved) bool { return m == part })
	}
	return moved
}

// AddMoved returns parts that were moved with one more, which goes before what they say
// of its points. They are in order and do not overlap.
func AddMoved(moved []Moved, part Moved) []Moved {
	next := make([]Moved, 0, len(moved)+2)
	for _, m := range moved {
		if m.Last < part.First || m.First > part.Last {
			next = append(next, m)
			continue
		}
		if m.First < part.First {
			next = append(next, Moved{m.First, part.First - 1, m.Host, m.Since})
		}
		if m.Last > part.Last {
			next = append(next, Moved{part.Last + 1, m.Last, m.Host, m.Since})
		}
	}
	next = append(next, part)
	slices.SortFunc(next, func(a, b Moved) int { return cmp.Compare(a.First, b.First) })
	return next
}

// WithMoved returns the table with parts at the hosts that they were moved to, of those
// hosts that are among some. The parts are in order and do not overlap.
func (t *Table) WithMoved(moved []Moved, hosts []HostID) *Table {
	moved = slices.DeleteFunc(slices.Clone(moved), func(m Moved) bool { return !slices.Contains(hosts, m.Host) })
	if len(moved) == 0 {
		return t
	}
	out := &Table{ranges: make([]Range, 0, len(t.ranges)+2*len(moved))}
	for i, r := range t.ranges {
		last := LastPoint
		if i+1 < len(t.ranges) {
			last = t.ranges[i+1].First - 1
		}
		for len(moved) > 0 && moved[0].Last < r.First {
			moved = moved[1:]
		}
		rest := true
		for _, m := range moved {
			if m.First > last {
				break
			}
			if m.First > r.First {
				out.ranges = append(out.ranges, r)
				r.First = m.First
			}
			moved := Range{First: r.First, Hosts: []HostID{m.Host}, Moved: true}
			if len(r.Readers) > 0 { // who would own it by the ring can read it
				moved.Readers = others(append(slices.Clone(r.Readers), r.Hosts...), m.Host)
			}
			out.ranges = append(out.ranges, moved)
			if rest = m.Last < last; !rest {
				break
			}
			r.First = m.Last + 1
		}
		if rest {
			out.ranges = append(out.ranges, r)
		}
	}
	return out
}

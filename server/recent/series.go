package recent

import (
	"maps"
	"slices"
	"time"
)

// App are the turns of an app, of one server or of several together.
type App struct {
	// First and Last are when the oldest step that is remembered and the newest one begin.
	First, Last time.Time
	// Types have ended turns in this time; they are in order of their names.
	Types []Series
	// All is their sum; it has no name.
	All Series
	// Uncounted is as in [Counts].
	Uncounted uint64
}

// Series are the turns of one type, or of all types of an app.
type Series struct {
	Type  string
	Steps []Count // those with a turn, in order
	Total Count
}

// Count are turns that were counted together.
type Count struct {
	Index         int // of the step, from the first one on
	Turns, Errors uint64
	P50, P99      time.Duration
}

// Add adds up what servers counted of an app in the last hour before now. Steps that are older, or newer by
// the clock of a server that is ahead, are left out.
func Add(now time.Time, servers ...Counts) App {
	last := number(now)
	first := last - Steps + 1
	at := func(n int64) time.Time { return time.Unix(n*int64(Step/time.Second), 0) }
	a := App{First: at(first), Last: at(last)}
	byType := map[string]*sums{}
	all := &sums{}
	for _, c := range servers {
		a.Uncounted += c.Uncounted
		for name, steps := range c.Types {
			for _, s := range steps {
				if s.Number < first || s.Number > last {
					continue
				}
				if byType[name] == nil {
					byType[name] = &sums{}
				}
				byType[name].add(int(s.Number-first), &s)
				all.add(int(s.Number-first), &s)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		if s := byType[name].series(name); s.Total.Turns > 0 {
			a.Types = append(a.Types, s)
		}
	}
	a.All = all.series("")
	return a
}

// sums are those of each step, and of all steps.
type sums struct {
	steps [Steps]*sum // nil: no turn
	total sum
}

func (s *sums) add(index int, c *StepCounts) {
	if s.steps[index] == nil {
		s.steps[index] = &sum{}
	}
	s.steps[index].add(c)
	s.total.add(c)
}

func (s *sums) series(name string) Series {
	series := Series{Type: name, Total: s.total.count(0)}
	for i, of := range s.steps {
		if of != nil && of.turns > 0 {
			series.Steps = append(series.Steps, of.count(i))
		}
	}
	return series
}

// sum adds up steps.
type sum struct {
	turns, errors uint64
	durations     [buckets]uint64
}

// add adds a step. What a server of another version counts in more buckets is added to the last one.
func (s *sum) add(c *StepCounts) {
	turns := uint64(0)
	for i, n := range c.Durations {
		s.durations[min(i, buckets-1)] += uint64(n)
		turns += uint64(n)
	}
	s.turns += turns
	s.errors += min(uint64(c.Errors), turns) // a turn that fails now is in errors first
}

func (s *sum) count(index int) Count {
	return Count{Index: index, Turns: s.turns, Errors: s.errors, P50: s.quantile(50), P99: s.quantile(99)}
}

// quantile returns a duration that so many of 100 turns did not exceed, as if the durations of a
// bucket were spread evenly over it.
func (s *sum) quantile(percent uint64) time.Duration {
	rank := (s.turns*percent + 99) / 100
	for i, n := range s.durations {
		if n == 0 || rank > n {
			rank -= n
			continue
		}
		from, to := lower(i), lower(i+1)
		return from + time.Duration(float64(to-from)*float64(rank)/float64(n))
	}
	return 0
}

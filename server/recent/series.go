package recent

import (
	"maps"
	"slices"
	"time"
)

// Counts is what a server counted of the turns of an app.
type Counts struct {
	// Types have the steps with a turn, in order.
	Types map[string][]StepCounts
	// Uncounted is how many turns found no room for their steps since the process started.
	Uncounted uint64
}

// StepCounts is what was counted in one step of one type.
type StepCounts struct {
	// Number says which step it is, by the clock of the server that counted: since 1970.
	Number int64
	Errors uint32
	// Durations has how many turns took how long, by buckets.
	Durations []uint32
}

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

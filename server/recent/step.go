package recent

import "time"

const (
	// Step is how long a step is.
	Step = 30 * time.Second
	// Steps is how many are remembered, with the one that is under way.
	Steps = 120
)

// number is that of the step at a time.
func number(at time.Time) int64 { return at.Unix() / int64(Step/time.Second) }

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

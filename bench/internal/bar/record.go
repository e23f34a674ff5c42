package bar

import (
	"fmt"

	"github.com/greenroom-run/greenroom/bench/internal/load"
)

// Record is what a bar measured.
type Record struct {
	rows  []row
	notes []string
	pairs map[string][]Pair
}

// row is a line of the table.
type row struct {
	what   string
	run    int
	result load.Result
}

// Pair is what one run measured for a check.
type Pair struct {
	Value    float64 `json:"value"`
	Baseline float64 `json:"baseline"`
	Ratio    float64 `json:"ratio"`
}

// Measured adds a line to the table: run counts from 1.
func (r *Record) Measured(what string, run int, result load.Result) {
	r.rows = append(r.rows, row{what, run, result})
}

// Compare adds a pair to a check.
func (r *Record) Compare(check string, value, baseline float64) {
	if r.pairs == nil {
		r.pairs = make(map[string][]Pair)
	}
	r.pairs[check] = append(r.pairs[check], Pair{value, baseline, value / baseline})
}

// Note adds a line of text below the table.
func (r *Record) Note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

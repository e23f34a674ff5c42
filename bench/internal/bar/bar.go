// Package bar says what a bar is: a promise about speed with a name, checked
// against a baseline that is measured in the same run.
//
// A bar runs its baseline and its subject in turns, several times, and compares
// each pair; what counts is the median of the pairs' ratios. What changes
// slowly, like a disk or a neighbour that gets busier, then meets both.
package bar

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/bench/internal/rig"
)

// Comparison is how a ratio is held against its target.
type Comparison string

// The comparisons.
const (
	AtLeast Comparison = ">="
	AtMost  Comparison = "<="
)

// Check is one condition of a bar: the ratio of a value to its baseline.
type Check struct {
	// Name is unique in the bar.
	Name string
	// Unit is that of value and baseline.
	Unit   string
	Want   Comparison
	Target float64
	// Optional is left out of the result if nothing was measured for it, for
	// want of something that not every machine has.
	Optional bool
}

// Bar is a promise about speed.
type Bar struct {
	// Name is AREA.N.
	Name string
	// Title says in one line what is compared.
	Title string
	// Checks are its conditions, all of which must hold; the first is the one
	// that the head of the JSON line shows.
	Checks []Check
	// Run measures, and fills the record.
	Run func(ctx context.Context, r *rig.Rig, rec *Record) error
}

// Area is the part of the name before the dot.
func (b Bar) Area() string { return b.Name[:strings.IndexByte(b.Name, '.')] }

// Select returns the bars that are asked for, in order: those of an area, or
// the one of a name, or with neither all of them.
func Select(all []Bar, area, name string) ([]Bar, error) {
	var chosen []Bar
	for _, b := range all {
		if (area == "" || b.Area() == area) && (name == "" || b.Name == name) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 {
		names := make([]string, len(all))
		for i, b := range all {
			names[i] = b.Name
		}
		return nil, fmt.Errorf("no bar matches area %q and name %q; there are %s", area, name, strings.Join(names, ", "))
	}
	return chosen, nil
}

// pass reports whether a ratio keeps the promise.
func (c Check) pass(ratio float64) bool {
	if c.Want == AtMost {
		return ratio <= c.Target
	}
	return ratio >= c.Target
}

// Median returns the median of at least one number.
func Median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

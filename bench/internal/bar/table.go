package bar

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/load"
)

// Print writes the table of a bar for people.
func (r *Record) Print(w io.Writer, res Result) {
	fmt.Fprintf(w, "\n%s  %s\n\n", res.Bar, res.Title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\trun\tcalls/s\tp50\tp99\tCPU per call\tof which")
	for _, line := range r.rows {
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%s\t%s\t%s\t%s\n", line.what, line.run, line.result.Rate(),
			short(line.result.P50), short(line.result.P99), short(line.result.CPUPerCall()), shares(line.result))
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "check\tvalue\tbaseline\tratio\tspread\ttarget\t")
	for _, c := range res.Checks {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.3g\t%s\t%s %g\t%s\n", c.Name, amount(c.Value, c.Unit), amount(c.Baseline, c.Unit),
			c.Ratio, spread(c.Runs), c.Want, c.Target, verdict(c.Pass))
	}
	t.Flush()
	for _, note := range r.notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

func verdict(pass bool) string {
	if pass {
		return "pass"
	}
	return "MISSED"
}

// spread is the smallest and the largest ratio.
func spread(runs []Pair) string {
	low, high := runs[0].Ratio, runs[0].Ratio
	for _, p := range runs {
		low, high = min(low, p.Ratio), max(high, p.Ratio)
	}
	return fmt.Sprintf("%.3g – %.3g", low, high)
}

func amount(v float64, unit string) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}

// short rounds to three digits.
func short(d time.Duration) string {
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// shares says which process used how much of the processor per call.
func shares(r load.Result) string {
	if len(r.CPU) < 2 || r.Calls == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.CPU)) {
		label := name
		if name == load.Self {
			label = "caller"
		}
		parts = append(parts, fmt.Sprintf("%s %s", label, short(r.CPU[name]/time.Duration(r.Calls))))
	}
	return strings.Join(parts, ", ")
}

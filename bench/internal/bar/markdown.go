package bar

import (
	"fmt"
	"strings"
)

// Markdown writes a table of results, without bars that could not be measured.
func Markdown(results []Result) string {
	var b strings.Builder
	b.WriteString("| bar | check | value | baseline | ratio | spread | promised | |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		_, number, _ := strings.Cut(r.Bar, ".")
		for _, c := range r.Checks {
			kept := "kept"
			if !c.Pass {
				kept = "missed"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %.3g | %s | %s %g | %s |\n", number, c.Name,
				amount(c.Value, c.Unit), amount(c.Baseline, c.Unit), c.Ratio, spread(c.Runs), c.Want.Sign(), c.Target, kept)
		}
	}
	return b.String()
}

// Sign is how a comparison is written for people.
func (c Comparison) Sign() string {
	if c == AtMost {
		return "≤"
	}
	return "≥"
}

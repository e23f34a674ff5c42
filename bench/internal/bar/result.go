package bar

import "fmt"

// Result is the JSON line of a bar. Its head is that of the first check.
type Result struct {
	Bar string `json:"bar"`
	Outcome
	Title string `json:"title"`
	// Checks are all of them.
	Checks []NamedOutcome `json:"checks"`
}

// Failure is the JSON line of a bar that could not be measured.
type Failure struct {
	Bar   string `json:"bar"`
	Pass  bool   `json:"pass"` // false
	Error string `json:"error"`
}

// Failed says why a bar could not be measured.
func Failed(b Bar, err error) Failure { return Failure{Bar: b.Name, Error: err.Error()} }

// Outcome is a check with what came of it: medians over the runs, the ratio's
// own included, so that it may differ from value over baseline.
type Outcome struct {
	Value    float64    `json:"value"`
	Unit     string     `json:"unit"`
	Baseline float64    `json:"baseline"`
	Ratio    float64    `json:"ratio"`
	Want     Comparison `json:"want"`
	Target   float64    `json:"target"`
	Pass     bool       `json:"pass"`
	Runs     []Pair     `json:"runs"`
}

// NamedOutcome is the outcome of one of a bar's checks.
type NamedOutcome struct {
	Name string `json:"name"`
	Outcome
}

// Judge holds what was measured against what was promised. A check that
// measured nothing is an error of the bar, unless it is optional; the first never
// is.
func (b Bar) Judge(rec *Record) (Result, error) {
	res := Result{Bar: b.Name, Title: b.Title}
	pass := true
	for i, c := range b.Checks {
		pairs := rec.pairs[c.Name]
		if len(pairs) == 0 && c.Optional {
			continue
		}
		if len(pairs) == 0 {
			return Result{}, fmt.Errorf("bar %s measured nothing for %q", b.Name, c.Name)
		}
		o := c.outcome(pairs)
		pass = pass && o.Pass
		if i == 0 {
			res.Outcome = o
		}
		res.Checks = append(res.Checks, NamedOutcome{c.Name, o})
	}
	res.Pass = pass
	return res, nil
}

func (c Check) outcome(pairs []Pair) Outcome {
	of := func(pick func(Pair) float64) float64 {
		all := make([]float64, len(pairs))
		for i, p := range pairs {
			all[i] = pick(p)
		}
		return Median(all)
	}
	o := Outcome{
		Value: of(func(p Pair) float64 { return p.Value }), Unit: c.Unit,
		Baseline: of(func(p Pair) float64 { return p.Baseline }),
		Ratio:    of(func(p Pair) float64 { return p.Ratio }),
		Want:     c.Want, Target: c.Target, Runs: pairs,
	}
	o.Pass = c.pass(o.Ratio)
	return o
}

package bar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
)

func example() (Bar, *Record) {
	b := Bar{Name: "area.1", Title: "ours against theirs", Checks: []Check{
		{Name: "rate", Unit: "calls/s", Want: AtLeast, Target: 2},
		{Name: "cpu", Unit: "µs", Want: AtMost, Target: 0.5},
		{Name: "elsewhere", Unit: "calls/s", Want: AtLeast, Target: 12, Optional: true},
	}}
	rec := new(Record)
	for run, ours := range []float64{300, 100, 250} {
		rec.Measured("ours", run+1, load.Result{Calls: int64(ours), Seconds: 1, P50: 1234567 * time.Nanosecond,
			CPU: map[string]time.Duration{load.Self: time.Second, "server": time.Second}})
		rec.Compare("rate", ours, 100)
		rec.Compare("cpu", 4, 10)
	}
	return b, rec
}

func TestJudgeTakesTheMedianOfTheRatios(t *testing.T) {
	b, rec := example()
	res, err := b.Judge(rec)
	if err != nil {
		t.Fatal(err)
	}
	if res.Ratio != 2.5 || res.Value != 250 || !res.Pass || len(res.Checks) != 2 || len(res.Runs) != 3 {
		t.Errorf("result = %+v", res)
	}
	rec.Compare("cpu", 1000, 10)
	rec.Compare("cpu", 1000, 10)
	rec.Compare("cpu", 1000, 10)
	rec.Compare("cpu", 1000, 10)
	if res, err = b.Judge(rec); err != nil || res.Pass || !res.Checks[0].Pass || res.Checks[1].Pass {
		t.Errorf("result = %+v, %v; want the second check to miss", res, err)
	}
	if _, err := b.Judge(new(Record)); err == nil || !strings.Contains(err.Error(), "rate") {
		t.Errorf("nothing measured: %v", err)
	}
}

// Programs read the line: its fields are a promise.
func TestJSONLine(t *testing.T) {
	b, rec := example()
	res, err := b.Judge(rec)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bar", "value", "unit", "baseline", "ratio", "target", "pass", "runs"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("the line lacks %q: %s", name, line)
		}
	}
}

func TestPrint(t *testing.T) {
	b, rec := example()
	rec.Note("a %s", "note")
	res, err := b.Judge(rec)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	rec.Print(&out, res)
	for _, want := range []string{"area.1  ours", "1.23ms", "caller 3.33ms, server 3.33ms", "1 – 3", "pass", "note: a note"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestMarkdownHasALineForEachCheck(t *testing.T) {
	b, rec := example()
	res, err := b.Judge(rec)
	if err != nil {
		t.Fatal(err)
	}
	table := Markdown([]Result{res})
	for _, want := range []string{
		"| 1 | rate | 250 calls/s | 100 calls/s | 2.5 | 1 – 3 | ≥ 2 | kept |\n",
		"| 1 | cpu | 4 µs | 10 µs | 0.4 | 0.4 – 0.4 | ≤ 0.5 | kept |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func TestSelect(t *testing.T) {
	all := []Bar{{Name: "a.1"}, {Name: "a.2"}, {Name: "b.1"}}
	for _, c := range []struct {
		area, name string
		want       int
	}{{"", "", 3}, {"a", "", 2}, {"", "b.1", 1}, {"a", "b.1", 0}, {"c", "", 0}} {
		got, err := Select(all, c.area, c.name)
		if len(got) != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("Select(%q, %q) = %v, %v", c.area, c.name, got, err)
		}
	}
}

// What a bar sets up goes at the end of its scope, also when the bar fails.
func TestScopes(t *testing.T) {
	var undone []string
	failure := errors.New("failed")
	err := Of(func(b *B) {
		undo := func(what string) { b.Cleanup(func() error { undone = append(undone, what); return nil }) }
		undo("first")
		b.Scope(func() { undo("inner") })
		b.Each(func(run int) {
			undo(fmt.Sprint("run ", run))
			must.Check(failure)
		})
		undo("never")
	})(t.Context(), &rig.Rig{Config: rig.Config{Runs: 2}}, new(Record))
	if got := strings.Join(undone, ", "); !errors.Is(err, failure) || got != "inner, run 1, first" {
		t.Errorf("error %v, undone: %s", err, got)
	}
}

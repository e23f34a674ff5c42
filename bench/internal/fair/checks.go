package fair

import (
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
)

// The floods, by their names in package hostile.
const (
	endless  = "turns, endless"
	unread   = "replies, unread"
	payloads = "payloads"
	instant  = "reminders, one instant"
	failing  = "reminders, failing"
	heavy    = "modules, heavy"
)

// restart is what fair.5 has in place of a flood.
const restart = "restart"

// target is how many times as long as without a flood a neighbour may wait beside one.
const target = 2

func p99(flood string) bar.Check {
	return bar.Check{Name: flood + ": p99", Unit: "ms", Want: bar.AtMost, Target: target}
}

func failures(flood string) bar.Check {
	return bar.Check{Name: flood + ": calls that fail", Unit: "calls", Want: bar.AtMost}
}

func late(flood string) bar.Check {
	return bar.Check{Name: flood + ": late, p99", Unit: "ms", Want: bar.AtMost, Target: target}
}

// besides are the checks of calls beside floods.
func besides(floods ...string) []bar.Check {
	var all []bar.Check
	for _, f := range floods {
		all = append(all, p99(f), failures(f))
	}
	return all
}

// compare holds calls beside a flood against those alone.
func compare(rec *bar.Record, flood string, run int, alone, beside []load.Traced) {
	without, failed := summary(rec, "alone", run, alone)
	if failed > 0 {
		rec.Note("run %d: what failed without a flood is not held against it", run)
	}
	with, failed := summary(rec, flood, run, beside)
	rec.Compare(p99(flood).Name, millis(with.P99), millis(without.P99))
	rec.Compare(failures(flood).Name, float64(failed), 1)
}

// summary adds calls to the table, and those that failed to the notes.
func summary(rec *bar.Record, what string, run int, calls []load.Traced) (res load.Result, failed int) {
	reasons := map[string]int{}
	took := make([]time.Duration, len(calls))
	first, last := calls[0].Began, calls[0].Began
	for i, c := range calls {
		first, last = min(first, c.Began), max(last, c.Began)
		if took[i] = time.Duration(c.Took); c.Error != "" {
			reasons[c.Error]++
			failed++
		}
	}
	for why, times := range reasons {
		rec.Note("%s, run %d: %d of %d failed: %s", what, run, times, len(calls), why)
	}
	res = result(took, time.Duration(last-first))
	rec.Measured(what, run, res)
	return res, failed
}

// result is what a table shows of durations.
func result(took []time.Duration, of time.Duration) load.Result {
	slices.Sort(took)
	res := load.Result{Calls: int64(len(took)), Seconds: of.Seconds()}
	if n := len(took); n > 0 {
		const percent = 100
		res.P50, res.P99 = took[n/2], took[n*99/percent]
	}
	return res
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package fair

import (
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
func compare(b *bar.B, flood string, run int, alone, beside []load.Traced) {
	without, failed := summary(b, "alone", run, alone)
	if failed > 0 {
		b.Note("run %d: what failed without a flood is not held against it", run)
	}
	with, failed := summary(b, flood, run, beside)
	b.Compare(p99(flood).Name, bar.Millis(with.P99), bar.Millis(without.P99))
	b.Compare(failures(flood).Name, float64(failed), 1)
}

// summary adds calls to the table, and those that failed to the notes.
func summary(b *bar.B, what string, run int, calls []load.Traced) (res load.Result, failed int) {
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
		b.Note("%s, run %d: %d of %d failed: %s", what, run, times, len(calls), why)
	}
	res = result(took, time.Duration(last-first))
	b.Measured(what, run, res)
	return res, failed
}

// result is what a table shows of durations.
func result(took []time.Duration, of time.Duration) load.Result {
	return load.Result{Calls: int64(len(took)), Seconds: of.Seconds(), P50: load.Quantile(took, 0.5), P99: load.Quantile(took, 0.99)}
}

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
)

// trace has one entry for each call, with its outcome.
type trace []load.Traced

// those returns the calls that a condition holds for.
func (t trace) those(keep func(load.Traced) bool) trace {
	var kept trace
	for _, c := range t {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// within returns the calls that began in a window.
func (t trace) within(w window) trace { return t.those(func(c load.Traced) bool { return w.has(c) }) }

// of returns the calls of some actors.
func (t trace) of(actors map[int]bool) trace {
	return t.those(func(c load.Traced) bool { return actors[c.Actor] })
}

// failed returns the calls that failed.
func (t trace) failed() trace { return t.those(func(c load.Traced) bool { return c.Error != "" }) }

// quantile returns how long calls took; 0 if there are none.
func (t trace) quantile(q float64) time.Duration {
	all := make([]time.Duration, len(t))
	for i, c := range t {
		all[i] = time.Duration(c.Took)
	}
	return load.Quantile(all, q)
}

// slowest says how long the slowest call took, and when it began after a moment.
func (t trace) slowest(since time.Time) string {
	var slow load.Traced
	for _, c := range t {
		if c.Took > slow.Took {
			slow = c
		}
	}
	return fmt.Sprintf("%.1f ms, begun %+.0f ms", bar.Millis(time.Duration(slow.Took)), float64(slow.Began-since.UnixNano())/1e6)
}

// last returns when the last of the calls ended.
func (t trace) last() (at time.Time) {
	for _, c := range t {
		if c.Ended().After(at) {
			at = c.Ended()
		}
	}
	return at
}

// why lists what calls failed with, the most frequent first, a handful at most.
func (t trace) why() string {
	counts := map[string]int{}
	for _, c := range t.failed() {
		counts[c.Error]++
	}
	var texts []string
	for text := range counts {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int { return counts[b] - counts[a] })
	for i, text := range texts {
		texts[i] = fmt.Sprintf("%d × %s", counts[text], text)
	}
	return strings.Join(texts[:min(3, len(texts))], "; ")
}

// window is a stretch of time.
type window struct{ from, to time.Time }

func (w window) has(c load.Traced) bool {
	return c.Began >= w.from.UnixNano() && c.Began < w.to.UnixNano()
}

package history

import (
	"testing"
	"time"
)

// failed runs Check on a history and reports whether it fails.
func failed(t *testing.T, h *History) bool {
	t.Helper()
	r := &recorder{TB: t}
	h.Check(r)
	return r.failed
}

// recorder is a test whose failure is the expected thing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Helper()               {}

func TestCheck(t *testing.T) {
	add, read := Call{"a", 1}, Call{"a", 0}
	for name, c := range map[string]struct {
		calls func(h *History)
		want  bool
	}{
		"one after the other": {func(h *History) {
			h.Begin(1, add).Answered(1)
			h.Begin(1, read).Answered(1)
			h.Begin(2, Call{"b", 1}).Answered(1)
		}, true},
		"at once, in either order": {func(h *History) {
			first, second := h.Begin(1, add), h.Begin(2, add)
			first.Answered(2)
			second.Answered(1)
		}, true},
		"a lost increment":     {func(h *History) { h.Begin(1, add).Answered(1); h.Begin(1, read).Answered(0) }, false},
		"a repeated increment": {func(h *History) { h.Begin(1, add).Answered(1); h.Begin(1, read).Answered(2) }, false},
		"the past": {func(h *History) {
			h.Begin(1, add).Answered(1)
			h.Begin(1, add).Answered(2)
			h.Begin(2, read).Answered(1)
		}, false},
		"the past, as old as it may be": {func(h *History) {
			h.Begin(1, add).Answered(1)
			h.Begin(1, add).Answered(2)
			h.BeginStale(2, read, time.Hour).Answered(1)
		}, true},
		"no more than that": {func(h *History) {
			h.Begin(1, add).Answered(1)
			h.Begin(1, add).Answered(2)
			h.BeginStale(2, read, 0).Answered(1)
		}, false},
		"what never was": {func(h *History) {
			h.Begin(1, Call{"a", 2}).Answered(2)
			h.BeginStale(2, read, time.Hour).Answered(1)
		}, false},
		"what is unknown took effect":   {func(h *History) { h.Begin(1, add).Unknown(); h.Begin(2, read).Answered(1) }, true},
		"what is unknown had no effect": {func(h *History) { h.Begin(1, add).Unknown(); h.Begin(2, read).Answered(0) }, true},
		"and then it did": {func(h *History) {
			h.Begin(1, add).Unknown()
			h.Begin(2, read).Answered(0)
			h.Begin(2, read).Answered(1)
		}, true},
		"but not twice": {func(h *History) { h.Begin(1, add).Unknown(); h.Begin(2, read).Answered(2) }, false},
		"what was dropped has no effect": {func(h *History) {
			h.Begin(1, add)
			h.Begin(2, read).Answered(1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{}
			c.calls(h)
			if failed(t, h) == c.want {
				t.Errorf("linearizable: %v", !c.want)
			}
		})
	}
}

func TestCheckCallers(t *testing.T) {
	add, read := Call{"a", 1}, Call{"a", 0}
	for name, c := range map[string]struct {
		calls func(h *History)
		want  bool
	}{
		"it grows": {func(h *History) {
			h.Begin(1, add).Answered(1)
			h.BeginStale(1, read, time.Hour).Answered(1)
			h.Begin(1, add).Answered(2)
		}, true},
		"less than what it read":       {func(h *History) { h.Begin(1, read).Answered(2); h.BeginStale(1, read, time.Hour).Answered(1) }, false},
		"less than what it added":      {func(h *History) { h.Begin(1, add).Answered(1); h.BeginStale(1, read, time.Hour).Answered(0) }, false},
		"less than what another read":  {func(h *History) { h.Begin(2, read).Answered(2); h.BeginStale(1, read, time.Hour).Answered(1) }, true},
		"less than of another counter": {func(h *History) { h.Begin(1, Call{"b", 1}).Answered(2); h.Begin(1, read).Answered(1) }, true},
		"what is unknown says nothing": {func(h *History) { h.Begin(1, add).Unknown(); h.BeginStale(1, read, time.Hour).Answered(0) }, true},
		"less than what it read before": {func(h *History) {
			h.Begin(1, read).Answered(2)
			h.Begin(1, read).Answered(2)
			h.BeginStale(1, read, time.Hour).Answered(1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, r := &History{}, &recorder{TB: t}
			c.calls(h)
			if h.CheckCallers(r); r.failed == c.want {
				t.Errorf("it never goes backwards: %v", !c.want)
			}
		})
	}
}

func TestSums(t *testing.T) {
	h := &History{}
	h.Begin(1, Call{"a", 2}).Answered(2)
	h.Begin(1, Call{"a", 3}).Unknown()
	h.Begin(1, Call{"b", 4}).Answered(4)
	if sums := h.Sums(); sums["a"] != 2 || sums["b"] != 4 || len(sums) != 2 || h.Len() != 3 {
		t.Errorf("got %v of %d calls", sums, h.Len())
	}
}

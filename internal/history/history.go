// Package history records calls of counters with their answers, and checks that they are
// linearizable: some order of the calls explains every answer, and each call takes effect at one
// moment between its beginning and its answer. It is for tests.
//
// The checker is porcupine's, after "Faster linearizability checking via
// P-compositionality" (Horn and Kroening, 2015): counters are checked apart.
package history

import (
	"fmt"
	"math"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Call is a call of a counter. Its answer is the counter's value, after the call.
type Call struct {
	Counter string
	Add     int64 // 0: a read
}

// History is the calls of one test. The zero value is empty; its methods may be
// called concurrently.
type History struct {
	clock atomic.Int64

	mu    sync.Mutex
	ops   []porcupine.Operation
	marks []mark // in order
}

// tick is the distance of two readings of the clock, so that another one fits between them.
const tick = 2

// mark is a reading of the history's clock at a moment.
type mark struct {
	at    time.Time
	clock int64
}

// Pending is a call under way. A call that is never ended is not in the history, and must have had
// no effect.
type Pending struct {
	history *History
	op      porcupine.Operation
}

// Begin notes that a caller, who has one call at a time, begins one.
func (h *History) Begin(caller int, c Call) *Pending {
	return &Pending{h, porcupine.Operation{ClientId: caller, Input: c, Call: h.clock.Add(tick)}}
}

// BeginStale notes that a caller begins a read whose answer may be old: it must have been the
// newest value at some moment since age before now.
func (h *History) BeginStale(caller int, c Call, age time.Duration) *Pending {
	return &Pending{h, porcupine.Operation{ClientId: caller, Input: c, Call: h.clockAt(time.Now().Add(-age))}}
}

// clockAt returns a reading of the history's clock that is after all answers until a
// moment, and before all others; 0 if there were none.
func (h *History) clockAt(at time.Time) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := sort.Search(len(h.marks), func(i int) bool { return h.marks[i].at.After(at) })
	if i == 0 {
		return 0
	}
	return h.marks[i-1].clock + 1
}

// Answered ends a call with the value that it got.
func (p *Pending) Answered(value int64) { p.end(value, 0) }

// Unknown ends a call that may have taken effect, or still may.
func (p *Pending) Unknown() { p.end(nil, math.MaxInt64) }

// end ends a call at a reading of the clock; 0 for now.
func (p *Pending) end(output any, at int64) {
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
	if at == 0 {
		at = p.history.clock.Add(tick)
		p.history.marks = append(p.history.marks, mark{time.Now(), at})
	}
	p.op.Output, p.op.Return = output, at
	p.history.ops = append(p.history.ops, p.op)
}

// Len returns how many calls have ended.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// Sums returns what the calls that were answered have added, by counter.
func (h *History) Sums() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	sums := make(map[string]int64)
	for _, op := range h.ops {
		if c := op.Input.(Call); op.Output != nil {
			sums[c.Counter] += c.Add
		}
	}
	return sums
}

// Check fails the test, and shows the history, unless it is linearizable. No call
// may be under way.
func (h *History) Check(tb testing.TB) {
	tb.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if porcupine.CheckOperations(counters, h.ops) {
		return
	}
	for _, op := range h.ops {
		tb.Logf("caller %d, %d to %d: %s", op.ClientId, op.Call, op.Return, counters.DescribeOperation(op.Input, op.Output))
	}
	tb.Error("the history is not linearizable")
}

// CheckCallers fails the test if a caller got a smaller answer than it had got before. It is for
// counters that only grow. No call may be under way.
func (h *History) CheckCallers(tb testing.TB) {
	tb.Helper()
	type seen struct {
		caller  int
		counter string
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	most := map[seen]int64{}
	for _, op := range h.ops { // those of one caller in order
		if op.Output == nil {
			continue
		}
		value, s := op.Output.(int64), seen{op.ClientId, op.Input.(Call).Counter}
		if value < most[s] {
			tb.Errorf("caller %d is answered %d by %+v, after %d", op.ClientId, value, op.Input, most[s])
		}
		most[s] = max(most[s], value)
	}
}

// counters is a number for each counter.
var counters = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byCounter := make(map[string][]porcupine.Operation)
		for _, op := range history {
			name := op.Input.(Call).Counter
			byCounter[name] = append(byCounter[name], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range byCounter {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		n := state.(int64) + input.(Call).Add
		return output == nil || output.(int64) == n, n
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v gives %v", input, output) },
}

// Package history keeps what callers asked of counters and what they were
// answered, and checks it: some order of the calls, each of which takes effect at
// one moment between its beginning and its answer, must explain every answer. It
// is for tests.
//
// The checker is porcupine's, after "Faster linearizability checking via
// P-compositionality" (Horn and Kroening, 2015): counters are checked apart.
package history

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
)

// Call is what a caller asks of a counter, which is answered with the counter's
// value: after the call, if that adds to it.
type Call struct {
	Counter string
	Add     int64 // 0: a read
}

// History is the calls of one test. The zero value is empty; its methods may be
// called concurrently.
type History struct {
	clock atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

// Pending is a call under way. One that is neither answered nor unknown is not in
// the history: it must have had no effect.
type Pending struct {
	history *History
	op      porcupine.Operation
}

// Begin notes that a caller, who has one call at a time, begins one.
func (h *History) Begin(caller int, c Call) *Pending {
	return &Pending{h, porcupine.Operation{ClientId: caller, Input: c, Call: h.clock.Add(1)}}
}

// Answered ends a call with the value that it got.
func (p *Pending) Answered(value int64) { p.end(value, p.history.clock.Add(1)) }

// Unknown ends a call of which nobody knows whether it took effect, or will.
func (p *Pending) Unknown() { p.end(nil, math.MaxInt64) }

func (p *Pending) end(output any, at int64) {
	p.op.Output, p.op.Return = output, at
	p.history.mu.Lock()
	defer p.history.mu.Unlock()
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

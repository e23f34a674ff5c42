// Package callback brings calls that come back from other hosts to the chains that wait for their
// callers. A chain begins a [Wait] before it calls another host, and the call carries the wait's
// name. What is called for it carries the name on. If such a call comes here, [Waits.Find] finds
// the wait whose chain has the called actor, and the goroutine of that chain takes the call from
// the wait and runs it.
//
// Invariants:
//
//   - A call is taken, or returned by [Wait.End], and never both.
//   - After a wait has ended, no call that carries its name is admitted in this process.
//
// The chain's goroutine has a Wait, but for Put. All other methods may be called concurrently.
package callback

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/chain"
)

// maxQueued bounds the calls that a wait has: the turn that a chain waits for makes one at a time,
// and the others are copies of it.
const maxQueued = 16

// Waits are the waits of the chains of a host.
type Waits struct {
	Graph   *chain.Graph[*activation.Activation]
	process string
	mu      sync.Mutex
	begun   uint64
	open    map[string]*Wait
}

// New returns Waits of the chains in a graph. The names of waits begin with process, which is a name
// that no other process has.
func New(graph *chain.Graph[*activation.Activation], process string) *Waits {
	return &Waits{Graph: graph, process: process + ".", open: make(map[string]*Wait)}
}

// Begin begins a wait of a chain. End ends it.
func (ws *Waits) Begin(ch *activation.Chain) *Wait {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.begun++
	w := &Wait{Name: ws.process + strconv.FormatUint(ws.begun, 36), waits: ws, chain: ch.Chain, arrived: make(chan struct{}, 1)}
	ws.open[w.Name] = w
	return w
}

// Find returns the innermost of the named waits, which are in order from the outermost on, whose
// chain has an actor; nil if none has it, or a is nil. [actor.ErrCanceled]: a wait of this process
// is over.
func (ws *Waits) Find(names []string, a *activation.Activation) (found *Wait, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range names {
		if !strings.HasPrefix(name, ws.process) {
			continue
		}
		w := ws.open[name]
		if w == nil {
			return nil, ErrOver
		}
		if a != nil && w.chain.Has(a) {
			found = w
		}
	}
	return found, nil
}

// Circle reports whether a chain of this host with a name has an actor, and waits for another host: a call with that
// name which is none of its callbacks comes by way of a host that passes no waits on. A chain that does not wait
// has nothing to do with such a call: its caller has given it up, and calls again.
func (ws *Waits) Circle(name string, a *activation.Activation) bool {
	if !ws.Graph.Holds(name, a) {
		return false
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.open {
		if w.chain.Has(a) {
			return true
		}
	}
	return false
}

// Outermost returns the first of the named waits that is of the chain of w. A chain between two waits of that chain
// finds the chain among those that wait for it by this name.
func (ws *Waits) Outermost(names []string, w *Wait) string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, name := range names {
		if other := ws.open[name]; other != nil && other.chain == w.chain {
			return name
		}
	}
	return w.Name
}

// ErrOver is the error of a call that nothing waits for any more.
var ErrOver = fmt.Errorf("%w: the turn that waited for it is over", actor.ErrCanceled)

// Wait is the wait of a chain for one call of another host.
type Wait struct {
	Name    string
	waits   *Waits
	chain   *chain.Chain[*activation.Activation]
	arrived chan struct{}
	queue   []*call.Call // guarded by Waits.mu

	outcomes map[actor.KeyedCall]Outcome
	bytes    int // of outcomes
}

// Outcome is the end of a call with an idempotency key.
type Outcome struct {
	Sum   [sha256.Size]byte // of its payload
	Reply actor.Reply
	Err   error
}

// size returns what the outcome takes in memory, in bytes, roughly.
func (o *Outcome) size() int {
	size := call.RecordCost + len(o.Reply.Payload.Data)
	if guest := (*actor.GuestError)(nil); errors.As(o.Err, &guest) {
		size += len(guest.Detail.Data)
	}
	return size
}

// Put hands a call to the wait. [actor.ErrCanceled]: the wait is over.
func (w *Wait) Put(c *call.Call) error {
	ws := w.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case ws.open[w.Name] != w:
		return ErrOver
	case len(w.queue) >= maxQueued:
		return fmt.Errorf("%w: %d copies of calls wait for their caller's caller", actor.ErrMailboxFull, maxQueued)
	}
	w.queue = append(w.queue, c)
	select {
	case w.arrived <- struct{}{}:
	default:
	}
	return nil
}

// Arrived has a value when Take may return a call.
func (w *Wait) Arrived() <-chan struct{} { return w.arrived }

// Take returns the next call, nil if there is none.
func (w *Wait) Take() *call.Call {
	ws := w.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(w.queue) == 0 {
		return nil
	}
	c := w.queue[0]
	w.queue = w.queue[1:]
	return c
}

// End ends the wait, and returns the calls that were not taken.
func (w *Wait) End() []*call.Call {
	ws := w.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.open, w.Name)
	left := w.queue
	w.queue = nil
	return left
}

// Known returns the outcome of an earlier copy of a call with an idempotency key.
func (w *Wait) Known(c actor.KeyedCall) (o Outcome, ok bool) {
	o, ok = w.outcomes[c]
	return o, ok
}

// Keep remembers the outcome of a call with an idempotency key, for copies of the call. It fails with
// [actor.ErrChainTooLarge] if the outcomes of the wait take more bytes than a commit may, which bounds
// a turn that calls back without end.
func (w *Wait) Keep(c actor.KeyedCall, o Outcome) error {
	if w.bytes += o.size(); w.bytes > actor.MaxCommitBytes {
		return fmt.Errorf("%w: the replies of callbacks have more than %d bytes", actor.ErrChainTooLarge, actor.MaxCommitBytes)
	}
	if w.outcomes == nil {
		w.outcomes = make(map[actor.KeyedCall]Outcome)
	}
	w.outcomes[c] = o
	return nil
}

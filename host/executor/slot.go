package executor

import (
	"context"
	"runtime"

	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Slot is what a turn has of the [Slots]: one or none. The goroutine that runs the turn uses
// it. It is used again, from Enter to Leave; the zero value is ready for Enter.
type Slot struct {
	slots *Slots
	ctx   context.Context
	entry fair.Entry[*Slot]
	dealt chan struct{} // gets a value when the slots are dealt to the turn
	has   bool
	used  uint64 // fuel, of the slot that it has or had last
	total uint64 // fuel, since Enter
}

var _ engine.Processor = (*Slot)(nil)

// Enter waits for a slot for a turn of an actor type. The error is that of the context, and
// then the turn has none.
func (t *Slot) Enter(ctx context.Context, slots *Slots, app, typ string) error {
	t.slots, t.ctx, t.used, t.total = slots, ctx, 0, 0
	t.entry.App, t.entry.Type, t.entry.Cost = app, typ, 0
	return t.acquire()
}

// Leave gives the slot back, if the turn has one, after so much fuel since Enter. It is safe
// twice.
func (t *Slot) Leave(fuel uint64) {
	if t.has {
		t.has = false
		t.slots.giveBack(t, t.used+fuel-min(fuel, t.total))
	}
	t.ctx = nil
}

// Pause implements [engine.Processor].
func (t *Slot) Pause() bool {
	if !t.has {
		return false
	}
	t.has = false
	t.slots.giveBack(t, t.used)
	return true
}

// Resume implements [engine.Processor].
func (t *Slot) Resume() {
	t.used, t.entry.Cost = 0, 0
	_ = t.acquire() // the guest finds out by itself
}

// acquire takes a slot or waits for one.
func (t *Slot) acquire() error {
	if t.slots.take() {
		t.has = true
		return nil
	}
	t.ready(first)
	t.slots.mu.Lock()
	t.slots.push(t)
	t.slots.deal()
	t.slots.mu.Unlock()
	return t.await()
}

// ready readies the turn for the queue.
func (t *Slot) ready(cost int64) {
	if t.dealt == nil {
		t.dealt = make(chan struct{}, 1)
		t.entry.Value = t
	}
	t.entry.Cost = cost
}

// Yield implements [engine.Processor]. The turn gives its slot to the one that is next, if any
// waits.
func (t *Slot) Yield(fuel uint64) {
	t.used += fuel
	t.total += fuel
	if t.has && t.slots.Waiting() > 0 {
		t.yield()
	}
	// Others than guests want the processor, too.
	runtime.Gosched()
}

func (t *Slot) yield() {
	s := t.slots
	s.mu.Lock()
	if s.queue.Len() == 0 {
		s.mu.Unlock()
		return
	}
	s.queue.Correct(&t.entry, cost(t.used))
	t.used = 0
	t.ready(slice)
	s.push(t)
	t.has = false
	s.state.Add(^uint64(0))
	s.deal()
	s.mu.Unlock()
	_ = t.await() // the guest finds out by itself
}

// await waits until the slots are dealt to the turn, which is in the queue.
func (t *Slot) await() error {
	select {
	case <-t.dealt: // at once, and Done of the context is not needed
		t.has = true
		return nil
	default:
	}
	select {
	case <-t.dealt:
		t.has = true
		return nil
	case <-t.ctx.Done():
	}
	t.slots.mu.Lock()
	select {
	case <-t.dealt: // meanwhile: it goes to another
		t.slots.state.Add(^uint64(0))
		t.slots.queue.Correct(&t.entry, 0)
		t.slots.deal()
	default:
		t.slots.withdraw(t)
	}
	t.slots.mu.Unlock()
	return t.ctx.Err()
}

package executor

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Beginners times as many slots exist for guests that have not used the fuel of a short turn yet.
const Beginners = 8

const (
	// slice is the fuel that a guest uses between two of its turns in the queue: as much as
	// an engine grants at a time.
	slice = 100_000
	// begin is the fuel that a guest uses before its turn goes into the queue again: most turns
	// end before, and have no other go between.
	begin = 5 * slice
	// unknown is the cost at which a turn is dealt that begins, before it is known what it
	// uses: most turns are short, and several of them go in the time of a slice.
	unknown = slice / 8
	// least is what any turn costs beside the work of its guest.
	least = slice / 20
)

const (
	// idleEvery is about how often a processor is left without work where all slots are taken.
	idleEvery = 250 * time.Microsecond
	// idleFor is for how long: with a microsecond, the pause is often over before Go's scheduler
	// has come to the network.
	idleFor = 20 * time.Microsecond
)

// Slots are the places of the guests that run at the same time. All methods may be called
// concurrently.
type Slots struct {
	most  uint64
	first uint64 // most for turns that begin, while none waits
	// state has the number of slots that are taken in its low half, and of turns that wait in
	// its high half. The number that wait changes under mu alone, and is that of the queue.
	state atomic.Uint64
	// idled is when idle left a processor without work last, in nanoseconds of Unix time.
	idled atomic.Int64

	mu    sync.Mutex
	queue *fair.Queue[*Slot]
}

const waitingOne, takenMask = 1 << 32, 1<<32 - 1

// New returns so many slots, at least one.
func New(number int) *Slots {
	most := uint64(max(1, number))
	return &Slots{most: most, first: Beginners * most, queue: fair.New[*Slot](fair.Config{Quantum: slice})}
}

// Waiting returns how many turns wait for a slot.
func (s *Slots) Waiting() int { return int(s.state.Load() / waitingOne) }

// take takes a slot if one is free and no turn waits.
func (s *Slots) take() bool {
	for {
		state := s.state.Load()
		if state >= s.first { // or others wait
			return false
		}
		if s.state.CompareAndSwap(state, state+1) {
			return true
		}
	}
}

// crowded reports whether a turn waits, or more have a slot than may keep it.
func (s *Slots) crowded() bool { return s.state.Load() > s.most }

// full reports whether no slot is free.
func (s *Slots) full() bool { return s.state.Load()&takenMask >= s.most }

// idle leaves a processor without work for a moment, from time to time: Go's scheduler looks for
// what has come from the network only where it has nothing else to run, or after 10 ms. On
// a single processor a moment is a millisecond, since nobody else ends it.
func (s *Slots) idle() {
	last, now := s.idled.Load(), time.Now().UnixNano()
	if s.most > 1 && now-last >= int64(idleEvery) && s.idled.CompareAndSwap(last, now) {
		time.Sleep(idleFor) //nolint:forbidigo // nothing is waited for
	}
}

// push has a turn wait. The caller has the lock.
func (s *Slots) push(t *Slot) {
	if err := s.queue.Push(&t.entry); err != nil {
		panic(err) // the queue has no bounds
	}
	s.state.Add(waitingOne)
}

// withdraw takes back what push did. The caller has the lock.
func (s *Slots) withdraw(t *Slot) {
	s.queue.Remove(&t.entry)
	s.state.Add(^uint64(waitingOne - 1))
}

// deal gives the slots that are free to the turns that are next. The caller has the lock.
func (s *Slots) deal() {
	for {
		state := s.state.Load()
		if state < waitingOne || state&takenMask >= s.most {
			return
		}
		if s.state.CompareAndSwap(state, state+1-waitingOne) {
			s.queue.Next().Value.dealt <- struct{}{}
		}
	}
}

// giveBack frees the slot of a turn that used so much fuel of it.
func (s *Slots) giveBack(t *Slot, used uint64) {
	if s.state.Add(^uint64(0)) < waitingOne {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charge(t, used)
	s.deal()
}

// charge has the app of a turn pay for the fuel that the turn used of its slot. The caller has
// the lock.
func (s *Slots) charge(t *Slot, used uint64) {
	t.entry.App, t.entry.Type = t.who.App, t.who.Type
	s.queue.Correct(&t.entry, int64(used)+least)
}

// Slot is what a turn has of the [Slots]: one or none. The goroutine that runs the turn uses
// it. It is used again, from Enter to Leave; the zero value is ready for Enter.
type Slot struct {
	slots  *Slots
	ctx    context.Context
	who    *actor.Key
	entry  fair.Entry[*Slot]
	dealt  chan struct{} // gets a value when the slots are dealt to the turn
	has    bool
	lender *Slot  // whose slot it is, if it was taken from a turn that waits
	used   uint64 // fuel, of the slot that it has or had last
	may    uint64 // fuel that it may use before it goes into the queue again
	total  uint64 // fuel, since Enter
}

var _ engine.Processor = (*Slot)(nil)

// Enter waits for a slot for a turn of an actor. The error is that of the context, if that
// ends meanwhile, and then the turn has none.
func (t *Slot) Enter(ctx context.Context, slots *Slots, who *actor.Key) error {
	t.slots, t.ctx, t.who, t.used, t.may, t.total, t.entry.Cost = slots, ctx, who, 0, begin, 0, 0
	return t.acquire()
}

// Leave gives the slot back, if the turn has one, after so much fuel since Enter. It is safe
// twice.
func (t *Slot) Leave(fuel uint64) {
	used := t.used + fuel - min(fuel, t.total)
	switch {
	case t.lender != nil:
		t.returnTo(t.lender, used)
	case t.has:
		t.has = false
		t.slots.giveBack(t, used)
	}
	t.ctx, t.who, t.lender = nil, nil, nil
}

// TakeFrom is Enter with the slot of a turn that waits for this one, and has it back with Leave. It
// reports false if that turn has none.
func (t *Slot) TakeFrom(ctx context.Context, waiting *Slot, who *actor.Key) bool {
	if !waiting.has {
		return false
	}
	t.slots, t.ctx, t.who, t.used, t.may, t.total = waiting.slots, ctx, who, waiting.used, waiting.may, 0
	t.entry.Cost = waiting.entry.Cost // at which the slot was dealt, and not this turn's last one
	t.has, waiting.has, t.lender = true, false, waiting
	return true
}

// returnTo gives the slot back to the turn that it was taken from.
func (t *Slot) returnTo(waiting *Slot, used uint64) {
	if !t.has { // its context has ended while it was in the queue
		waiting.Resume()
		return
	}
	t.has, waiting.has = false, true
	waiting.used, waiting.may, waiting.entry.Cost = used, t.may, t.entry.Cost
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
	t.ready(unknown)
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
	t.entry.App, t.entry.Type, t.entry.Cost = t.who.App, t.who.Type, cost
}

// Yield implements [engine.Processor]. The turn gives its slot to the one that is next, if any
// waits.
func (t *Slot) Yield(fuel uint64) {
	t.used += fuel
	t.total += fuel
	if t.has && t.used >= t.may && t.slots.crowded() {
		t.yield()
	}
	if t.has && t.slots.full() {
		t.slots.idle()
	}
	runtime.Gosched()
}

func (t *Slot) yield() {
	s := t.slots
	s.mu.Lock()
	if !s.crowded() {
		s.mu.Unlock()
		return
	}
	s.charge(t, t.used)
	t.used, t.may = 0, slice
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

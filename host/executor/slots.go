package executor

import (
	"sync"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/internal/fair"
)

const (
	// slice is about the fuel that a guest uses before it yields.
	slice = 500_000
	// first is the cost at which a turn is dealt that has not run yet, before it is known
	// what it uses: most turns are short, and several of them go in the time of a slice.
	first = slice / 8
	// least is what any turn costs beside the work of its guest.
	least = slice / 100
)

// Slots are the places of the guests that run at the same time. All methods may be called
// concurrently.
type Slots struct {
	most uint64
	// state has the number of slots that are taken in its low half, and of turns that wait in
	// its high half. The number that wait changes under mu alone, and is that of the queue.
	state atomic.Uint64

	mu    sync.Mutex
	queue *fair.Queue[*Slot]
}

const waitingOne, takenMask = 1 << 32, 1<<32 - 1

// New returns so many slots, at least one.
func New(number int) *Slots {
	return &Slots{most: uint64(max(1, number)), queue: fair.New[*Slot](fair.Config{Quantum: slice})}
}

// Waiting returns how many turns wait for a slot.
func (s *Slots) Waiting() int { return int(s.state.Load() / waitingOne) }

// take takes a slot if one is free and no turn waits.
func (s *Slots) take() bool {
	for {
		state := s.state.Load()
		if state >= s.most { // or others wait
			return false
		}
		if s.state.CompareAndSwap(state, state+1) {
			return true
		}
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
	s.queue.Correct(&t.entry, cost(used))
	s.deal()
}

// cost is what so much fuel costs an app.
func cost(used uint64) int64 { return int64(used) + least }

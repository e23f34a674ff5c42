package tell

import (
	"sync"

	"github.com/greenroom-run/greenroom/actor"
)

// Outbox hands messages over, in order. Its methods may be called concurrently.
type Outbox struct {
	deliver func(*actor.Tell)

	mu         sync.Mutex
	waiting    []actor.Tell
	delivering sync.WaitGroup // the goroutine that hands over, if any
	busy       bool
}

// Init readies an outbox. deliver is called for one message at a time, and must not wait for
// turns: all messages of the outbox wait for it.
func (o *Outbox) Init(deliver func(*actor.Tell)) { o.deliver = deliver }

// Put adds a message. It does not block, and deliver is called on another goroutine: the caller
// may have locks.
func (o *Outbox) Put(t actor.Tell) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, t)
	if o.busy {
		return
	}
	o.busy = true
	o.delivering.Add(1)
	go o.handOver()
}

// handOver hands over until nothing waits.
func (o *Outbox) handOver() {
	defer o.delivering.Done()
	var spare []actor.Tell
	for {
		o.mu.Lock()
		batch := o.waiting
		o.waiting = spare
		o.busy = len(batch) > 0
		o.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			o.deliver(&batch[i])
		}
		clear(batch) // the receivers have what they need
		if spare = batch[:0]; cap(spare) > maxSpare {
			spare = nil
		}
	}
}

// maxSpare is how many messages an outbox has room for when none waits.
const maxSpare = 1024

// Wait waits until nothing waits to be handed over. Nothing is put in meanwhile.
func (o *Outbox) Wait() { o.delivering.Wait() }

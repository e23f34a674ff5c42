package protocol

import (
	"context"
	"sync"
)

// Outbox is what is to be sent on a stream, in order. Putting does not wait: whoever
// uses it bounds what it puts.
type Outbox[M any] struct {
	mu     sync.Mutex
	queue  []M
	unsent int           // what is in the queue, or being sent
	empty  chan struct{} // not nil: closed when unsent is 0
	signal chan struct{} // has a value when the queue is not empty
}

// NewOutbox makes an empty outbox, which sends nothing before [Outbox.Send].
func NewOutbox[M any]() *Outbox[M] { return &Outbox[M]{signal: make(chan struct{}, 1)} }

// Put adds a message behind the others. It never blocks and is safe for concurrent use. The
// outbox does not copy m: nothing may change it any more.
func (o *Outbox[M]) Put(m M) {
	o.mu.Lock()
	o.queue = append(o.queue, m)
	o.unsent++
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// Len returns how many messages wait, without those that [Outbox.Send] has already taken.
func (o *Outbox[M]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// Flushed returns what is closed when all that was put has been sent.
func (o *Outbox[M]) Flushed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.empty == nil {
		o.empty = make(chan struct{})
	}
	empty := o.empty
	o.sent(0)
	return empty
}

// sent notes that so many were sent. The caller has the lock.
func (o *Outbox[M]) sent(n int) {
	if o.unsent -= n; o.unsent == 0 && o.empty != nil {
		close(o.empty)
		o.empty = nil
	}
}

// Send sends what is put, until ctx ends or sending fails.
func (o *Outbox[M]) Send(ctx context.Context, send func(M) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.signal:
		}
		o.mu.Lock()
		queue := o.queue
		o.queue = nil
		o.mu.Unlock()
		for _, m := range queue {
			if err := send(m); err != nil {
				return err
			}
		}
		o.mu.Lock()
		o.sent(len(queue))
		o.mu.Unlock()
	}
}

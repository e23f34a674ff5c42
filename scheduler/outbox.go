package scheduler

import (
	"context"
	"sync"
)

// outbox is what is to be sent on a stream, in order. Putting does not wait: whoever
// uses it bounds what it puts.
type outbox[M any] struct {
	mu     sync.Mutex
	queue  []M
	signal chan struct{} // has a value when the queue is not empty
}

func newOutbox[M any]() *outbox[M] { return &outbox[M]{signal: make(chan struct{}, 1)} }

func (o *outbox[M]) put(m M) {
	o.mu.Lock()
	o.queue = append(o.queue, m)
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

func (o *outbox[M]) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// send sends what is put, until ctx ends or sending fails.
func (o *outbox[M]) send(ctx context.Context, send func(M) error) error {
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
	}
}

package crash

import (
	"context"
	"fmt"
	"sync"

	"github.com/greenroom-run/greenroom/client"
)

// LoadUntil increments the ledger's counters through a client that gives each
// call an idempotency key and repeats it, across whatever happens to the server,
// until stop is closed; then it waits for the calls under way. onAck is called
// after each acknowledgement. With such a client no call may fail, nor count
// twice: see [Ledger.CheckExactly].
func (l *Ledger) LoadUntil(ctx context.Context, stop <-chan struct{}, cl *client.Client, t Target, workers int, onAck func()) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				l.counters[i%len(l.counters)].addThrough(ctx, cl, t)
				onAck()
			}
		})
	}
	wg.Wait()
}

func (c *counter) addThrough(ctx context.Context, cl *client.Client, t Target) {
	if err := c.addOnce(ctx, cl, t); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.problems = append(c.problems, fmt.Sprintf("a call that may be repeated failed: %v", err))
	}
}

// CheckExactly is [Ledger.Check] for a ledger that was filled by LoadUntil alone:
// each counter is what was acknowledged, no less and no more, and the answers
// were all the values up to it.
func (l *Ledger) CheckExactly(ctx context.Context, t Target) (problems []string, err error) {
	if problems, err = l.Check(ctx, t); err != nil {
		return nil, err
	}
	for _, c := range l.counters {
		c.mu.Lock()
		// Check has seen that the counter is not above attempted.
		if c.highest != c.acked || c.attempted != c.acked || int64(len(c.values)) != c.acked {
			problems = append(problems, fmt.Sprintf("counter %s: %d calls, %d acknowledged with %d values up to %d; all must be the same",
				c.id, c.attempted, c.acked, len(c.values), c.highest))
		}
		c.mu.Unlock()
	}
	return problems, nil
}

package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// lifecycle is new ─Start▶ running ─Stop▶ stopped; Stop of a new one is final too.
type lifecycle struct {
	state     atomic.Int32
	mu        sync.Mutex // of changes of state
	stopSweep context.CancelFunc
	swept     chan struct{} // closed when the sweeper has ended
	drained   chan struct{} // closed when the last call is answered and all is closed
	leaving   leavingTime
}

const (
	lifeNew int32 = iota
	lifeRunning
	lifeStopped
)

func (l *lifecycle) init() {
	l.swept, l.drained = make(chan struct{}), make(chan struct{})
	l.stopSweep = func() {}
}

// running reports why no call can be admitted, nil if one can. The shards decide
// anew under their locks: this only keeps calls from a host that never started.
func (l *lifecycle) running() error {
	switch l.state.Load() {
	case lifeRunning:
		return nil
	case lifeNew:
		return fmt.Errorf("%w: it was not started yet", actor.ErrStopping)
	default:
		return actor.ErrStopping
	}
}

// maxAllLeaving is how long hand-overs and the stop may wait for the hooks of actors that leave, in any
// leavingWindow: calls of the actors wait meanwhile, and a drain is many hand-overs.
const maxAllLeaving, leavingWindow = 5 * time.Second, time.Minute

// leavingTime counts how long hand-overs have waited for hooks.
type leavingTime struct {
	mu    sync.Mutex
	since time.Time // when the window began
	spent time.Duration
}

// left returns how long a hand-over that begins now may wait.
func (t *leavingTime) left(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) > leavingWindow {
		t.since, t.spent = now, 0
	}
	return maxAllLeaving - t.spent
}

func (t *leavingTime) spend(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent += d
}

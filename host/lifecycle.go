package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// lifecycle is new ─Start▶ running ─Stop▶ stopped; Stop of a new one is final too.
type lifecycle struct {
	state     atomic.Int32
	mu        sync.Mutex // of changes of state
	stopSweep context.CancelFunc
	swept     chan struct{} // closed when the sweeper has ended
	drained   chan struct{} // closed when the last call is answered and all is closed
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

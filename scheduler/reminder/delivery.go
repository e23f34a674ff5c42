package reminder

import (
	"context"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// delivery is a firing on its way.
type delivery struct {
	reminder *actor.Reminder
	plan     Plan
	late     time.Duration // how long after its time it began
	entry    fair.Entry[*delivery]

	mu    sync.Mutex
	over  bool        // there is an answer
	watch func() bool // ends the watch over its time; nil: none has begun
}

// begun has a delivery given up when its time is out, unless it is over.
func (d *delivery) begun(ctx context.Context, giveUp func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.watch = context.AfterFunc(ctx, giveUp)
	}
}

// answered notes that a delivery is over, and reports false if it was.
func (d *delivery) answered() bool {
	d.mu.Lock()
	was, watch := d.over, d.watch
	d.over = true
	d.mu.Unlock()
	if watch != nil {
		watch()
	}
	return !was
}

package reminder

import "sync"

// tasks are the goroutines of a service.
type tasks struct {
	mu      sync.Mutex
	stopped bool
	wg      sync.WaitGroup
}

// run runs a task on a goroutine of its own, unless the service stops.
func (t *tasks) run(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.wg.Go(do)
	}
}

// refuse runs no task any more.
func (t *tasks) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

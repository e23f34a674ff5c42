package reminder

import (
	"sync"

	"github.com/greenroom-run/greenroom/actor"
)

// Stats counts what a service has done since it started.
type Stats struct {
	Fired, Failed, Retried, Unserved, Missed, Dead, Taken uint64
	// TakenOver counts reminders that came from other instances, for subscribers here;
	// WaitingForSubscribers are in memory, and nobody executes them.
	TakenOver                           uint64
	WaitingForSubscribers               int
	InMemory, Running, Waiting, Buckets int
}

// counters count what has happened, and call the events. Their methods may be called
// concurrently.
type counters struct {
	events *Events

	mu    sync.Mutex
	stats Stats
}

// delivered counts a delivery that has ended.
func (c *counters) delivered(d *delivery, outcome DeliveryOutcome) {
	c.mu.Lock()
	switch outcome {
	case DeliveryFired:
		c.stats.Fired++
	case DeliveryTaken:
		c.stats.Taken++
	case DeliveryRetried:
		c.stats.Retried++
	case DeliveryUnserved:
		c.stats.Unserved++
	case DeliveryDead:
		c.stats.Dead++
		c.stats.Failed++
	case DeliveryFailed:
		c.stats.Failed++
	}
	c.mu.Unlock()
	if c.events.Delivered != nil {
		c.events.Delivered(DeliveryEnd{d.reminder.Key, outcome, d.late})
	}
}

// missed counts occurrences that were missed, once that is committed.
func (c *counters) missed(kind actor.MissedKind, n uint32) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	c.stats.Missed += uint64(n)
	c.mu.Unlock()
	if c.events.Missed != nil {
		c.events.Missed(kind, n)
	}
}

func (c *counters) takenOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.TakenOver++
}

func (c *counters) read() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

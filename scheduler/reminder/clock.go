package reminder

import (
	"sync"
	"time"
)

// dbClock is database time, counted on by the local monotonic clock: never ahead of it
// by more than the two clocks drift apart in two seconds.
type dbClock struct {
	mu     sync.Mutex
	base   time.Time // database time, not after
	at     time.Time // local, with its monotonic reading
	synced bool
}

func (c *dbClock) set(db time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.at, c.synced = db, time.Now(), true
}

func (c *dbClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.synced {
		return time.Time{}
	}
	return c.base.Add(time.Since(c.at))
}

package embedded

import (
	"sync"
	"time"
)

// clock is database time: the host's clock, but never going back, and in
// microseconds, as the SQL drivers keep it.
type clock struct {
	now func() time.Time

	mu   sync.Mutex
	last int64 // microseconds since 1970
}

// read returns database time in microseconds since 1970.
func (c *clock) read() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, c.now().UnixMicro())
	return c.last
}

package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestTypesReadElsewhere: what one host deploys, or takes out of service, the others read
// without being asked for it, and at once.
func TestTypesReadElsewhere(t *testing.T) {
	run(t, func(c *testCluster) {
		reads := map[string]*atomic.Int64{}
		for _, name := range []string{"a", "b", "c"} {
			n := &atomic.Int64{}
			reads[name] = n
			p := c.process(name, func(cfg *Config) {
				cfg.ReadTypes = func(_ context.Context, app string) error {
					if app != "a" {
						return fmt.Errorf("app %q", app)
					}
					n.Add(1)
					return nil
				}
			})
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.alive.Store(true)
		}
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		for _, types := range [][]protocol.Type{{ringType("R"), stickyType("S"), ringType("New")}, {ringType("R")}} {
			for _, n := range reads {
				n.Store(0)
			}
			c.processes[1].setTypes(types...)
			<-time.After(10 * time.Millisecond) // of the bubble's clock: far from any tick
			synctest.Wait()
			if a, b, cc := reads["a"].Load(), reads["b"].Load(), reads["c"].Load(); a == 0 || b != 0 || cc == 0 {
				t.Errorf("%d types at b: %d reads by a, %d by b, %d by c", len(types), a, b, cc)
			}
		}
	})
}

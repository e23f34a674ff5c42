package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/store"
)

// LeaseName is the name of the lease that the leader holds.
const LeaseName = "leader"

// Config is what an [Elector] is made of. All of it is required, except for callbacks.
type Config struct {
	Store store.Cluster
	// Self is the process: its cluster, its address, and the protocol versions that it speaks.
	Self actor.Host
	// Host returns the present incarnation of the process.
	Host func() actor.HostID
	// RenewRow renews the row of that incarnation, and returns the database's time.
	RenewRow func(ctx context.Context) (time.Time, error)
	// Lease is how long the leader's lease and hosts' rows last without renewal.
	Lease time.Duration
	Clock *clock.Clock
	// Ranges is how many ranges the table of a type begins with.
	Ranges int
	// HeatEvery is how often hosts report heat, and Cooling says when one is hot.
	HeatEvery time.Duration
	Cooling   placement.Cooling
	Logger    *slog.Logger
	// Led is called as a term begins, and with leads false as it ends.
	Led func(epoch uint64, leads bool)
	// StickyCleared is called with how many actors a host owned whose row is gone.
	StickyCleared func(n int)
	// HeatMoved is called when a range moves because of heat, with its kind.
	HeatMoved func(kind string)
}

// now is the time on this process's clock.
func (c *Config) now() clock.Instant { return c.Clock.Now() }

// led notifies Led that this process begins or ends a term.
func (c *Config) led(epoch uint64, leads bool) {
	if c.Led != nil {
		c.Led(epoch, leads)
	}
}

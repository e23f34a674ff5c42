package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/server/dapr"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/rpc"
)

// Config is what a [Server] is made of. The zero value of an optional field
// means its default.
type Config struct {
	edge.Config
	rpc.Backends
	// Timers sets timers over plain HTTP. Defaults to none: requests get 501.
	Timers dapr.Timers
	// DrainDelay is how long the server continues as before once it says that it is not
	// ready: what sends requests here by that has to notice. From its half on, answers end
	// their connections. Defaults to 0: nobody asks.
	DrainDelay time.Duration
	// Standstill is after what time without a sign of life the process is taken to have stood still, so
	// that calls with idempotency keys that waited meanwhile are refused: half a lease of the
	// cluster. Defaults to 1.5 s.
	Standstill time.Duration
	// Check reports whether the server's store works now; health follows it.
	// Defaults to always.
	Check func(context.Context) error
	// Gauges are served with Metrics. Defaults to none.
	Gauges metrics.Gauges
}

// WithDefaults returns a copy with every unset optional field at its default.
func (c Config) WithDefaults() Config {
	c.Config = c.Config.WithDefaults()
	c.Standstill = cmp.Or(c.Standstill, 1500*time.Millisecond)
	if c.Check == nil {
		c.Check = func(context.Context) error { return nil }
	}
	if c.Logs == nil {
		c.Logs = rpc.NewLogs()
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Host == nil:
		return errors.New("server: Config.Host is nil; give what runs turns")
	case c.Modules == nil:
		return errors.New("server: Config.Modules is nil; give the module service")
	case c.Actors == nil:
		return errors.New("server: Config.Actors is nil; give what lists actors")
	case c.Peers != nil && c.Interconnect == nil:
		return errors.New("server: Config.Interconnect is nil, and Config.Peers is not; give the router")
	}
	return nil
}

// registerGauges adds to the metrics what is asked for when they are collected.
func (c *Config) registerGauges() error {
	if err := c.Metrics.RegisterGauges(c.Gauges); err != nil {
		return err
	}
	if c.Cluster != nil {
		unreachable := func() int {
			if c.Interconnect == nil {
				return 0
			}
			return len(c.Interconnect.Unreachable())
		}
		if err := c.Metrics.RegisterCluster(c.Cluster, unreachable); err != nil {
			return err
		}
	}
	if c.Reminders != nil {
		return c.Metrics.RegisterReminders(c.Reminders.Stats)
	}
	return nil
}

package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
	"github.com/greenroom-run/greenroom/store"
)

// Defaults of [Config].
const (
	DefaultLease      = 3 * time.Second
	DefaultMaxOwned   = 1_000_000
	DefaultOwnerCache = 1 << 18
	DefaultHeatEvery  = 5 * time.Second
	// MinLease is the shortest lease: below it a slow answer of the database would
	// end hosts.
	MinLease = 200 * time.Millisecond
)

// Aliases, so that users of a [Service] import no package below it.
type (
	// Type is an actor type as a process would run it.
	Type = protocol.Type
	// Stream is a host's end of a session with the leader.
	Stream = protocol.Stream
	// ServerStream is the leader's end of a session.
	ServerStream = protocol.ServerStream
	// Clocks are read beside Go's monotonic clock.
	Clocks = clock.Clocks
)

// The roles of a process, and the versions of the protocol between processes.
const (
	RoleHost      = protocol.RoleHost
	RoleScheduler = protocol.RoleScheduler
	MinProtocol   = protocol.MinVersion
	MaxProtocol   = protocol.MaxVersion
)

// What happens to a range that is moved because of heat.
const (
	HeatSplit = assignment.HeatSplit
	HeatWhole = assignment.HeatWhole
	HeatBack  = assignment.HeatBack
)

// Config is what a [Service] is made of.
type Config struct {
	// Store has the rows of hosts and the leases. Required.
	Store store.Cluster
	// Self is what other hosts learn about this process: Name, Cluster, Address, Roles and
	// Version. Its ID is ignored, since each incarnation gets its own; the protocol versions
	// default to [MinProtocol] and [MaxProtocol], Roles to both.
	Self actor.Host
	// NewID names an incarnation of the process, never twice the same. Defaults to a random
	// name.
	NewID func() actor.HostID
	// Lease is how long a host's row and the leader's lease last without renewal: what
	// the actors of a host that crashed wait for. The same in all processes. Defaults
	// to [DefaultLease].
	Lease time.Duration
	// Types returns the actor types that this process can run now, or could if it had
	// [RoleHost], from memory. It is called often. Required for [RoleHost].
	Types func() []protocol.Type
	// ReadTypes reads the types of an app from the store, so that Types has the newest: it
	// is called when another process has reported newer ones. Defaults to nothing: Types
	// finds out by itself.
	ReadTypes func(ctx context.Context, app string) error
	// Actors is the host that runs them. Required for [RoleHost].
	Actors Actors
	// Dial opens a stream to the leader, which ends with ctx. Required unless there is only ever one
	// process.
	Dial func(ctx context.Context, leader actor.Host) (protocol.Stream, error)
	// Resources is what this process has for actors: how many new sticky ones come to it
	// follows from that. Defaults to nothing: as many as to a mean host.
	Resources placement.Resources
	// Ranges is how many ranges the table of a type begins with, where this process leads.
	// Defaults to [placement.DefaultRanges].
	Ranges int
	// MaxOwned is how many sticky actors this host owns before it releases the least
	// recently used, those aside that calls between actors have together. Defaults to [DefaultMaxOwned].
	MaxOwned int
	// OwnerCache is how many owners of sticky actors, others included, this host remembers;
	// about 300 B each. A call of any other asks a host of the cluster first. Defaults to
	// [DefaultOwnerCache].
	OwnerCache int
	// HeatEvery is how often this host reports what it is asked for, and how often this
	// process looks whether a host is hot, where it leads; the same in all processes.
	// Defaults to [DefaultHeatEvery].
	HeatEvery time.Duration
	// Cooling says when a host is hot. Defaults to what package placement says.
	Cooling placement.Cooling
	// Clocks are beside the monotonic one.
	Clocks clock.Clocks
	// Events are called when something happens. Defaults to no callbacks.
	Events Events
	// Logger defaults to [slog.Default].
	Logger *slog.Logger
}

// Actors is what runs actors. Methods are called by several goroutines.
type Actors interface {
	// HandOver ends the activations of actors that this host does not hold any more. moving names
	// these actors, and [Service.Holds] already reports that they are not held. HandOver returns
	// when what had begun is done, its commits are settled, and nothing of these activations is
	// left in memory; calls that had not begun got [actor.ErrNotOwner].
	HandOver(ctx context.Context, moving func(actor.Key) bool) error
	// InChains returns the actors that calls between actors have together now: none of them is given
	// up for another one. It does not call the service.
	InChains() []actor.Key
	// DropAll ends all activations of types that are held, without waiting: this host
	// holds nothing any more, and others may run them.
	DropAll()
}

// Events are callbacks at changes of state, for metrics and tests. A nil field is not
// called. They must be quick and must not call the service.
type Events struct {
	// StickyAcquired is called when an acquisition of this host was answered, with how long
	// that took, times without a leader among it: it was
	// granted, or another host owns the actor.
	StickyAcquired func(granted bool, took time.Duration)
	// StickyReleased is called with how many actors this host gave up.
	StickyReleased func(n int)
	// StickyCleared is called at the leader with how many actors a host owned whose row
	// is gone: by its claims, or by the row, which is a quarter of a lease old, if it has
	// made none to this leader.
	StickyCleared func(n int)
	// HandedOver is called when nothing is left here of ranges that a LOCK named, with how
	// long that took.
	HandedOver func(took time.Duration)
	// RangesMoved is called when others have ranges that this host handed over, with how
	// long actors of them were paused at most: from the LOCK to the UNLOCK.
	RangesMoved func(ranges int, paused time.Duration)
	// Drained is called when this host has handed over all that it held.
	Drained func(reason string)
	// Led is called when this process begins a term as leader, and with leads false
	// when it ends.
	Led func(epoch uint64, leads bool)
	// HeatMoved is called at the leader when it has a range moved because of heat, with
	// [HeatSplit], [HeatWhole] or [HeatBack].
	HeatMoved func(kind string)
	// Ended is called when the host's row was gone, so that it began anew.
	Ended func(actor.HostID)
}

// WithDefaults returns a copy with the defaults filled in.
func (c Config) WithDefaults() Config {
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	if c.Self.Roles == nil {
		c.Self.Roles = []string{protocol.RoleHost, protocol.RoleScheduler}
	}
	if c.Self.MaxProtocol == 0 {
		c.Self.MinProtocol, c.Self.MaxProtocol = protocol.MinVersion, protocol.MaxVersion
	}
	if c.NewID == nil {
		c.NewID = func() actor.HostID { return actor.HostID(rand.Text()) }
	}
	c.Ranges = cmp.Or(c.Ranges, placement.DefaultRanges)
	c.MaxOwned = cmp.Or(c.MaxOwned, DefaultMaxOwned)
	c.OwnerCache = cmp.Or(c.OwnerCache, DefaultOwnerCache)
	c.HeatEvery = cmp.Or(c.HeatEvery, DefaultHeatEvery)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c Config) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("scheduler config: Store is missing")
	case c.Self.Cluster == "":
		return errors.New("scheduler config: Self.Cluster is empty; give the cluster a name")
	case c.Lease < MinLease:
		return fmt.Errorf("scheduler config: Lease is %v; give at least %v", c.Lease, MinLease)
	case c.Ranges < 1:
		return fmt.Errorf("scheduler config: Ranges is %d; give at least 1", c.Ranges)
	case c.OwnerCache < 1:
		return fmt.Errorf("scheduler config: OwnerCache is %d; give at least 1", c.OwnerCache)
	case c.Resources.Processors < 0 || c.Resources.Memory < 0:
		return fmt.Errorf("scheduler config: Resources are %d processors and %d bytes; give what the machine has, or 0", c.Resources.Processors, c.Resources.Memory)
	case math.IsNaN(c.Resources.Weight), c.Resources.Weight < 0, c.Resources.Weight > placement.MaxGivenWeight:
		return fmt.Errorf("scheduler config: Resources.Weight is %v; give a number up to %d, or 0", c.Resources.Weight, placement.MaxGivenWeight)
	case c.MaxOwned < 1:
		return fmt.Errorf("scheduler config: MaxOwned is %d; give at least 1", c.MaxOwned)
	case c.HeatEvery < 0:
		return fmt.Errorf("scheduler config: HeatEvery is %v; give a time above 0", c.HeatEvery)
	case len(c.Self.Roles) == 0:
		return fmt.Errorf("scheduler config: Self.Roles is empty; give %s, %s or both", protocol.RoleHost, protocol.RoleScheduler)
	case c.hosts() && (c.Types == nil || c.Actors == nil):
		return fmt.Errorf("scheduler config: a process with the role %s needs Types and Actors", protocol.RoleHost)
	}
	for _, r := range c.Self.Roles {
		if r != protocol.RoleHost && r != protocol.RoleScheduler {
			return fmt.Errorf("scheduler config: there is no role %q; give %s, %s or both", r, protocol.RoleHost, protocol.RoleScheduler)
		}
	}
	return nil
}

// hosts reports whether the process runs actors.
func (c Config) hosts() bool { return slices.Contains(c.Self.Roles, protocol.RoleHost) }

// leads reports whether the process may lead.
func (c Config) leads() bool { return slices.Contains(c.Self.Roles, protocol.RoleScheduler) }

// environment is what all parts of a process share.
type environment struct {
	cfg   Config
	clock *clock.Clock
}

// now is the time on this process's clock.
func (e *environment) now() clock.Instant { return e.clock.Now() }

package host

import (
	"context"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/follow"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
	"github.com/greenroom-run/greenroom/host/throttle"
	"github.com/greenroom-run/greenroom/host/timer"
	"github.com/greenroom-run/greenroom/host/turn"
)

// ModuleSource says what serves an actor type.
type ModuleSource interface {
	// Current returns what serves the type now, from memory;
	// [actor.ErrTypeNotFound]. The specification is shared and read-only, its
	// defaults filled in.
	Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error)
	// Changes is another number after anything that Current returns has changed,
	// so that it need not be asked for every turn.
	Changes() uint64
	// Refresh reads the deployments of an app again, after a row was met that
	// a newer generation wrote, or a call of what nothing here serves.
	Refresh(ctx context.Context, app string) error
	// ModuleBytes reads a module.
	ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error)
}

type (
	// Reminders keeps and delivers reminders.
	Reminders = lane.Keeper
	// Rules has the rules of apps.
	Rules = throttle.Source
	// Counter counts what apps store.
	Counter = throttle.Counter
	// View is an actor as people and tools see it.
	View = lane.View
	// Ownership says which actors this host may run in a cluster.
	Ownership = activation.Cluster
	// Deactivation is an actor that has left memory.
	Deactivation = activation.Deactivation
	// DeactivateReason says why an actor left memory.
	DeactivateReason = activation.DeactivateReason
	// Receiver gets the answer to a call that Begin was given.
	Receiver = call.Receiver
	// Begun is a call that was begun.
	Begun = call.Begun
	// PlacedReceiver is a [Receiver] that has others begun in order.
	PlacedReceiver = call.PlacedReceiver
	// TurnEnd is one finished invocation.
	TurnEnd = call.TurnEnd
	// Phase is a part of a turn.
	Phase = call.Phase
	// ChainStats is what a turn and those that it has called were together.
	ChainStats = call.ChainStats
	// Committer is what the host needs of a store.
	Committer = storage.Committer
	// CommitEnd is one finished attempt to commit.
	CommitEnd = storage.CommitEnd
	// Limits bound the actors of a type.
	Limits = serving.Limits
	// Scope is an app, or one actor type of it.
	Scope = serving.Scope
	// Lane is the way in which a turn holds its actor still.
	Lane = serving.Lane
	// Settings reads the settings of apps.
	Settings = turn.Settings
	// ServiceSource says who stands for services.
	ServiceSource = follow.Source
	// Egress sends the HTTP requests of guests.
	Egress = turn.Egress
	// EgressRequest is one of them.
	EgressRequest = turn.EgressRequest
	// EgressEnd reports the outcome of a request.
	EgressEnd = turn.EgressEnd
	// GuestLog is a line that a guest logged.
	GuestLog = turn.Log
	// TimerFired is one firing of a timer that has begun.
	TimerFired = timer.Fired
	// PoolConfig is a pool of turns, for Config.Pools.
	PoolConfig = executor.PoolConfig
	// InstanceEvent says what happened to an instance.
	InstanceEvent = instance.Event
)

// The reasons for leaving memory.
const (
	DeactivateIdle     = activation.DeactivateIdle
	DeactivatePressure = activation.DeactivatePressure
	DeactivateStop     = activation.DeactivateStop
	DeactivateDone     = activation.DeactivateDone
	DeactivateMoved    = activation.DeactivateMoved
)

// The lanes; package serving says what each of them is for.
const (
	LaneNone      = serving.LaneNone
	LaneWarm      = serving.LaneWarm
	LaneLocked    = serving.LaneLocked
	LaneReadOnly  = serving.LaneReadOnly
	LaneStateless = serving.LaneStateless
	LaneCopy      = serving.LaneCopy
	LaneCalled    = serving.LaneCalled
)

// DefaultLimits returns the limits of a host that was told nothing.
func DefaultLimits() Limits { return serving.DefaultLimits() }

// Peers calls actors that other hosts hold.
type Peers interface {
	// Locate returns the host that holds an actor, once that is known, and this host.
	Locate(ctx context.Context, key actor.Key) (holder, self actor.HostID, err error)
	// Session returns a context that ends when the session to a host breaks, or cannot be
	// opened, or when that host is gone. It does not block.
	Session(id actor.HostID) context.Context
	// Begin is [Host.Begin] for actors of all hosts. A call that has an idempotency key is
	// sent again while its outcome is unknown; [actor.ErrAmbiguous] if it stays unknown.
	Begin(ctx context.Context, inv actor.Invocation, to Receiver) Begun
}

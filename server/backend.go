package server

import (
	"context"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/store"
)

// Host runs turns. [*host.Host] does; so does whatever routes to other hosts. What
// it gets has been checked here: names, IDs and idempotency keys are valid.
type Host interface {
	Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error)
	// Begin is Invoke for who does not wait: see [host.Host.Begin].
	Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun
	// Delete removes an actor's state as a turn of its own.
	Delete(ctx context.Context, key actor.Key) error
	// View reads an actor; actor.ErrActorNotFound when nothing is stored.
	View(ctx context.Context, key actor.Key) (host.View, error)
}

// Timers sets, cancels and reads timers of actors, wherever they are: see [host.Host.SetTimer].
type Timers interface {
	SetTimer(ctx context.Context, spec actor.TimerSpec) (replaced bool, err error)
	CancelTimer(ctx context.Context, key actor.Key, name string) (existed bool, err error)
	GetTimer(ctx context.Context, key actor.Key, name string) (actor.Timer, error)
}

// Modules keeps modules and says what serves each type. [*modules.Service] does.
// Digests may be prefixes as long as they are unambiguous.
type Modules interface {
	Upload(ctx context.Context, app string, wasm actor.Code, progress func(modules.Stage)) (actor.Module, error)
	Module(ctx context.Context, app string, digest actor.Digest) (actor.Module, error)
	List(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error)
	Bytes(ctx context.Context, app string, digest actor.Digest) ([]byte, error)
	Delete(ctx context.Context, app string, digest actor.Digest) error
	Deploy(ctx context.Context, req modules.DeployRequest) ([]actor.Deployment, []string, error)
	Undeploy(ctx context.Context, req modules.UndeployRequest) (ds []actor.Deployment, warnings []string, err error)
	Rollback(ctx context.Context, req modules.RollbackRequest) (actor.Deployment, []string, error)
	History(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error)
	Types(ctx context.Context, app string) ([]modules.ServedType, error)
	// Current is what serves a type as far as the process knows, from memory.
	Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error)
	Apps(ctx context.Context, after string, limit int) ([]store.AppInfo, error)
}

// Lister lists actors; every store does.
type Lister interface {
	ListActors(ctx context.Context, q store.ActorQuery) (list []store.ActorInfo, next string, err error)
}

package rpc

import (
	"context"
	"net/http"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/query"
	"github.com/greenroom-run/greenroom/server/transcode"
	"github.com/greenroom-run/greenroom/store"
)

// Backends are what the services call. The zero value of an optional field means its default.
type Backends struct {
	// Host runs turns. Required.
	Host Host
	// Modules keeps modules and deployments. Required.
	Modules Modules
	// Actors lists actors. Required.
	Actors Lister
	// Settings keeps the settings of apps. Without it there is no SettingsService.
	Settings Settings
	// Reminders sets and looks after reminders, among them the cursors of subscriptions. Without it
	// there is no ReminderService, and subscriptions are not listed.
	Reminders Reminders
	// Queues are the mailboxes of this process. Without them CancelQueued is refused.
	Queues Queues
	// Stored returns what an app stores, as this process counted it last. Defaults to nothing.
	Stored func(app string) (stored actor.Stored, known bool)
	// Messages stores messages to actors. Without it they are refused.
	Messages Messages
	// Feed has the events of actors. Without it nobody can subscribe.
	Feed events.Feed
	// Cluster knows the servers that share the store. Without it there is no
	// ClusterService.
	Cluster Cluster
	// Version is the binary's, for people. Defaults to none.
	Version string
	// Logs are what guests logged, served by LogService. Defaults to none.
	Logs *Logs
	// Interconnect takes calls of other hosts. Required with Peers; defaults to none.
	Interconnect Interconnect
	// PeerServices are further ones that only hosts speak. Defaults to none.
	PeerServices []PeerService
}

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

// Queues are the mailboxes of a host's actors. [host.Queues] are.
type Queues interface {
	// CancelQueued cancels what waits for an actor or, without an ID, for all actors of a type.
	CancelQueued(of actor.Key) host.Cancelled
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
	// Current returns what serves a type, from memory: another process may have deployed since.
	Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error)
	Apps(ctx context.Context, after string, limit int) ([]store.AppInfo, error)
	// HasService reports whether a type of some app serves a Protobuf service, from memory.
	HasService(service string) bool
	// ServiceType returns the type of an app that serves a Protobuf service now, from memory.
	ServiceType(app, service string) (t modules.ServedType, ok bool)
	// Services returns the names of the Protobuf services of an app, from memory, in their order.
	Services(app string) []string
}

// Lister lists actors and services; every store does.
type Lister interface {
	ListServices(ctx context.Context, q actor.ServiceQuery) ([]actor.Service, error)
	ListActors(ctx context.Context, q store.ActorQuery) (list []store.ActorInfo, next string, err error)
	query.Scanner
}

// Interconnect takes the calls that other hosts send; [*routing.Router] does.
type Interconnect interface {
	Accept(hello *greenroomv1.ExchangeHello) (*routing.Accepted, *greenroomv1.ExchangeHello, error)
	// Reach asks hosts which of them they cannot reach.
	Reach(ctx context.Context, hosts []actor.HostID) []routing.Reach
	// Unreachable are hosts that calls from here could not reach.
	Unreachable() []routing.Unreachable
	// CountTurns is what another host counted of the turns of an app.
	CountTurns(ctx context.Context, host actor.HostID, app string) (*greenroomv1.ExchangeTurnsResponse, error)
	// CancelQueued is [Queues].CancelQueued of another host.
	CancelQueued(ctx context.Context, at actor.HostID, of actor.Key) (host.Cancelled, error)
	// TailLogs is LogService.Tail for what another host remembers and runs.
	TailLogs(ctx context.Context, host actor.HostID, req *greenroomv1.TailRequest, each func(*greenroomv1.TailResponse) error) error
}

// PeerService is a service between hosts. Its streams are not bounded here.
type PeerService struct {
	Handler    http.Handler
	Procedures []string // the paths of its methods
}

// Messages stores and lists messages to actors.
type Messages interface {
	transcode.Receivers
	// Send stores a message from outside, with an idempotency key once: repeated reports
	// whether an earlier call stored it. Errors are those of [inbox.Outbox.Message] and of the
	// store.
	Send(ctx context.Context, r *inbox.Request, idempotencyKey string) (id actor.ReminderID, repeated bool, err error)
	// Cancel removes messages that wait, and returns how many, and whether there may be more.
	Cancel(ctx context.Context, req reminder.CancelRequest) (removed int, more bool, err error)
	// List lists the messages to an actor.
	List(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error)
}

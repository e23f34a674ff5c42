package rpc

import (
	"context"
	"net/http"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/modules"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/query"
	"github.com/greenroom-run/greenroom/server/transcode"
	"github.com/greenroom-run/greenroom/settings"
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

// Cluster knows the servers that share a store. [*scheduler.Service] does.
type Cluster interface {
	Hosts(ctx context.Context) (scheduler.HostList, error)
	// Others returns the other members that this process knows.
	Others() []actor.Host
	FindHost(name string) (actor.HostID, error)
	DrainHost(id actor.HostID) error
	Where(ctx context.Context, key actor.Key) (scheduler.Location, error)
	Sticky(ctx context.Context, app, typ string, owner actor.HostID, after actor.Key, limit int) ([]ownership.StickyEntry, error)
	Placement(app, typ string) (policy string, parts []scheduler.Part, err error)
	Heat(ctx context.Context, app, typ string) ([]scheduler.HostHeat, error)
	metrics.Cluster
}

// Reminders sets and looks after reminders. [*reminder.Admin] does.
type Reminders interface {
	// Now is database time; zero before there are reminders.
	Now() time.Time
	Set(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, reminder.Outcome, error)
	Get(ctx context.Context, name actor.ReminderName) (actor.Reminder, error)
	List(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error)
	Cancel(ctx context.Context, names []actor.ReminderName) error
	SetPaused(ctx context.Context, names []actor.ReminderName, paused bool) (found, changed int, err error)
	DeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error)
	// DeadLetter returns one of an app; [actor.ErrDeadLetterNotFound].
	DeadLetter(ctx context.Context, app string, id reminder.DeadLetterID) (*actor.DeadLetter, error)
	Retry(ctx context.Context, app string, id reminder.DeadLetterID) (actor.Reminder, error)
	RemoveDeadLetter(ctx context.Context, app string, id reminder.DeadLetterID) (existed bool, err error)
	Buckets(ctx context.Context, app string, after actor.Bucket, limit int) ([]actor.BucketRow, error)
	// Subscribe makes a subscriber of subscriptions of an app.
	Subscribe(app string, names []string, limit int) (*reminder.Subscriber, error)
	// Prefix returns the prefix of the IDs of an app's reminders.
	Prefix(ctx context.Context, app string) (actor.Prefix, error)
	// Follow makes a follower of reminders of an app that has the prefix.
	Follow(app string, prefix actor.Prefix) *reminder.Follower
	// Release gives reminders that wait for subscribers to another host.
	Release(ctx context.Context, r reminder.ReleaseRequest) ([]actor.ReminderID, error)
	Notice(heads []store.ReminderHead)
	// Table returns who delivers which buckets of an app, and what is closed when that changes.
	Table(app string) (rows []actor.BucketRow, changed <-chan struct{})
	// Stats is for metrics.
	Stats() reminder.Stats
}

// Settings keeps the settings of apps. [*settings.Service] implements it.
type Settings interface {
	List(ctx context.Context, app string) (settings.Listing, error)
	SetConfig(ctx context.Context, app, name, value string) error
	UnsetConfig(ctx context.Context, app, name string) error
	SetSecret(ctx context.Context, app, name string, value []byte) error
	UnsetSecret(ctx context.Context, app, name string) error
	GrantHTTP(ctx context.Context, app string, grant actor.HTTPGrant) (string, error)
	RevokeHTTP(ctx context.Context, app, host string) error
	SetQuota(ctx context.Context, app string, name actor.Quota, rate actor.Rate, most int64) error
	UnsetQuota(ctx context.Context, app string, name actor.Quota) error
	SetLimit(ctx context.Context, app string, scope actor.LimitScope, limit actor.Limit) error
	UnsetLimit(ctx context.Context, app string, scope actor.LimitScope) error
	PauseType(ctx context.Context, app, typ string, pause actor.Pause) error
	ResumeType(ctx context.Context, app, typ string) error
	// Missing returns the part of uses that the app has no settings for.
	Missing(ctx context.Context, app string, uses abi.Capabilities) (abi.Capabilities, error)
}

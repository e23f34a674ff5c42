package store

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Store keeps actors, modules and deployments. All methods may be called
// concurrently; see the package comment for what they promise.
type Store interface {
	Actors
	Modules
	Settings
	Cluster
	Reminders
	Events
	Services

	// Now returns database time.
	Now(ctx context.Context) (time.Time, error)
	// Check reports whether the store can be read and written now, for health.
	Check(ctx context.Context) error
	// Shared reports whether other processes may write to what this store reads: a
	// host of one that nobody shares is always current.
	Shared() bool
	// Name says which engine this is, for people and logs: "embedded",
	// "cockroachdb", "postgresql".
	Name() string
	// Close releases everything. Calls in flight end first; later ones answer
	// actor.ErrUnavailable. It is safe twice.
	Close() error
}

// Actors is the part of a [Store] that turns use.
type Actors interface {
	// LoadActors reads one row per key, in the order of keys. A key without a
	// row gives the zero Row. Rows own their bytes. If rows are damaged the
	// error is a [*DamagedError] that lists them: the result then has every
	// other row, and zero Rows in the places of the damaged ones. With any
	// other error there is no result. Rows that opts.MaxBytes left out are
	// marked; the states of the others have fewer bytes together, but for the
	// last one read.
	LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error)

	// Versions reads the newest committed version of each key, in the order of
	// keys: a group costs one statement, and no state is read. The versions of
	// one call need not be of one moment, but each was the newest at some moment
	// between the call and its answer: what was read from a row before the call
	// was current then if the version is still the same. A damaged row has the
	// version of [DamagedRow].
	Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error)

	// Commit makes each commit durable or refuses it; the result has one error
	// per commit, in order, nil for an applied one. It does not keep the commits.
	// A context that is done before the group is sent applies nothing; one that
	// ends later does not stop it, but may leave it actor.ErrAmbiguous.
	Commit(ctx context.Context, commits []actor.Commit) []error

	// LockedTurn loads the row of key under a lock that keeps other locked
	// turns of the same actor waiting, calls fn with it, and commits what fn
	// returns, nil meaning nothing, in the same transaction and under the
	// version like any other commit: it names key and the row's version. A
	// Commit from elsewhere either waits, or wins and is never lost: fn may be
	// called again after that or after a serialization failure, each time with
	// the row anew, and actor.ErrStale is the answer when that does not end. An
	// error of fn ends the transaction without a trace and is returned as it
	// is, possibly wrapped. The returned commit is the one that applied, or
	// after actor.ErrAmbiguous the one to settle; otherwise nil.
	LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error)

	// Settle decides an ambiguous commit: nil, it was applied;
	// actor.ErrStale, it was not and never will be; actor.ErrAmbiguous, the
	// row has moved on and nobody can tell; anything else, try again. See the
	// package comment for the rule.
	Settle(ctx context.Context, c actor.Commit) error

	// ListActors returns the live actors of a type with an ID above after, in
	// byte order of their IDs, at most limit (1 to [MaxList]) of them, without
	// state bytes, and the ID after which the list goes on: empty if that was all.
	// It looks at no more than [MaxExamined] rows, tombstones among them, so that
	// fewer than limit, or none, may be returned where there are others. It is for
	// people and tools, not for a request path. A damaged row is listed as such
	// where its key can still be read.
	ListActors(ctx context.Context, q ActorQuery) (list []ActorInfo, next string, err error)

	// ScanActors calls visit with the live rows that q selects, in byte order of their IDs,
	// until visit wants no more. It examines at most q.Limit rows, and returns how many it
	// did, and the ID after which the scan goes on: empty if there are no more rows. Each row
	// is as it was at one moment of the scan; two rows may be of two moments. A row and its
	// state are valid during the call only. A damaged row is visited as such where its key can
	// still be read. visit may take its time, but must not call the store. What was visited
	// counts only if the result is no error: until then, a row may not be durable.
	ScanActors(ctx context.Context, q ActorScan, visit func(row *ScannedActor) (more bool)) (examined int, next string, err error)

	// LoadIdempotency returns what is recorded of each call, in their order, one
	// statement for a group. A record that cannot be read harms its own call alone
	// ([actor.Recorded].Err). Replies are as large as they were recorded: the
	// caller bounds how many calls it asks for. Records own their bytes.
	LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error)

	// SweepIdempotency removes records that have expired by database time, at
	// most limit (1 to [MaxList]), and returns how many.
	SweepIdempotency(ctx context.Context, limit int) (int, error)

	// SweepTombstones removes tombstones written before the given database
	// time, at most limit (1 to [MaxList]), and returns how many. The caller
	// leaves them an hour at least, far above every timeout of a commit.
	SweepTombstones(ctx context.Context, before time.Time, limit int) (int, error)
}

// ActorQuery selects actors.
type ActorQuery struct {
	App, Type string
	Prefix    string // of IDs; empty: all
	After     string // exclusive; empty: from the first
	Limit     int
}

// AnyRevision has [Modules].Deploy not ask for the revision of an app's deployments.
const AnyRevision uint64 = 0

// Revision counts what was deployed in an app: ds are what [Modules].Deployments returned for it.
// It is never [AnyRevision].
func Revision(ds []actor.Deployment) uint64 {
	revision := uint64(1)
	for _, d := range ds {
		revision += d.Generation
	}
	return revision
}

// Modules is the part of a [Store] that keeps modules and deployments.
type Modules interface {
	// PutModule stores a module with its bytes; an [*actor.ArgumentError] when
	// Digest or Size is not theirs. CreatedAt is set by the store. Storing the
	// same digest in the same app again succeeds, and changes nothing but CreatedAt, so that
	// the module counts as new; it puts damaged bytes right. A module is seen whole or not at all. Of wasm no more than a
	// few pieces of 1 MiB are in memory.
	//
	// The app's modules together take at most so many bytes, as [StoredBytes] counts them;
	// with 0 there is no bound. Modules that [MarkUse] does not keep make room, in the
	// order of [MakeRoom], decided atomically with Deploy and with all other PutModule and
	// DeleteModule. If they cannot, nothing is removed or stored: actor.ErrModulesFull.
	PutModule(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error
	// Module returns a module's description; actor.ErrModuleNotFound.
	Module(ctx context.Context, app string, d actor.Digest) (actor.Module, error)
	// ModuleBytes returns a module's bytes, checked against its digest;
	// actor.ErrModuleNotFound, actor.ErrModuleDamaged.
	ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error)
	// ListModules returns modules in order of digest above after, at most limit
	// (1 to [MaxList]).
	ListModules(ctx context.Context, app string, after actor.Digest, limit int) ([]actor.Module, error)
	// DeleteModule removes a module; actor.ErrModuleNotFound, and
	// actor.ErrModuleInUse when it serves any type now, decided atomically
	// with Deploy.
	DeleteModule(ctx context.Context, app string, d actor.Digest) error

	// Deploy appends deployments of one app, all or none, each at the
	// generation right after the type's current one: a deployment whose
	// Generation is not that is actor.ErrDeployConflict. CreatedAt is set by
	// the store. actor.ErrModuleNotFound when a digest is not stored; one that is
	// empty takes its type out of service, from generation 2 on. No type is named
	// twice. No deployments: nothing to do. Bounds: [ValidateDeployments].
	//
	// Unless revision is [AnyRevision], the app's deployments are to have that [Revision] still,
	// decided atomically with all other Deploy that give one; or else it is
	// actor.ErrDeployConflict. So the caller may decide by the types that are not in ds.
	Deploy(ctx context.Context, ds []actor.Deployment, revision uint64) error
	// Deployments returns the current deployment of every type of every app
	// (app empty) or of one, in byte order of app, then type; also those that
	// took a type out of service.
	Deployments(ctx context.Context, app string) ([]actor.Deployment, error)
	// DeploymentHistory returns a type's deployments, newest first, with a
	// generation below before (0: from the newest), at most limit (1 to
	// [MaxList]).
	DeploymentHistory(ctx context.Context, app, typ string, before uint64, limit int) ([]actor.Deployment, error)
	// ListApps returns the apps that have modules, or had a type deployed, in byte
	// order above after (empty: from the first), at most limit (1 to [MaxList]).
	ListApps(ctx context.Context, after string, limit int) ([]AppInfo, error)
}

// AppInfo is an app as lists show it.
type AppInfo struct {
	App string
	// Types are those that a module serves now; Modules those that are stored.
	Types, Modules int
	// DeployedAt is when what serves a type changed last, database time; zero if
	// nothing was ever deployed.
	DeployedAt time.Time
}

// Settings is the part of a [Store] that keeps the settings of apps. Writing the
// same again is harmless; after actor.ErrUnavailable or actor.ErrAmbiguous a write
// may have applied, and the remedy is to write again.
type Settings interface {
	// PutSetting stores a setting in the place of any of its app, kind and name.
	// UpdatedAt is set by the store. An [*actor.ArgumentError] when it breaks a
	// bound: [ValidateSetting].
	PutSetting(ctx context.Context, s actor.Setting) error
	// ReplaceSetting does so only where the value that is there is was, byte for
	// byte, and reports whether it did. It may have applied after an error, and,
	// where a driver has repeated it after one, when it reports false.
	ReplaceSetting(ctx context.Context, s actor.Setting, was []byte) (bool, error)
	// DeleteSetting removes a setting, if it is there.
	DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error
	// Settings returns all settings of an app, in byte order of kind, then name.
	// They own their values.
	Settings(ctx context.Context, app string) ([]actor.Setting, error)
	// SettingApps returns up to limit apps that have settings, in byte order, after
	// an app or, if that is empty, from the first.
	SettingApps(ctx context.Context, after string, limit int) ([]string, error)
}

// Services is the part of a [Store] that reads services. Commits change them.
type Services interface {
	// FindService returns who stands for a service; the zero Service if nobody does.
	FindService(ctx context.Context, app, name string) (actor.Service, error)
	// ListServices returns services of an app in byte order of their names.
	ListServices(ctx context.Context, q actor.ServiceQuery) ([]actor.Service, error)
}

// ValidateServiceQuery checks a query, for drivers.
func ValidateServiceQuery(q *actor.ServiceQuery) error {
	if err := actor.ValidateName("app", q.App); err != nil {
		return err
	}
	return ValidateLimit(q.Limit)
}

// Events is the part of a [Store] that keeps the events which commits publish.
type Events interface {
	// ReadEvents returns events of an actor in their order, and the newest position that was
	// trimmed as it was after they were read: events up to there may be missing.
	ReadEvents(ctx context.Context, q actor.EventQuery) (actor.EventPage, error)
	// NewestEvent returns the position of an actor's newest event, also of one that was
	// trimmed; the zero value if there was none.
	NewestEvent(ctx context.Context, key actor.Key) (actor.EventPosition, error)
	// TrimEvents removes the oldest events of an actor that go beyond what is kept. The position
	// of the newest of them stays. Done twice it is the same.
	TrimEvents(ctx context.Context, key actor.Key, keep actor.EventsKept) error
}

// MaxList is the highest limit of the listing methods.
const MaxList = 1000

// ValidateLimit checks the limit of a listing method, for drivers.
func ValidateLimit(limit int) error {
	if limit < 1 || limit > MaxList {
		return &actor.ArgumentError{Field: "limit", Problem: fmt.Sprintf("is %d; give 1 to %d", limit, MaxList)}
	}
	return nil
}

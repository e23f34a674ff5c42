package reminder

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Store is what the service needs of a store.
type Store interface {
	AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (actor.BucketRow, error)
	AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (actor.BucketRow, bool, error)
	CloseBucket(ctx context.Context, b actor.Bucket) error
	SaveBuckets(ctx context.Context, progress []store.BucketProgress) error
	RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (bool, error)
	Buckets(ctx context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error)
	DueReminders(ctx context.Context, q store.DueQuery) ([]store.ReminderHead, error)
	RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) ([]store.ReminderHead, error)
	LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error)
	Inbox(ctx context.Context, key actor.Key, limit int) (store.InboxSize, error)

	Commit(ctx context.Context, commits []actor.Commit) []error
	Now(ctx context.Context) (time.Time, error)
	Shared() bool
}

// Deliverer has the turns of firings run, wherever their actors are.
type Deliverer interface {
	// Deliver begins the delivery of a firing, and calls ended once, on any goroutine and
	// perhaps before it returns, when its turn has ended: with nil once it is committed, with
	// the firing's step among its effects; with [actor.ErrFiringTaken] if the step was taken
	// before; otherwise with why it was not committed.
	//
	// It may take the time of the turn, but need not wait for it. When ctx ends, which has a
	// deadline, giveUp is called as well: then ended is to be called soon, if it was not.
	Deliver(ctx context.Context, f actor.Firing, ended func(error)) (giveUp func())
}

// Config is what a [Service] is made from. Zero values mean the defaults.
type Config struct {
	Store     Store
	Deliverer Deliverer
	// Host is this incarnation of the process; never that of another. Required, unless
	// Members says it.
	Host actor.HostID
	// Peers reaches the other instances, for reminders whose subscribers are here. Defaults to
	// none: reminders are executed where their buckets are.
	Peers Peers
	// Members says which processes there are. Defaults to this process alone.
	Members Members
	// Window is how far ahead reminders are read. Defaults to 2 minutes.
	Window time.Duration
	// MaxInMemory is how many reminders are in memory at most, about. Apps share it: one app may
	// have seven times what is free. Of the reminders above that, each bucket still has a page of
	// 5,000 in memory, and what is being read counts besides; the others stay in the store until
	// there is space. Defaults to 4,000,000, which take some 160 MB.
	MaxInMemory int
	// MaxRunning is how many deliveries are under way at most; of one app, one type and
	// one actor those that follow. They default to 4,096, 2,048, 1,024 and 4.
	MaxRunning, MaxOfApp, MaxOfType, MaxOfActor int
	// ExecutionTimeout ends a delivery, and is how long a subscriber has. Defaults to 60 s.
	ExecutionTimeout time.Duration
	// Events are called when something happens. Defaults to no callbacks.
	Events Events
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Events are called when something happens, on any goroutine: they must not block. Those
// that are nil are left out.
type Events struct {
	// Set: reminders of an app were set, so many, by a commit that this process was told
	// of.
	Set func(app string, n int)
	// Delivered: a delivery has ended.
	Delivered func(DeliveryEnd)
	// Missed: occurrences were passed over, or stood for by another one's firing, so many,
	// under this policy.
	Missed func(kind actor.MissedKind, n uint32)
}

// DeliveryEnd is how a delivery ended.
type DeliveryEnd struct {
	Key     actor.Key
	Outcome DeliveryOutcome
	// Late is how long after its time the delivery began.
	Late time.Duration
}

// DeliveryOutcome is how a delivery ended.
type DeliveryOutcome uint8

const (
	// DeliveryFired says that its turn was committed.
	DeliveryFired DeliveryOutcome = iota
	// DeliveryTaken says that another had been committed, or the reminder was changed or removed.
	DeliveryTaken
	// DeliveryRetried says that it is delivered again, for reasons that are not the actor's.
	DeliveryRetried
	// DeliveryUnserved says that nothing serves its type or has its method, and that it is
	// delivered again.
	DeliveryUnserved
	// DeliveryFailed says that the turn failed.
	DeliveryFailed
	// DeliveryDead says that the turn failed for the last time, and there is a dead letter.
	DeliveryDead
)

// String returns the outcome's name.
func (o DeliveryOutcome) String() string {
	return [...]string{"fired", "taken", "retried", "unserved", "failed", "dead_letter"}[o]
}

// WithDefaults returns c with its zero values filled in.
func (c Config) WithDefaults() Config {
	set := func(v *int, n int) {
		if *v == 0 {
			*v = n
		}
	}
	set(&c.MaxInMemory, 4_000_000)
	set(&c.MaxRunning, 4096)
	set(&c.MaxOfApp, 2048)
	set(&c.MaxOfType, 1024)
	set(&c.MaxOfActor, 4)
	c.Window = cmp.Or(c.Window, 2*time.Minute)
	c.ExecutionTimeout = cmp.Or(c.ExecutionTimeout, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c *Config) validate() error {
	bad := func(field, problem string) error {
		return &actor.ArgumentError{Field: "reminder service: " + field, Problem: problem}
	}
	switch {
	case c.Store == nil:
		return bad("Store", "is missing")
	case c.Deliverer == nil:
		return bad("Deliverer", "is missing")
	case c.Host == "" && c.Members == nil:
		return bad("Host", "is missing; give this incarnation of the process a random ID")
	case c.Window < 4*pollEvery:
		return bad("Window", fmt.Sprintf("is %v; give at least %v", c.Window, 4*pollEvery))
	case c.MaxInMemory < 2*pageSize:
		return bad("MaxInMemory", fmt.Sprintf("is %d; give at least %d", c.MaxInMemory, 2*pageSize))
	case c.MaxRunning < 1 || c.MaxOfApp < 1 || c.MaxOfType < 1 || c.MaxOfActor < 1:
		return bad("limits", "are below 1; give at least 1 each")
	case c.ExecutionTimeout < time.Millisecond:
		return bad("ExecutionTimeout", "is below 1 ms")
	}
	return nil
}

// Members says which processes there are, and whether this one leads.
type Members interface {
	// Self is this process among them. It is another one after the process was taken for
	// gone: then it owns no bucket any more, and creates from none that it had.
	Self() actor.HostID
	// Live returns the processes that create and deliver, in one order everywhere, and
	// whether this one is to allocate. It is asked every two seconds.
	Live(ctx context.Context) (live []actor.HostID, leading bool, err error)
	// Connected returns those of the processes that Live returned last which can be given
	// buckets: all, unless a leader knows which of them can take part.
	Connected(live []actor.HostID) []actor.HostID
	// Current reports whether no other process can take this one for gone by now. It is
	// asked before each delivery.
	Current() bool
	// Leave ends this process's part.
	Leave(ctx context.Context) error
}

// Peers reaches the other instances.
type Peers interface {
	// Release is [Service.Release] of another instance.
	Release(ctx context.Context, host actor.HostID, r ReleaseRequest) ([]actor.ReminderID, error)
	// Notice is [Service.Notice] of another instance. There are at most [MaxRelease] heads.
	Notice(ctx context.Context, host actor.HostID, heads []store.ReminderHead) error
}

// ReleaseRequest asks an instance for reminders that wait for subscribers.
type ReleaseRequest struct {
	// Subscriptions are those that the asking instance has subscribers of, at most
	// [MaxReleaseSubscriptions].
	Subscriptions []actor.Key
	// Limit is how many it takes, 1 to [MaxRelease].
	Limit int
	// Wait is how long it waits for the first, at most [MaxReleaseWait].
	Wait time.Duration
}

// Bounds of a [ReleaseRequest].
const (
	MaxReleaseSubscriptions = 256
	MaxRelease              = loadGroup
	MaxReleaseWait          = 10 * time.Second
)

// releaseWait is how long an instance that has no reminders to release waits for the first.
const releaseWait = 2 * time.Second

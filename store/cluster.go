package store

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Cluster is the part of a [Store] by which the processes that share it know each
// other: a row for each host, and leases by name. Every time is database time, and
// every condition is decided by the database, at one moment.
//
// A lease that is renewed lasts from that moment of the database for its length. Its
// holder counts it from before it asked, so that its count ends first.
type Cluster interface {
	// RegisterHost inserts the row of a host, leased for length, and returns it with
	// the times that the store gave it. Registering an ID that is there renews it, since
	// IDs are random: it is the same host, whose first answer was lost.
	// [actor.ErrClusterName] when the store belongs to a cluster of another name; the
	// first host that ever registers gives it its own.
	RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error)
	// RenewHost leases a host's row for length from now, also when its lease was over,
	// notes in it how many sticky actors the host owns, and returns the database's time; [actor.ErrHostGone] when the row is not there.
	RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error)
	// RemoveHost removes the row of a host that leaves, if it is there.
	RemoveHost(ctx context.Context, id actor.HostID) error
	// ClearHost removes the row of a host whose lease is over, and reports whether it
	// is gone. It does nothing unless the lease of that name is held at that epoch.
	ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error)
	// Hosts returns all rows in byte order of their IDs, and the database's time.
	Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error)

	// AcquireLease takes a lease that nobody holds, whose time is over, or that the
	// holder has already, for length, and reports whether it did. Each time it is
	// taken its epoch is one higher, which fences what an earlier holder does.
	AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (actor.Lease, bool, error)
	// RenewLease leases it for length from now, if holder holds it at that epoch, also
	// when its time was over; it reports whether it did.
	RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (bool, error)
	// ReleaseLease ends it at once, if holder holds it at that epoch.
	ReleaseLease(ctx context.Context, l actor.Lease) error
	// Lease returns a lease with its holder, or with its last one; false if nobody ever held it.
	Lease(ctx context.Context, name string) (actor.Lease, bool, error)
	// Leases returns those whose names begin with a prefix, in byte order, also those
	// that nobody holds any more, and the database's time.
	Leases(ctx context.Context, prefix string) (leases []actor.Lease, now time.Time, err error)
}

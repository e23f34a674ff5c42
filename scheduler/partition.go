package scheduler

import (
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Partitions of checkout types are leases of the store, for which hosts compete; the leader
// only allows them to. A host that holds partitions counts their leases together with the lease
// of its row: [Service.Current] is false as soon as one count is over, until the lease is renewed
// or its partition given up. So no other host runs a partition while this one does. Leases of
// partitions are long, since they are many. A host that is gone has no row any more, and then the
// others need not wait for the end of its leases.

const (
	// checkoutLeases is how many times the length of a row's lease a partition's is.
	checkoutLeases = 10
	// checkoutPrefix begins the names of the leases of partitions.
	checkoutPrefix = "checkout/"
)

// checkoutType is a checkout type in which this host competes.
type checkoutType struct {
	policy string
	owns   []ownedPartition // all partitions, in order
	routes []actor.HostID   // the holder of each when the leases were read last; empty: none
}

// ownedPartition is a partition; that of a lease without a name is not this host's.
type ownedPartition struct {
	lease   actor.Lease
	until   clock.Instant // the end of the host's count
	renewAt clock.Instant
	cleanAt clock.Instant // from when on no commit of an earlier holder can land
	leaving bool          // it is being checked in
}

// checkoutName is the name of the lease of a partition.
func checkoutName(name protocol.TypeName, p placement.Partition, n int) string {
	return fmt.Sprintf("%s%s/%s/%d/%d", checkoutPrefix, name.App, name.Type, n, p)
}

// noPartitions is when the leases of no partitions end.
const noPartitions = clock.Instant(1<<63 - 1)

// view is what the host knows of the type.
func (t *checkoutType) view(self actor.HostID, now clock.Instant) *assignment.View {
	partitions := make([]assignment.Partition, len(t.owns))
	for i := range t.owns {
		p, o := &partitions[i], &t.owns[i]
		p.Holder = t.routes[i]
		if o.lease.Name != "" && !o.leaving {
			p.Holder, p.Held = self, actor.Held
			if now >= o.cleanAt {
				p.Held = actor.HeldClean
			}
		}
	}
	return assignment.NewPartitionsView(t.policy, partitions)
}

package placement

import (
	"cmp"
	"slices"
	"time"
)

// Partition is one of the equal parts of the hash space that hosts of a checkout type
// lease.
type Partition int

// PartitionOf returns the partition of a point among n, n at least 1.
func PartitionOf(p Point, n int) Partition { return Partition(Static(p, n)) }

// PartitionLease names the host that has checked out a partition, as the store has it.
type PartitionLease struct {
	Partition Partition
	Holder    HostID    // empty: nobody, it was checked in
	Until     time.Time // database time
}

// free reports whether the partition may be checked out.
func (l PartitionLease) free(now time.Time) bool { return l.Holder == "" || !now.Before(l.Until) }

// Checkout decides what one host does next about the partitions of a type. It sees
// the same leases as the others and asks for no agreement: the store grants a
// partition to one of those that try.
type Checkout struct {
	Self  HostID
	Hosts []HostID // those that compete, Self among them unless Leaving
	// Leaving: Self checks everything in and takes nothing, for a controlled upgrade.
	Leaving bool
}

// CheckoutStep is what a host should do now.
type CheckoutStep struct {
	CheckOut []Partition // try to lease these
	CheckIn  []Partition // finish their turns, then give these back
	// Again is when a lease of another host runs out that Self would take; zero if
	// there is nothing to wait for.
	Again time.Time
}

// Next returns the step for the leases of all partitions at a database time. A host
// takes free partitions up to its share, those first that rendezvous hashing would
// give it, so that hosts that start together seldom try for the same one; and checks
// one in at a time of those above its share, so that the others' shares fill without
// all partitions moving at once.
func (c Checkout) Next(leases []PartitionLease, now time.Time) CheckoutStep {
	var step CheckoutStep
	var own, free []Partition
	var soonest time.Time
	for _, l := range leases {
		switch {
		case !l.free(now) && l.Holder == c.Self:
			own = append(own, l.Partition)
		case l.free(now):
			free = append(free, l.Partition)
		case soonest.IsZero() || l.Until.Before(soonest):
			soonest = l.Until
		}
	}
	if c.Leaving {
		step.CheckIn = own
		return step
	}
	share := 1
	if n := len(c.Hosts); n > 0 {
		share = (len(leases) + n - 1) / n
	}
	if len(own) > share {
		// The one that rendezvous hashing would rather see elsewhere goes first.
		slices.SortFunc(own, c.preference)
		step.CheckIn = own[len(own)-1:]
		return step
	}
	slices.SortFunc(free, c.preference)
	step.CheckOut = free[:min(len(free), share-len(own))]
	if len(own)+len(step.CheckOut) < share {
		step.Again = soonest
	}
	return step
}

// preference orders partitions: those that rendezvous hashing gives Self first, then
// by number.
func (c Checkout) preference(a, b Partition) int {
	rank := func(p Partition) int {
		if rendezvous(Point(mix(uint64(p)+1)), c.Hosts) == c.Self {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Partitions of checkout types are leases of the store, for which hosts compete; the
// leader only says that they may. A host that holds partitions counts their leases
// together with that of its row: [Service.Current] is false as soon as one count is over,
// until it is renewed or what it was for has been given up. So a partition is run by
// nobody else while it is run here. Leases of partitions are long, since they are many; a
// host that is gone has no row any more, and then the others need not wait for their end.

const (
	// checkoutLeases is how many times the length of a row's lease a partition's is.
	checkoutLeases = 10
	// checkoutPrefix begins the names of the leases of partitions.
	checkoutPrefix = "checkout/"
)

// checkouts are the partitions of this host. What is in types is guarded by Service.mu.
type checkouts struct {
	step  chan struct{} // has one while partitions are taken and renewed, which asks the store
	types map[protocol.TypeName]*checkoutType
}

// checkoutType is a checkout type in which this host competes.
type checkoutType struct {
	policy string
	owns   []ownedPartition // all partitions, in order
	routes []actor.HostID   // who had each when the leases were read last; empty: nobody
}

// ownedPartition is a partition; that of a lease without a name is not this host's.
type ownedPartition struct {
	lease   actor.Lease
	until   clock.Instant // the end of the host's count
	renewAt clock.Instant
	ripe    clock.Instant // from when on nothing of an earlier holder is under way
	leaving bool          // it is being checked in
}

// checkoutName is the name of the lease of a partition.
func checkoutName(name protocol.TypeName, p placement.Partition, n int) string {
	return fmt.Sprintf("%s%s/%s/%d/%d", checkoutPrefix, name.App, name.Type, n, p)
}

// checkoutLength is how long the lease of a partition is.
func (s *Service) checkoutLength() time.Duration { return checkoutLeases * s.cfg.Lease }

// noPartitions is when the leases of no partitions end.
const noPartitions = clock.Instant(1<<63 - 1)

// checkoutUntil returns when the first count of a partition's lease ends. The caller has
// the lock, as in all that is not said to be called without.
func (s *Service) checkoutUntil() clock.Instant {
	until := noPartitions
	for _, t := range s.checkouts.types {
		for i := range t.owns {
			if o := &t.owns[i]; o.lease.Name != "" {
				until = min(until, o.until)
			}
		}
	}
	return until
}

// partitions returns how many partitions this host holds.
func (s *Service) partitions() (n int) {
	for _, t := range s.checkouts.types {
		for i := range t.owns {
			if t.owns[i].lease.Name != "" {
				n++
			}
		}
	}
	return n
}

// view is what the host knows of the type.
func (t *checkoutType) view(self actor.HostID, now clock.Instant) *assignment.View {
	partitions := make([]assignment.Partition, len(t.owns))
	for i := range t.owns {
		p, o := &partitions[i], &t.owns[i]
		p.Holder = t.routes[i]
		if o.lease.Name != "" && !o.leaving {
			p.Holder, p.Held = self, actor.Held
			if now >= o.ripe {
				p.Held = actor.HeldClean
			}
		}
	}
	return assignment.NewPartitionsView(t.policy, partitions)
}

// checkoutLoop takes, renews and checks in partitions. A process that runs no actors only
// reads which hosts have them.
func (s *Service) checkoutLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.checkoutKick:
		}
		timer.Reset(s.checkoutStep(ctx))
	}
}

// kickCheckout has the loop look at once.
func (s *Service) kickCheckout() {
	select {
	case s.checkoutKick <- struct{}{}:
	default:
	}
}

// checkoutStep brings the partitions nearer to where they should be, and returns when to
// go on. It is called without the lock.
func (s *Service) checkoutStep(ctx context.Context) time.Duration {
	s.checkouts.step <- struct{}{}
	defer func() { <-s.checkouts.step }()
	every := clock.RenewEvery(s.cfg.Lease)
	s.mu.Lock()
	self := s.self.ID
	competing := s.holdings.Competing()
	for name, policy := range competing {
		if t := s.checkouts.types[name]; t == nil || t.policy != policy {
			n := placement.ParsePolicy(policy).Partitions
			s.checkouts.types[name] = &checkoutType{policy: policy, owns: make([]ownedPartition, n), routes: make([]actor.HostID, n)}
		}
	}
	owns := s.partitions()
	s.mu.Unlock()
	if owns > 0 {
		s.renewPartitions(ctx)
	}
	if len(competing) == 0 {
		return every
	}
	read, cancel := context.WithTimeout(ctx, s.cfg.Lease)
	defer cancel()
	leases, now, err := s.cfg.Store.Leases(read, checkoutPrefix)
	var hosts []actor.Host // read after the leases: a holder of a lease without a row has ended
	if err == nil {
		hosts, _, err = s.cfg.Store.Hosts(read)
	}
	if err != nil {
		s.cfg.Logger.Warn("the leases of partitions were not read", "host", self, "error", err)
		return every / 4
	}
	soon := false
	for _, name := range slices.SortedFunc(maps.Keys(competing), protocol.CompareTypes) {
		soon = s.checkoutOf(read, name, self, leases, hosts, now) || soon
	}
	if soon {
		return every / 4
	}
	return every
}

// checkoutOf takes and checks in partitions of a type, and reports whether there will be
// more to do soon.
func (s *Service) checkoutOf(ctx context.Context, name protocol.TypeName, self actor.HostID, leases []actor.Lease, hosts []actor.Host, now time.Time) (soon bool) {
	byName := make(map[string]actor.Lease, len(leases))
	for _, l := range leases {
		byName[l.Name] = l
	}
	there := make(map[actor.HostID]bool, len(hosts))
	next := placement.Checkout{Self: self, Leaving: !s.serves(name)}
	s.mu.Lock()
	t := s.checkouts.types[name]
	if s.self.ID != self || t == nil || s.holdings.Competing()[name] != t.policy {
		s.mu.Unlock()
		return false
	}
	for _, h := range hosts {
		there[h.ID] = true
		draining := s.drains[h.ID] || h.ID == self && s.draining != ""
		if slices.Contains(h.Roles, protocol.RoleHost) && (!draining || h.ID == self && s.alone()) {
			next.Hosts = append(next.Hosts, h.ID)
		}
	}
	next.Leaving = next.Leaving || !slices.Contains(next.Hosts, self)
	state := make([]placement.PartitionLease, len(t.owns))
	changed := false
	for i := range t.owns {
		p := placement.Partition(i)
		l := byName[checkoutName(name, p, len(t.owns))]
		o := &t.owns[i]
		state[i].Partition = p
		switch {
		case o.lease.Name != "":
			state[i].Holder, state[i].Until = self, now.Add(s.cfg.Lease)
		case there[l.Holder] && l.Holder != self:
			state[i].Holder, state[i].Until = l.Holder, l.ExpiresAt
		}
		route := actor.HostID("")
		if state[i].Holder != self && now.Before(state[i].Until) {
			route = state[i].Holder
		}
		changed = changed || t.routes[i] != route
		t.routes[i] = route
		soon = soon || o.lease.Name == "" && route == ""
	}
	step := next.Next(state, now)
	for _, p := range step.CheckIn {
		if o := &t.owns[p]; !o.leaving {
			o.leaving, changed, soon = true, true, true
			lease := o.lease
			s.loops.Go(func() { s.checkIn(s.drainContext, name, p, lease) })
		}
	}
	if changed {
		s.publish(false)
	}
	s.mu.Unlock()
	for _, p := range step.CheckOut {
		s.checkOut(ctx, name, p, self, byName[checkoutName(name, p, len(state))], there)
	}
	return soon
}

// serves reports whether this process can run a type now.
func (s *Service) serves(name protocol.TypeName) bool {
	return s.cfg.Types != nil && slices.ContainsFunc(s.cfg.Types(), func(t protocol.Type) bool { return t.App == name.App && t.Name == name.Type })
}

// checkOut tries to lease a partition. was is the lease that was read last. checkOut is
// called without the lock.
func (s *Service) checkOut(ctx context.Context, name protocol.TypeName, p placement.Partition, self actor.HostID, was actor.Lease, there map[actor.HostID]bool) {
	if was.Holder != "" && !there[was.Holder] {
		// Whoever had it has ended, and does not come back under this ID.
		if err := s.cfg.Store.ReleaseLease(ctx, was); err != nil {
			return
		}
	}
	s.mu.Lock()
	t := s.checkouts.types[name]
	s.mu.Unlock()
	if t == nil {
		return // this incarnation has ended meanwhile
	}
	sent := s.now()
	lease, taken, err := s.cfg.Store.AcquireLease(ctx, checkoutName(name, p, len(t.owns)), self, s.checkoutLength())
	if err != nil || !taken {
		return
	}
	s.mu.Lock()
	mine := s.self.ID == self && s.checkouts.types[name] == t && s.holdings.Competing()[name] == t.policy
	if mine {
		t.owns[p] = ownedPartition{
			lease: lease, until: sent + clock.Usable(s.checkoutLength()), renewAt: sent + clock.RenewEvery(s.checkoutLength()), ripe: s.now() + assignment.RipeAfter,
		}
		s.countPartitions(s.checkoutUntil())
		s.publish(false)
	}
	s.mu.Unlock()
	if !mine {
		s.releasePartition(ctx, lease)
	}
}

// renewPartitions renews the leases that are due. What this host finds lost was taken by
// another one after its count had ended: it is given up. It is called without the lock.
func (s *Service) renewPartitions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease)
	defer cancel()
	s.mu.Lock()
	var due []actor.Lease
	for _, t := range s.checkouts.types {
		for i := range t.owns {
			if o := &t.owns[i]; o.lease.Name != "" && o.renewAt <= s.now() {
				due = append(due, o.lease)
			}
		}
	}
	s.mu.Unlock()
	for _, l := range due {
		sent := s.now()
		held, err := s.cfg.Store.RenewLease(ctx, l, s.checkoutLength())
		if err != nil {
			s.cfg.Logger.Warn("the lease of a partition was not renewed", "lease", l.Name, "error", err)
			return
		}
		s.mu.Lock()
		paused := !s.Current(time.Now())
		for name, t := range s.checkouts.types {
			for i := range t.owns {
				o := &t.owns[i]
				switch {
				case o.lease != l:
				case held:
					o.until, o.renewAt = max(o.until, sent+clock.Usable(s.checkoutLength())), sent+clock.RenewEvery(s.checkoutLength())
				case !o.leaving:
					o.leaving = true
					s.loops.Go(func() { s.checkIn(s.drainContext, name, placement.Partition(i), l) })
				}
			}
		}
		s.countPartitions(s.checkoutUntil())
		if paused || !held {
			s.publish(false)
		}
		s.mu.Unlock()
	}
}

// checkIn finishes the turns of a partition that leaves, and gives it back. It is called
// without the lock.
func (s *Service) checkIn(ctx context.Context, name protocol.TypeName, p placement.Partition, lease actor.Lease) {
	s.mu.Lock()
	t := s.checkouts.types[name]
	s.mu.Unlock()
	if t == nil || !s.ended(ctx, func(key actor.Key) bool {
		return key.App == name.App && key.Type == name.Type && placement.PartitionOf(placement.PointOf(key), len(t.owns)) == p
	}) {
		return
	}
	s.mu.Lock()
	given := t.owns[p].lease == lease
	if given {
		t.owns[p] = ownedPartition{}
		s.countPartitions(s.checkoutUntil())
		s.publish(false)
	}
	s.mu.Unlock()
	if given {
		s.releasePartition(ctx, lease)
		s.kickCheckout()
	}
}

// checkInAll gives back all partitions of a type that is not competed for any more, of
// whose actors nothing is left. It is called without the lock.
func (s *Service) checkInAll(ctx context.Context, name protocol.TypeName) {
	s.mu.Lock()
	var leases []actor.Lease
	if t := s.checkouts.types[name]; t != nil {
		for i := range t.owns {
			if l := t.owns[i].lease; l.Name != "" {
				leases = append(leases, l)
			}
		}
		delete(s.checkouts.types, name)
		s.countPartitions(s.checkoutUntil())
		s.publish(false)
	}
	s.mu.Unlock()
	for _, l := range leases {
		s.releasePartition(ctx, l)
	}
}

// releasePartition gives a lease back; if it cannot, the others wait for its end.
func (s *Service) releasePartition(ctx context.Context, l actor.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease)
	defer cancel()
	if err := s.cfg.Store.ReleaseLease(ctx, l); err != nil {
		s.cfg.Logger.Warn("the lease of a partition was not given back", "lease", l.Name, "error", err)
	}
}

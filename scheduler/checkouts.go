package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// checkouts leases, renews and checks in the partitions of this host.
type checkouts struct {
	*member
	stepping chan struct{} // has a value during a step, which asks the store
	kicked   chan struct{} // has a value when there may be something to do
}

// length is how long the lease of a partition is.
func (c *checkouts) length() time.Duration { return checkoutLeases * c.cfg.Lease }

// run takes, renews and checks in partitions until ctx ends. A process that runs no actors only
// reads which hosts have them.
func (c *checkouts) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.kicked:
		}
		timer.Reset(c.step(ctx))
	}
}

// kick makes the loop take a step at once.
func (c *checkouts) kick() {
	select {
	case c.kicked <- struct{}{}:
	default:
	}
}

// step brings the partitions nearer to where they should be, and returns when to
// go on. It is called without the lock.
func (c *checkouts) step(ctx context.Context) time.Duration {
	c.stepping <- struct{}{}
	defer func() { <-c.stepping }()
	every := clock.RenewEvery(c.cfg.Lease)
	c.mu.Lock()
	self := c.self.ID
	competing := c.holdings.Competing()
	for name, policy := range competing {
		if t := c.competing[name]; t == nil || t.policy != policy {
			n := placement.ParsePolicy(policy).Partitions
			c.competing[name] = &checkoutType{policy: policy, owns: make([]ownedPartition, n), routes: make([]actor.HostID, n)}
		}
	}
	owns := c.heldPartitions()
	c.mu.Unlock()
	if owns > 0 {
		c.renew(ctx)
	}
	if len(competing) == 0 {
		return every
	}
	read, cancel := context.WithTimeout(ctx, c.cfg.Lease)
	defer cancel()
	leases, now, err := c.cfg.Store.Leases(read, checkoutPrefix)
	var hosts []actor.Host // read after the leases: a holder of a lease without a row has ended
	if err == nil {
		hosts, _, err = c.cfg.Store.Hosts(read)
	}
	if err != nil {
		c.cfg.Logger.Warn("the leases of partitions were not read", "host", self, "error", err)
		return every / 4
	}
	soon := false
	for _, name := range slices.SortedFunc(maps.Keys(competing), protocol.CompareTypes) {
		soon = c.advance(read, name, self, leases, hosts, now) || soon
	}
	if soon {
		return every / 4
	}
	return every
}

// advance takes and checks in partitions of a type, and reports whether there will be
// more to do soon.
func (c *checkouts) advance(ctx context.Context, name protocol.TypeName, self actor.HostID, leases []actor.Lease, hosts []actor.Host, now time.Time) (soon bool) {
	byName := make(map[string]actor.Lease, len(leases))
	for _, l := range leases {
		byName[l.Name] = l
	}
	there := make(map[actor.HostID]bool, len(hosts))
	next := placement.Checkout{Self: self, Leaving: !c.serves(name)}
	c.mu.Lock()
	t := c.competing[name]
	if c.self.ID != self || t == nil || c.holdings.Competing()[name] != t.policy {
		c.mu.Unlock()
		return false
	}
	for _, h := range hosts {
		there[h.ID] = true
		draining := c.drains[h.ID] || h.ID == self && c.draining != ""
		if slices.Contains(h.Roles, protocol.RoleHost) && (!draining || h.ID == self && c.noOtherHost()) {
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
			state[i].Holder, state[i].Until = self, now.Add(c.cfg.Lease)
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
			c.loops.Go(func() { c.checkIn(c.ctx, name, p, lease) })
		}
	}
	if changed {
		c.publish(false)
	}
	c.mu.Unlock()
	for _, p := range step.CheckOut {
		c.checkOut(ctx, name, p, self, byName[checkoutName(name, p, len(state))], there)
	}
	return soon
}

// checkOut tries to lease a partition. was is the lease that was read last. checkOut is
// called without the lock.
func (c *checkouts) checkOut(ctx context.Context, name protocol.TypeName, p placement.Partition, self actor.HostID, was actor.Lease, there map[actor.HostID]bool) {
	if was.Holder != "" && !there[was.Holder] {
		// Whoever had it has ended, and does not come back under this ID.
		if err := c.cfg.Store.ReleaseLease(ctx, was); err != nil {
			return
		}
	}
	c.mu.Lock()
	t := c.competing[name]
	c.mu.Unlock()
	if t == nil {
		return // this incarnation has ended meanwhile
	}
	sent := c.now()
	lease, taken, err := c.cfg.Store.AcquireLease(ctx, checkoutName(name, p, len(t.owns)), self, c.length())
	if err != nil || !taken {
		return
	}
	c.mu.Lock()
	mine := c.self.ID == self && c.competing[name] == t && c.holdings.Competing()[name] == t.policy
	if mine {
		t.owns[p] = ownedPartition{
			lease: lease, until: sent + clock.Usable(c.length()), renewAt: sent + clock.RenewEvery(c.length()), cleanAt: c.now() + assignment.CleanAfter,
		}
		c.countPartitions(c.partitionsUntil())
		c.publish(false)
	}
	c.mu.Unlock()
	if !mine {
		c.release(ctx, lease)
	}
}

// renew renews the leases that are due. What this host finds lost was taken by
// another one after its count had ended: it is given up. It is called without the lock.
func (c *checkouts) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Lease)
	defer cancel()
	c.mu.Lock()
	var due []actor.Lease
	for _, t := range c.competing {
		for i := range t.owns {
			if o := &t.owns[i]; o.lease.Name != "" && o.renewAt <= c.now() {
				due = append(due, o.lease)
			}
		}
	}
	c.mu.Unlock()
	for _, l := range due {
		sent := c.now()
		held, err := c.cfg.Store.RenewLease(ctx, l, c.length())
		if err != nil {
			c.cfg.Logger.Warn("the lease of a partition was not renewed", "lease", l.Name, "error", err)
			return
		}
		c.mu.Lock()
		paused := !c.Current(time.Now())
		for name, t := range c.competing {
			for i := range t.owns {
				o := &t.owns[i]
				switch {
				case o.lease != l:
				case held:
					o.until, o.renewAt = max(o.until, sent+clock.Usable(c.length())), sent+clock.RenewEvery(c.length())
				case !o.leaving:
					o.leaving = true
					c.loops.Go(func() { c.checkIn(c.ctx, name, placement.Partition(i), l) })
				}
			}
		}
		c.countPartitions(c.partitionsUntil())
		if paused || !held {
			c.publish(false)
		}
		c.mu.Unlock()
	}
}

// awaitStep waits until a step that is under way has ended. A step that began before may still take
// partitions, and then finds that it must not. It reports false if ctx ends first.
func (c *checkouts) awaitStep(ctx context.Context) bool {
	select {
	case c.stepping <- struct{}{}:
		<-c.stepping
		return true
	case <-ctx.Done():
		return false
	}
}

// checkIn finishes the turns of a partition that leaves, and gives it back. It is called
// without the lock.
func (c *checkouts) checkIn(ctx context.Context, name protocol.TypeName, p placement.Partition, lease actor.Lease) {
	c.mu.Lock()
	t := c.competing[name]
	c.mu.Unlock()
	if t == nil || !c.endActivations(ctx, func(key actor.Key) bool {
		return key.App == name.App && key.Type == name.Type && placement.PartitionOf(placement.PointOf(key), len(t.owns)) == p
	}) {
		return
	}
	c.mu.Lock()
	given := t.owns[p].lease == lease
	if given {
		t.owns[p] = ownedPartition{}
		c.countPartitions(c.partitionsUntil())
		c.publish(false)
	}
	c.mu.Unlock()
	if given {
		c.release(ctx, lease)
		c.kick()
	}
}

// checkInAll gives back all partitions of a type that is not competed for any more, of
// whose actors nothing is left. It is called without the lock.
func (c *checkouts) checkInAll(ctx context.Context, name protocol.TypeName) {
	c.mu.Lock()
	var leases []actor.Lease
	if t := c.competing[name]; t != nil {
		for i := range t.owns {
			if l := t.owns[i].lease; l.Name != "" {
				leases = append(leases, l)
			}
		}
		delete(c.competing, name)
		c.countPartitions(c.partitionsUntil())
		c.publish(false)
	}
	c.mu.Unlock()
	for _, l := range leases {
		c.release(ctx, l)
	}
}

// release gives a lease back; if it cannot, the others wait for its end.
func (c *checkouts) release(ctx context.Context, l actor.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Lease)
	defer cancel()
	if err := c.cfg.Store.ReleaseLease(ctx, l); err != nil {
		c.cfg.Logger.Warn("the lease of a partition was not given back", "lease", l.Name, "error", err)
	}
}

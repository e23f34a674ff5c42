package scheduler

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// member is the state of this host in the cluster, which the parts of a [Service] share. Its lock
// is the lock of all parts: an order of the leader changes what is held, what is owned and what
// callers see, together.
type member struct {
	*environment
	*leaseCount
	view  atomic.Pointer[view]
	owned *ownedActors

	mu sync.Mutex
	roster
	ownership *ownership.Member
	holdings  *assignment.Holdings
	// competing are the checkout types in which this host competes for partitions.
	competing map[protocol.TypeName]*checkoutType
	session   *session   // nil: none
	leader    Leadership // what is known of the leader
	draining  string     // why; empty: it is not
	// typesChanged has a value when the result of Config.Types may have changed.
	typesChanged chan struct{}

	ctx   context.Context //nolint:containedctx // the service's life: for what outlives a session
	loops sync.WaitGroup
}

// roster is who is a member of the cluster.
type roster struct {
	self    actor.Host // this incarnation
	members map[actor.HostID]actor.Host
	drains  map[actor.HostID]bool // who is draining
}

// Leadership is what a process knows about the leader.
type Leadership struct {
	Leader actor.HostID // empty: unknown
	Epoch  uint64
	// Here: this process leads.
	Here bool
	// Connected: this process has a session with it.
	Connected bool
}

// Self returns this incarnation's ID: another one after the host's row was cleared.
func (m *member) Self() actor.HostID { return m.view.Load().self }

// Owned returns how many sticky actors this host owns.
func (m *member) Owned() int { return int(m.owned.count.Load()) }

// TypesChanged notes that the result of Config.Types may have changed. The leader is notified at
// once, and has the other hosts read their types. Without this call the leader is notified within
// an eighth of a lease.
func (m *member) TypesChanged() {
	select {
	case m.typesChanged <- struct{}{}:
	default:
	}
}

// publish replaces the view, at a cost that grows only with what has changed. With becameClean,
// something that is held may have become clean. The caller has the lock.
func (m *member) publish(becameClean bool) {
	old := m.view.Load()
	if becameClean {
		m.holdings.RefreshClean(m.now())
	}
	views, types := m.holdings.Views(), old.types
	if slots, changed := m.holdings.Slots(); changed {
		types = map[protocol.TypeName]typeRef{}
		for name, slot := range slots {
			counts := old.types[name].counts
			if counts == nil {
				counts = &callCounts{}
			}
			types[name] = typeRef{slot, counts}
		}
	}
	var partitions map[protocol.TypeName]*assignment.View
	if competing := m.holdings.Competing(); len(competing) > 0 {
		partitions = make(map[protocol.TypeName]*assignment.View, len(competing))
		for name, policy := range competing {
			if t := m.competing[name]; t != nil && t.policy == policy {
				partitions[name] = t.view(m.self.ID, m.now())
			} else {
				partitions[name] = assignment.NewPartitionsView(policy, nil) // nothing has been read yet
			}
		}
	}
	m.view.Store(&view{
		self: m.self.ID, types: types, tables: views, partitions: partitions,
		members: m.members, drains: m.drains, draining: m.draining != "", informed: m.holdings.Informed(), changed: make(chan struct{}),
	})
	close(old.changed)
}

// setMembers replaces who is a member. The caller has the lock.
func (m *member) setMembers(list []*greenroomv1.ClusterMember) {
	members, drains := map[actor.HostID]actor.Host{m.self.ID: m.self}, map[actor.HostID]bool{}
	for _, member := range list {
		h := protocol.FromMember(member)
		if h.ID == m.self.ID {
			continue // which knows itself
		}
		members[h.ID] = h
		drains[h.ID] = member.GetDraining()
	}
	m.members, m.drains = members, drains
	m.publish(false)
}

// noOtherHost reports whether there is no other host to take over. The caller has the lock.
func (r *roster) noOtherHost() bool {
	for id, h := range r.members {
		if id != r.self.ID && slices.Contains(h.Roles, protocol.RoleHost) && !r.drains[id] {
			return false
		}
	}
	return true
}

// endSession makes a session end soon. The caller has the lock.
func (m *member) endSession(why error) {
	if m.session != nil {
		m.session.end(why)
	}
}

// endActivations ends the activations of the actors that move, by themselves or by their places
// in tables, and reports false if ctx ends first. It is called without the lock.
func (m *member) endActivations(ctx context.Context, moving func(actor.Key) bool) bool {
	if m.cfg.Actors == nil {
		return true
	}
	v := m.view.Load() // a type that is placed with another group from now on has no activations here before
	moves := func(key actor.Key) bool {
		place := v.locate(key).key
		return moving(key) || place != key && moving(place)
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := m.cfg.Actors.HandOver(ctx, moves)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			m.cfg.Logger.Warn("actors that move were not handed over", "error", err)
		}
		if !clock.Pause(ctx, wait) {
			return false
		}
	}
}

// partitionsUntil returns when the first count of a partition's lease ends. The caller has the
// lock.
func (m *member) partitionsUntil() clock.Instant {
	until := noPartitions
	for _, t := range m.competing {
		for i := range t.owns {
			if o := &t.owns[i]; o.lease.Name != "" {
				until = min(until, o.until)
			}
		}
	}
	return until
}

// heldPartitions returns how many partitions this host holds. The caller has the lock.
func (m *member) heldPartitions() (n int) {
	for _, t := range m.competing {
		for i := range t.owns {
			if t.owns[i].lease.Name != "" {
				n++
			}
		}
	}
	return n
}

// serves reports whether this process can run a type now.
func (m *member) serves(name protocol.TypeName) bool {
	return m.cfg.Types != nil && slices.ContainsFunc(m.cfg.Types(), func(t protocol.Type) bool { return t.App == name.App && t.Name == name.Type })
}

// Leadership returns what this process knows about the leader.
func (m *member) Leadership() Leadership {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader
}

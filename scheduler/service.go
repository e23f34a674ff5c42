package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/ownership"
	"github.com/greenroom-run/greenroom/scheduler/protocol"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Service is a process's part in a cluster: it keeps the host's row, leads or is ready to
// lead, and knows which host holds what. Its methods are safe for concurrent use.
type Service struct {
	*environment
	*elector
	*leaseCount

	view   atomic.Pointer[view]
	owned  *ownedActors
	owners *lru.Cache[actor.Key, actor.HostID] // of sticky actors of others

	mu       sync.Mutex
	self     actor.Host // this incarnation
	member   *ownership.Member
	holdings *assignment.Holdings
	// checkouts are the partitions of this host.
	checkouts checkouts
	members   map[actor.HostID]actor.Host
	drains    map[actor.HostID]bool // who is draining
	session   *session              // nil: none
	asked     map[actor.Key]*acquisition
	asking    map[uint64]actor.Key // by the acquisition's ID
	mayAsk    chan struct{}        // not nil: too many are asked for; closed when more may be
	// releasing: some of the sticky actors are being given up, for there are too many.
	releasing    bool
	leader       Leadership
	search       search          // for a session
	informed     bool            // this incarnation has had the tables of its types: see Ready
	draining     string          // why; empty: it is not
	drainOnce    sync.Once       // reports once that the service has drained
	drainContext context.Context //nolint:containedctx // the service's life, for a drain that an operator asked for
	queries      map[uint64]chan<- answerOrEnd
	counts       map[protocol.TypeName]*callCounts
	ids          uint64 // of acquisitions and queries

	kick     chan struct{} // the types may have changed
	unwanted chan struct{} // no leader gets to know this host: see giveUpRow
	// checkoutKick: there may be something to do about partitions.
	checkoutKick chan struct{}
	life         sync.Mutex // held by Start and Stop
	cancel       context.CancelFunc
	loops        sync.WaitGroup
}

// acquisition is a sticky actor that this host wants.
type acquisition struct {
	id    uint64
	since clock.Instant // when it was asked for first
	done  chan struct{} // closed when it was answered; another one once this host is lost
}

// maxAsked bounds the sticky actors that this host asks for at once, which grow while no
// leader answers: far above the calls that may wait for one.
const maxAsked = 1 << 16

// Leadership is what a process knows about the leader.
type Leadership struct {
	Leader actor.HostID // empty: nobody that is known
	Epoch  uint64
	// Here: this process does.
	Here bool
	// Connected: this process has a session with it.
	Connected bool
}

// New checks cfg. Nothing is held, and nobody asked, before [Service.Start].
func New(cfg Config) (*Service, error) {
	cfg = cfg.WithDefaults()
	if types := cfg.Types; types != nil {
		cfg.Types = func() []protocol.Type { return protocol.Grouped(types()) }
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	owners, err := lru.New[actor.Key, actor.HostID](cfg.OwnerCache)
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	s := &Service{
		environment: &environment{cfg, clock.New(cfg.Clocks, cfg.Lease)}, owned: newOwnedActors(), owners: owners,
		members: map[actor.HostID]actor.Host{}, drains: map[actor.HostID]bool{}, asked: map[actor.Key]*acquisition{}, asking: map[uint64]actor.Key{},
		queries: map[uint64]chan<- answerOrEnd{}, kick: make(chan struct{}, 1), unwanted: make(chan struct{}, 1),
		checkoutKick: make(chan struct{}, 1), checkouts: checkouts{step: make(chan struct{}, 1)}, counts: map[protocol.TypeName]*callCounts{},
	}
	s.leaseCount = newLeaseCount(s.environment)
	s.elector = newElector(s.environment, s.Self, s.renew)
	s.incarnate()
	s.view.Store(&view{self: s.self.ID, members: s.members, changed: make(chan struct{})})
	return s, nil
}

// Start registers the host and begins to take part, in the background.
// [actor.ErrClusterName] when the store belongs to another cluster.
func (s *Service) Start(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.cancel != nil {
		return errors.New("scheduler: started already")
	}
	if err := s.register(ctx); err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.drainContext = ctx
	s.mu.Unlock()
	loops := []func(context.Context){s.renewLoop, s.followRenewals, s.sessionLoop, s.checkoutLoop}
	if s.cfg.leads() {
		loops = append(loops, s.electLoop)
	}
	for _, loop := range loops {
		s.loops.Go(func() { loop(ctx) })
	}
	return nil
}

// Stop hands over what the host holds, as [Service.Drain] does, and leaves the cluster.
// When ctx ends first, what is left is cleared by the others once its lease has run out.
// It is safe twice and before Start.
func (s *Service) Stop(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.cancel == nil {
		return nil
	}
	err := s.Drain(ctx, "stop")
	s.cancel()
	s.loops.Wait()
	s.cancel = nil
	s.mu.Lock()
	s.member.End()
	s.countFor("")
	s.owned.clear()
	id := s.self.ID
	s.holdings.Leave() // calls that are under way are passed on to the host that has the actor now
	for _, t := range s.checkouts.types {
		clear(t.owns)
	}
	s.publish(true)
	s.mu.Unlock()
	if err == nil && !s.ended(ctx, func(actor.Key) bool { return true }) {
		err = ctx.Err()
	}
	if err != nil {
		// What may run here still is run by nobody else before the lease is over.
		return fmt.Errorf("leave the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease)
	defer cancel()
	if err := s.cfg.Store.RemoveHost(ctx, id); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return nil
}

// Self returns this incarnation's ID: another one after the host's row was cleared.
func (s *Service) Self() actor.HostID { return s.view.Load().self }

// Holds says whether this host holds an actor, by its type's table or, if it is sticky,
// as its owner. It does not ask whether the lease holds: [Service.Current] does. It
// never blocks and does not allocate. policy is the placement by which the caller
// would run the actor; the table's own goes before it, so that all hosts agree. An actor
// that nobody holds is [actor.Held] by every host that would run it so.
func (s *Service) Holds(key actor.Key, policy string) actor.Hold {
	v := s.view.Load()
	at := v.locate(key)
	hold := s.holds(v, at, key, policy)
	if hold == actor.HeldClean && at.unsettled {
		return actor.Held
	}
	return hold
}

// holds is Holds by the table of an actor's place.
func (s *Service) holds(v *view, at place, key actor.Key, policy string) actor.Hold {
	t := at.table
	switch {
	case t == nil && (placement.Exclusive(policy) || !v.told):
		return actor.NotHeld
	case t == nil:
		return actor.Held
	case !placement.Exclusive(t.Policy) && (t.HandingOver || placement.Exclusive(policy)): // its placement changes
		return actor.NotHeld
	case !placement.Exclusive(t.Policy):
		return actor.Held
	case t.Policy != abi.PlacementSticky:
		return t.Holds(v.self, at.key)
	case t.HandingOver:
		return actor.NotHeld
	default:
		return s.owned.hold(at.key, key)
	}
}

// Settled notes that a commit of this host has moved the version of a sticky actor on since
// the actor was acquired: nothing of an earlier owner can land any more.
func (s *Service) Settled(key actor.Key) { s.owned.settle(s.view.Load().placeKey(key), key) }

// Find says where a call of an actor goes. It never blocks.
func (s *Service) Find(key actor.Key, policy string) placement.Where {
	w := s.find(key, policy)
	if w.Wait != nil && s.lost() {
		return placement.Where{Lost: true}
	}
	return w
}

func (s *Service) find(key actor.Key, policy string) placement.Where {
	v := s.view.Load()
	at := v.locate(key)
	t, counts, key := at.table, at.counts, at.key
	switch {
	case t == nil && !placement.Exclusive(policy) && s.cfg.hosts() && (v.told || policy != abi.PlacementAny):
		return s.anywhere(v, policy, placement.Where{Here: true})
	case t == nil:
		s.TypesChanged()
		return placement.Where{Wait: v.changed}
	case !placement.Exclusive(t.Policy):
		return s.findAnywhere(v, t, counts, key, policy)
	case t.Policy == abi.PlacementSticky:
		return s.findSticky(v, t, counts, key)
	}
	p := placement.PointOf(key)
	owner := t.Owner(p)
	_, there := v.members[owner]
	switch {
	case (owner == "" || !there) && v.away(t, key) != "":
		return placement.Where{Away: v.away(t, key)}
	case owner == v.self && s.Current(time.Now()) && t.HoldsAt(v.self, p) != actor.NotHeld:
		return v.here(counts, key)
	case owner == "" || owner == v.self || !there:
		return placement.Where{Wait: v.changed}
	default:
		return placement.Where{Host: owner}
	}
}

// Readers returns the hosts that may answer read-only methods of an actor beside the one
// that holds it, and whether this host is one. What they answer is to be confirmed in the
// store. It never blocks and does not allocate; the hosts are read-only.
func (s *Service) Readers(key actor.Key) (hosts []actor.HostID, here bool) {
	v := s.view.Load()
	r := v.readers(key)
	if r == nil {
		return nil, false
	}
	return r.Readers, v.reads(r) && s.Current(time.Now())
}

// Reads reports whether this host may answer a read-only method of an actor that another
// one holds.
func (s *Service) Reads(key actor.Key) bool {
	v := s.view.Load()
	r := v.readers(key)
	return r != nil && v.reads(r) && s.Current(time.Now())
}

// CountRead counts a call that this host answers as a reader among those that it is asked.
func (s *Service) CountRead(key actor.Key) {
	v := s.view.Load()
	if at := v.locate(key); at.table != nil {
		v.here(at.counts, at.key)
	}
}

// findAnywhere is for actors that nobody holds: they are run where the call is, if that
// can run them.
func (s *Service) findAnywhere(v *view, t *assignment.View, counts *callCounts, key actor.Key, policy string) placement.Where {
	switch host := placement.Anywhere(v.self, placement.PointOf(key), t.Find(0).Hosts); {
	case host == "":
		return placement.Where{Wait: v.changed}
	case host != v.self:
		return placement.Where{Host: host}
	case placement.Exclusive(policy): // of another deployment than the leader knows, for now
		s.TypesChanged()
		return placement.Where{Wait: v.changed}
	default:
		return s.anywhere(v, policy, v.here(counts, key))
	}
}

// anywhere is for an actor that nobody holds, and that is run here: any types have turns as
// long as the host's lease lasts.
func (s *Service) anywhere(v *view, policy string, here placement.Where) placement.Where {
	if policy == abi.PlacementAny && !s.Current(time.Now()) {
		return placement.Where{Wait: v.changed}
	}
	return here
}

// findSticky gathers what [placement.Sticky] decides by: no more than that needs, since what
// is asked for counts as used.
func (s *Service) findSticky(v *view, t *assignment.View, counts *callCounts, key actor.Key) placement.Where {
	knows := placement.Sticky{Self: v.self, Handing: t.HandingOver}
	if !t.HandingOver {
		knows.Owns = s.owned.hold(key, key) != actor.NotHeld
	}
	switch {
	case t.HandingOver:
	case knows.Owns:
		knows.Current = s.Current(time.Now())
	default:
		if owner, known := s.owners.Get(key); known {
			if _, there := v.members[owner]; there && owner != v.self {
				knows.Owner = owner
			} else {
				s.owners.Remove(key)
			}
		}
		p := placement.PointOf(key)
		if ring := t.Owner(p); ring == v.self {
			knows.Ring, knows.Holds = ring, t.HoldsAt(v.self, p) != actor.NotHeld
		} else if _, there := v.members[ring]; there {
			knows.Ring = ring
		}
	}
	switch next := knows.Next(); {
	case next.Here:
		return v.here(counts, key)
	case next.Acquire:
		return s.acquire(key)
	case next.Host != "":
		return placement.Where{Host: next.Host}
	default:
		return placement.Where{Wait: v.changed}
	}
}

// acquire asks the leader for a sticky actor, unless that is under way, or too many are
// asked for.
func (s *Service) acquire(key actor.Key) placement.Where {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owned := s.owned.get(key); owned != nil && !owned.leaving.Load() && s.Current(time.Now()) {
		return placement.Where{Here: true} // it has just come
	} else if owned != nil || s.draining != "" && !s.alone() {
		return placement.Where{Wait: s.view.Load().changed}
	}
	a := s.asked[key]
	if a == nil {
		if s.mayAsk == nil && len(s.asked) >= maxAsked {
			s.mayAsk = make(chan struct{})
		}
		if s.mayAsk != nil {
			return placement.Where{Wait: s.mayAsk}
		}
		s.ids++
		a = &acquisition{id: s.ids, since: s.now(), done: make(chan struct{})}
		s.asked[key], s.asking[a.id] = a, key
		s.ask(key, a)
	}
	return placement.Where{Wait: a.done}
}

// Learned notes which host owns a sticky actor, as another host reported. An empty owner
// means that the other host does not own the actor and knows no owner.
func (s *Service) Learned(key actor.Key, owner actor.HostID) {
	v := s.view.Load()
	at := v.locate(key)
	if at.table == nil || at.table.Policy != abi.PlacementSticky {
		return
	}
	key = at.key
	if _, there := v.members[owner]; there && owner != v.self {
		s.owners.Add(key, owner)
		return
	}
	s.owners.Remove(key)
}

// Peer returns where a host is reached and the newest protocol that both speak; false
// if it is not a member, or they speak none in common.
func (s *Service) Peer(id actor.HostID) (address string, protocol int, ok bool) {
	h, found := s.view.Load().members[id]
	if !found {
		return "", 0, false
	}
	protocol = min(h.MaxProtocol, s.cfg.Self.MaxProtocol)
	return h.Address, protocol, protocol >= max(h.MinProtocol, s.cfg.Self.MinProtocol)
}

// TypesChanged notes that the result of Config.Types may have changed: the leader hears of it
// at once, and has the other hosts read their types. Without this call the leader hears of it
// within an eighth of a lease.
func (s *Service) TypesChanged() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Leadership returns what this process knows about the leader.
func (s *Service) Leadership() Leadership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader
}

// Owned returns how many sticky actors this host owns.
func (s *Service) Owned() int { return int(s.owned.count.Load()) }

// KnownOwners returns of how many sticky actors this host remembers the owner.
func (s *Service) KnownOwners() int { return s.owners.Len() }

// publish puts a new view in force, of what has changed; ripened: something that is held
// may have become clean. It costs what has changed, whatever else there is. The caller has
// the lock.
func (s *Service) publish(ripened bool) {
	old := s.view.Load()
	if ripened {
		s.holdings.Ripen(s.now())
	}
	views, types := s.holdings.Views(), old.types
	if slots, changed := s.holdings.Slots(); changed {
		types = map[protocol.TypeName]typeRef{}
		for name, slot := range slots {
			types[name] = typeRef{slot, s.countsOf(name)}
		}
		maps.DeleteFunc(s.counts, func(name protocol.TypeName, _ *callCounts) bool { return types[name].counts == nil })
	}
	var partitions map[protocol.TypeName]*assignment.View
	if competing := s.holdings.Competing(); len(competing) > 0 {
		partitions = make(map[protocol.TypeName]*assignment.View, len(competing))
		for name, policy := range competing {
			if t := s.checkouts.types[name]; t != nil && t.policy == policy {
				partitions[name] = t.view(s.self.ID, s.now())
			} else {
				partitions[name] = assignment.NewPartitionsView(policy, nil) // nothing has been read yet
			}
		}
	}
	s.view.Store(&view{
		self: s.self.ID, types: types, tables: views, partitions: partitions,
		members: s.members, drains: s.drains, draining: s.draining != "", told: s.holdings.Told(), changed: make(chan struct{}),
	})
	close(old.changed)
}

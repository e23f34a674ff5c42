package scheduler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Service is a process's part in a cluster: it keeps the host's row, leads or is ready
// to, and knows who holds what. Its methods are safe for concurrent use.
type Service struct {
	cfg   Config
	start time.Time // of the process's monotonic clock

	view atomic.Pointer[view]
	// until is the end of the host's count of its lease, an [Instant].
	until atomic.Int64
}

// New checks cfg. Nothing is held, and nobody asked, before [Service.Start].
func New(cfg Config) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, start: time.Now()}
	s.view.Store(&view{types: map[typeName]*typeView{}, members: map[actor.HostID]actor.Host{}, changed: make(chan struct{})})
	return s, nil
}

// Start registers the host and begins to take part, in the background.
// [actor.ErrClusterName] when the store belongs to another cluster.
func (s *Service) Start(context.Context) error { return nil }

// Stop hands over what the host holds, releases it and leaves the cluster. When ctx
// ends first, what is left is cleared by the others once its lease has run out. It is
// safe twice and before Start.
func (s *Service) Stop(context.Context) error { return nil }

// Self returns this incarnation's ID: another one after the host's row was cleared.
func (s *Service) Self() actor.HostID { return s.view.Load().self }

// Current reports whether the host's lease is known to hold at now, a time with a
// monotonic reading: whether the host may run what it holds, and answer without a
// commit.
func (s *Service) Current(now time.Time) bool {
	return int64(now.Sub(s.start)) < s.until.Load()
}

// Holds says whether this host holds an actor, by its type's table or, if it is sticky,
// as its owner. It does not ask whether the lease holds: [Service.Current] does. It
// never blocks and does not allocate. policy is the placement by which the caller
// would run the actor; the table's own goes before it, so that all hosts agree.
func (s *Service) Holds(key actor.Key, policy string) actor.Hold {
	if !held(policy) {
		return actor.HeldClean
	}
	v := s.view.Load()
	t := v.types[typeName{key.App, key.Type}]
	if t == nil {
		return actor.NotHeld
	}
	return t.holds(v.self, key)
}

// Find says where a call of an actor goes. It never blocks.
func (s *Service) Find(key actor.Key, policy string) placement.Where {
	if !held(policy) {
		return placement.Where{Here: true}
	}
	v := s.view.Load()
	t := v.types[typeName{key.App, key.Type}]
	if t == nil {
		return placement.Where{Wait: v.changed}
	}
	switch owner := t.owner(key); {
	case owner == "":
		return placement.Where{Wait: v.changed}
	case owner != v.self:
		return placement.Where{Host: owner}
	case t.holds(v.self, key) == actor.NotHeld || !s.Current(time.Now()):
		return placement.Where{Wait: v.changed}
	default:
		return placement.Where{Here: true}
	}
}

// Learned notes that another host said who owns an actor.
func (s *Service) Learned(actor.Key, actor.HostID) {}

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

// held reports whether the actors of a policy have one place each.
func held(policy string) bool {
	return policy != abi.PlacementAny && policy != abi.PlacementStateless
}

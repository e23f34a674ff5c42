package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/leader"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Service is a process's part in a cluster: it keeps the host's row, leads or is ready to lead,
// and knows which host holds what. It starts and stops its parts, whose exported methods are its
// own. Its methods are safe for concurrent use.
type Service struct {
	*member
	*directory
	*inspector
	*drainer
	registration *registration
	sticky       *sticky
	checkouts    *checkouts
	follower     *follower
	elector      *leader.Elector

	tablesOf actor.HostID // the incarnation that has had the tables of its types, guarded by mu; see Ready
	life     sync.Mutex   // held by Start and Stop
	cancel   context.CancelFunc
}

// New checks cfg. Nothing is held, and nobody asked, before [Service.Start].
func New(cfg Config) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if types := cfg.Types; types != nil {
		cfg.Types = func() []protocol.Type { return protocol.Grouped(types()) }
	}
	e := &environment{cfg, clock.New(cfg.Clocks, cfg.Lease)}
	m := &member{
		environment: e, leaseCount: &leaseCount{environment: e, renewals: make(chan struct{}, 1)}, owned: newOwnedActors(), typesChanged: make(chan struct{}, 1),
		roster: roster{members: map[actor.HostID]actor.Host{}, drains: map[actor.HostID]bool{}},
	}
	sticky, err := newSticky(m)
	if err != nil {
		return nil, err
	}
	s := &Service{member: m, directory: &directory{m, sticky}, inspector: &inspector{m}, sticky: sticky, checkouts: &checkouts{m, make(chan struct{}, 1), make(chan struct{}, 1)}}
	s.drainer = &drainer{member: m, sticky: sticky, checkouts: s.checkouts}
	s.registration = &registration{member: m, sticky: sticky, unwanted: make(chan struct{}, 1)}
	s.elector = leader.New(leader.Config{
		Store: cfg.Store, Self: cfg.Self, Host: m.Self, RenewRow: s.registration.renew, Lease: cfg.Lease, Clock: m.clock, Ranges: cfg.Ranges, HeatEvery: cfg.HeatEvery,
		Cooling: cfg.Cooling, Logger: cfg.Logger, Led: cfg.Events.Led, StickyCleared: cfg.Events.StickyCleared, HeatMoved: cfg.Events.HeatMoved,
	})
	s.registration.elector = s.elector
	s.follower = &follower{m, s.registration, sticky, s.checkouts, s.drainer, s.elector}
	s.registration.incarnate()
	m.view.Store(&view{self: m.self.ID, members: m.members, changed: make(chan struct{})})
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
	if err := s.registration.register(ctx); err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	loops := []func(context.Context){s.registration.run, s.registration.followRenewals, s.follower.run, s.checkouts.run}
	if s.cfg.leads() {
		loops = append(loops, s.elector.Run)
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
	s.ownership.End()
	s.countFor("")
	s.owned.clear()
	id := s.self.ID
	s.holdings.Leave() // calls that are under way are passed on to the host that has the actor now
	for _, t := range s.competing {
		clear(t.owns)
	}
	s.publish(true)
	s.mu.Unlock()
	if err == nil && !s.endActivations(ctx, func(actor.Key) bool { return true }) {
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

// Ready returns why calls that reach this process would wait, as an error that is safe to show to
// anybody: it has no lease; no leader has sent it the tables of its types since it joined; or it has
// not reached the leader for some leases, though the store says who leads. That no process leads for
// a while changes nothing. Otherwise Ready returns nil.
func (s *Service) Ready() error {
	var types []protocol.Type
	if s.cfg.Types != nil {
		types = s.cfg.Types()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	connected := s.session != nil && s.session.met
	view := s.view.Load()
	if connected && s.tablesOf != s.self.ID && !slices.ContainsFunc(types, func(t protocol.Type) bool {
		ring := placement.IsRing(t.Placement) || t.Placement == abi.PlacementSticky || placement.IsTogether(t.Placement)
		table, _ := view.of(t.App, t.Name)
		return ring && table == nil
	}) {
		s.tablesOf = s.self.ID
	}
	switch {
	case !s.Current(time.Now()):
		return errNoLease
	case s.tablesOf != s.self.ID:
		return errNoTables
	case !connected && s.registration.search.since > 0 && now-s.registration.search.last <= s.cfg.Lease && now-s.registration.search.since >= leader.Patience*s.cfg.Lease:
		return errCutOff
	}
	return nil
}

// Reasons why a process is not ready.
var (
	errNoLease  = errors.New("this server does not have its lease in the cluster: it could not renew it in time, or has not joined yet")
	errNoTables = errors.New("this server has not heard yet where actors are: it waits for the leader of the cluster")
	errCutOff   = errors.New("this server does not reach the leader of the cluster: see that they reach each other, and have the same cluster key")
)

// Handler serves SchedulerService: the sessions of other hosts, while this process leads.
func (s *Service) Handler() http.Handler {
	_, h := greenroomv1connect.NewSchedulerServiceHandler(handler{s.elector})
	return h
}

// Serve serves a session of a host, as [leader.Elector.Serve] does.
func (s *Service) Serve(ctx context.Context, stream protocol.ServerStream) error {
	return s.elector.Serve(ctx, stream)
}

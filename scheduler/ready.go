package scheduler

import (
	"errors"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Reasons why a process is not ready.
var (
	errNoLease  = errors.New("this server does not have its lease in the cluster: it could not renew it in time, or has not joined yet")
	errNoTables = errors.New("this server has not heard yet where actors are: it waits for the leader of the cluster")
	errCutOff   = errors.New("this server does not reach the leader of the cluster: see that they reach each other, and have the same cluster key")
)

// Ready says, safe to show to anybody, why calls that reach this process would wait: it
// has no lease; it has not heard where the actors of its types are since it joined; or it
// has not reached the leader for some leases, though the store says who that is. That
// nobody leads for a while changes nothing. Otherwise it returns nil.
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
	if connected && !s.informed {
		s.informed = !slices.ContainsFunc(types, func(t protocol.Type) bool {
			ring := placement.IsRing(t.Placement) || t.Placement == abi.PlacementSticky || placement.IsTogether(t.Placement)
			table, _ := view.of(t.App, t.Name)
			return ring && table == nil
		})
	}
	switch {
	case !s.Current(time.Now()):
		return errNoLease
	case !s.informed:
		return errNoTables
	case !connected && s.search.since > 0 && now-s.search.last <= s.cfg.Lease && now-s.search.since >= patience*s.cfg.Lease:
		return errCutOff
	}
	return nil
}

package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// sticky acquires and releases the sticky actors of this host, and remembers the owners of others.
type sticky struct {
	*member
	owners *lru.Cache[actor.Key, actor.HostID] // of sticky actors of others
	// asked are the actors that this host has asked for, asking their keys by the acquisition's ID.
	asked  map[actor.Key]*acquisition
	asking map[uint64]actor.Key
	lastID uint64
	mayAsk chan struct{} // not nil: too many are asked for; closed when more may be
	// releasing: some of the sticky actors are being given up, for there are too many.
	releasing bool
}

func newSticky(m *member) (*sticky, error) {
	owners, err := lru.New[actor.Key, actor.HostID](m.cfg.OwnerCache)
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return &sticky{member: m, owners: owners, asked: map[actor.Key]*acquisition{}, asking: map[uint64]actor.Key{}}, nil
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

// acquire asks the leader for a sticky actor, unless that is under way, or too many are
// asked for.
func (s *sticky) acquire(key actor.Key) placement.Where {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owned := s.owned.get(key); owned != nil && !owned.leaving.Load() && s.Current(time.Now()) {
		return placement.Where{Here: true} // it has just come
	} else if owned != nil || s.draining != "" && !s.noOtherHost() {
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
		s.lastID++
		a = &acquisition{id: s.lastID, since: s.now(), done: make(chan struct{})}
		s.asked[key], s.asking[a.id] = a, key
		s.ask(key, a)
	}
	return placement.Where{Wait: a.done}
}

// ask asks the leader for a sticky actor, if there is a session. The caller has the lock.
func (s *sticky) ask(key actor.Key, a *acquisition) {
	if _, ok := s.ownership.Ask(key); !ok {
		return
	}
	s.session.put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Acquisition{Acquisition: &greenroomv1.StickyAcquisition{
		CorrelationId: a.id, App: key.App, Type: key.Type, Id: key.ID,
	}}})
}

// answered takes the answer to an acquisition.
func (s *sticky) answered(ss *session, m *greenroomv1.StickyAcquisitionResponse) {
	key, found := s.asking[m.GetCorrelationId()]
	if !found {
		return
	}
	a := s.asked[key]
	delete(s.asking, a.id)
	delete(s.asked, key)
	defer close(a.done)
	if s.mayAsk != nil && len(s.asked) <= maxAsked*3/4 { // not one by one: all that wait try again
		close(s.mayAsk)
		s.mayAsk = nil
	}
	if m.GetGranted() {
		if s.ownership.Granted(ss.Session, key, s.now()) {
			s.owned.add(key)
			if s.owned.count.Load() > int64(s.cfg.MaxOwned) {
				s.releaseSome()
			}
		}
	} else {
		s.ownership.Refused(ss.Session, key)
		if owner := actor.HostID(m.GetOwner()); owner != "" && owner != s.self.ID {
			s.owners.Add(key, owner)
		}
	}
	if s.cfg.Events.StickyAcquired != nil {
		s.cfg.Events.StickyAcquired(m.GetGranted(), s.now()-a.since)
	}
}

// wake wakes the calls that wait for a sticky actor, or until more may be asked for. What was
// asked for stays so. The caller has the lock.
func (s *sticky) wake() {
	for _, a := range s.asked {
		close(a.done)
		a.done = make(chan struct{})
	}
	if s.mayAsk != nil {
		close(s.mayAsk)
		s.mayAsk = make(chan struct{})
	}
}

// release gives up sticky actors that have no activation left on this host.
func (s *sticky) release(keys []actor.Key) {
	released := keys[:0]
	for _, key := range keys {
		if _, ok := s.ownership.Release(key); ok {
			released = append(released, key)
		}
		s.owned.remove(key)
	}
	for _, actors := range protocol.ToSticky(released) {
		s.session.put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Release{Release: &greenroomv1.StickyRelease{Actors: actors}}})
	}
	if s.cfg.Events.StickyReleased != nil && len(keys) > 0 {
		s.cfg.Events.StickyReleased(len(keys))
	}
}

// releaseSome gives up the sticky actors that were not used for the longest time: what
// is too much, and one in 64 of those that this host may own. Those that a chain has stay, and do not count:
// a chain whose actors were given up for each other, or for the one that it has just been granted, would
// begin anew without end.
func (s *sticky) releaseSome() {
	ss := s.session
	if ss == nil || s.releasing {
		return
	}
	inChains := s.inChains()
	excess := int(s.owned.count.Load()) - s.cfg.MaxOwned - len(inChains)
	if excess <= 0 {
		return
	}
	leaving := s.owned.leastUsed(excess+s.cfg.MaxOwned/64, inChains)
	if len(leaving) == 0 {
		return // all of them leave already, for another reason
	}
	s.releasing = true
	s.giveUp(ss, leaving, func() {
		s.releasing = false
		if s.session == ss && s.owned.count.Load() > int64(s.cfg.MaxOwned) {
			s.releaseSome() // more have come meanwhile
		}
	})
}

// inChains returns the sticky actors of this host that chains have.
func (s *sticky) inChains() map[actor.Key]struct{} {
	if s.cfg.Actors == nil {
		return nil
	}
	v, places := s.view.Load(), map[actor.Key]struct{}{}
	for _, key := range s.cfg.Actors.InChains() {
		if place := v.locate(key).key; s.owned.get(place) != nil {
			places[place] = struct{}{}
		}
	}
	return places
}

// giveUp hands sticky actors over that were marked as leaving, and releases them; if it
// cannot, they stay.
func (s *sticky) giveUp(ss *session, leaving map[actor.Key]*ownedActor, then func()) {
	ss.work.Go(func() {
		ended := s.endActivations(ss.ctx, func(key actor.Key) bool { return leaving[key] != nil })
		s.mu.Lock()
		defer s.mu.Unlock()
		defer then()
		if !ended || s.session != ss {
			for _, a := range leaving {
				a.leaving.Store(false)
			}
			s.publish(false)
			return
		}
		s.release(slices.Collect(maps.Keys(leaving)))
		s.publish(false)
	})
}

// refused gives up actors that this host claimed and another owns, which is a bug
// somewhere, or a leader's that trusted a clock too far.
func (s *sticky) refused(ss *session, keys []actor.Key) {
	s.cfg.Logger.Error("another host owns sticky actors that this one claims: it gives them up", "host", s.self.ID, "actors", len(keys))
	leaving := map[actor.Key]*ownedActor{}
	for _, key := range keys {
		if a := s.owned.get(key); a != nil {
			a.leaving.Store(true)
			leaving[key] = a
		}
	}
	s.giveUp(ss, leaving, func() {})
}

package reminder

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// lot is what too many deliveries wait of: an actor, or with an empty ID a type.
type lot struct{ app, typ, id string }

func typeLot(key actor.Key) lot  { return lot{key.App, key.Type, ""} }
func actorLot(key actor.Key) lot { return lot{key.App, key.Type, key.ID} }

// parked are reminders that are due and were read, and of whose type or actor as many
// deliveries waited as may. They are read again once at most half as many wait: a backlog is
// read twice, however long it takes, but one that waits for its actor and then for its type is
// read each time. What comes due meanwhile goes first if there is room. Of each only the ID is
// kept.
type parked struct {
	lots  map[lot][]actor.ReminderID // in the order of their times
	count int
}

func newParked() parked { return parked{lots: map[lot][]actor.ReminderID{}} }

func (p *parked) add(of lot, id actor.ReminderID) {
	p.lots[of] = append(p.lots[of], id)
	p.count++
}

// take returns the first of a lot, at most n, and whether there are others.
func (p *parked) take(of lot, n int) (due []Due, more bool) {
	ids := p.lots[of]
	n = min(n, len(ids))
	for _, id := range ids[:n] {
		due = append(due, Due{ID: id})
	}
	p.count -= n
	if n == len(ids) {
		delete(p.lots, of)
		return due, false
	}
	p.lots[of] = ids[n:]
	return due, true
}

// setAside has a reminder wait until there is room for its delivery.
func (s *Service) setAside(id actor.ReminderID, of lot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tries := s.tries[id]
	s.forget(id)
	if s.owned[id.Bucket()] == nil {
		return
	}
	s.parked.add(of, id)
	s.retried[id] = struct{}{}
	if tries > 0 {
		s.tries[id] = tries
	}
}

// unpark has the parked reminders of one lot delivered that there is room for, a group at
// most, and reports whether there was such a lot. It is for the goroutine that parks them.
func (s *Service) unpark(ctx context.Context) bool {
	of, room, some := s.queue.nextRoom()
	if !some {
		return false
	}
	s.mu.Lock()
	due, more := s.parked.take(of, min(room, loadGroup))
	s.mu.Unlock()
	s.load(ctx, due)
	if more { // once these wait, too
		s.queue.watch(of)
	}
	return true
}

package host

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/mailbox"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/timer"
)

// shard holds some of the actors, the calls that run on them, and the order in
// which they were used.
type shard struct {
	table   *table
	mu      sync.Mutex
	closed  bool // no call is admitted any more
	killed  bool // running calls are stopped as they come
	actors  map[actor.Key]*activation
	order   list.List[*activation] // of their use, the newest last
	running list.List[*call]
	timers  timer.Schedule
	history residency.History
	// migrations are those that readers wait for; nil: there were none yet.
	migrations map[actor.Key]*migration
	copies     *simplelru.LRU[actor.Key, *stateCopy] // nil: there were none yet
	// losses counts how often the host lost all that it held: what was in memory before
	// proves nothing after. It grows with the lock held.
	losses atomic.Uint64
	// work counts workers and calls in the lanes without one. It grows only
	// while the shard is open.
	work sync.WaitGroup
}

// enter admits a call under by that runs on its caller's goroutine. warm is what its
// actor's activation holds for readers, nil if there is nothing or it is not current, or
// if the call is to be answered from a copy, which call.copied reports.
// errUnfenced means that earlier owners of the actor have to be fenced out first.
func (s *shard) enter(c *call, by *served) (warm *residency.Row, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, actor.ErrStopping
	}
	a := s.actors[c.inv.Key]
	hold := actor.NotHeld
	if by.lane != LaneLocked || a != nil && a.leaving { // otherwise it reads what the store has
		hold, err = s.table.ownership.admits(s, c.inv.Key, a, by, c.arrived)
	}
	c.copied = err != nil && s.table.ownership.mayRead(c, by)
	switch {
	case c.copied:
	case err != nil:
		return nil, err
	case hold == actor.Held && by.sticky:
		return nil, errUnfenced
	case a != nil:
		a.hold = hold
	}
	c.losses = s.losses.Load()
	s.work.Add(1)
	s.running.Push(&c.place, c)
	if c.copied {
		return nil, nil //nolint:nilnil // the call is in
	}
	return s.look(c.inv.Key, by, c.arrived), nil
}

// look returns the committed state that an actor's activation has for readers, nil
// if it has none that is current, and counts as a use of it. The caller has the lock.
//
// Where other hosts answer from copies, what is in memory may be older than what they
// have answered as long as a commit is under way, which they see in the store before its
// outcome is known here: then a state is current that was the newest after the call came.
func (s *shard) look(key actor.Key, by *served, now time.Time) *residency.Row {
	a := s.actors[key]
	if a == nil || a.Loaded == nil {
		return nil
	}
	s.used(a)
	a.lastUsed = now
	newest, current := s.table.ownership.newest(a), a.Current.After(now.Add(-actor.MaxReadAge))
	if by.readElsewhere(now) {
		newest, current = newest && !a.busy, !a.Current.Before(now)
	}
	if !newest && !current {
		return nil
	}
	return a.Committed()
}

// leave ends what enter began.
func (s *shard) leave(c *call) {
	s.mu.Lock()
	s.running.Remove(&c.place)
	if c.left != nil {
		close(c.left)
	}
	s.mu.Unlock()
	s.work.Done()
}

// withdraw takes a call out of its mailbox, or from those that go again, and
// reports whether it was there: then it leaves no trace.
func (s *shard) withdraw(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.at != nil && c.at.calls.GiveUp(&c.place, c.cost())
}

// answer adds a call that is in no list to those that are to be answered. The caller has the
// lock, and counts the call.
func (s *shard) answer(to *mailbox.Answers[*call], c *call) {
	c.settleTimers(s, c.result.err == nil)
	to.Add(&c.place, c, c.cost())
}

// used makes an activation the newest. The caller has the shard's lock.
func (s *shard) used(a *activation) {
	s.order.Remove(&a.used)
	s.order.Push(&a.used, a)
}

// noteNewer records a newer version for the activation a, which may be nil. The caller
// has the lock.
func (s *shard) noteNewer(a *activation, version uint64) {
	if a == nil {
		s.history.NoteNewer(nil, version)
		return
	}
	s.history.NoteNewer(&a.Known, version)
}

// noteOther takes over that the store has another version than the readers of an activation
// see. The caller has the lock.
func (s *shard) noteOther(a *activation, version uint64) { s.history.NoteOther(&a.Known, version) }

// show lets the readers of an activation with a state see l, unless it is older than what
// they see. The caller has the lock.
func (s *shard) show(a *activation, l *residency.Row, asked time.Time, forgets uint64) {
	s.history.Show(&a.Known, l, asked, forgets)
	a.weigh()
}

func (t *table) evictFrom(s *shard) *activation {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.order.All() {
		if a.idle() {
			t.remove(s, a)
			s.timers.Leave(a.key)
			return a
		}
	}
	return nil
}

// beginLookUp counts a call that is looked up before it is admitted; one of
// shard.work is its own.
func (s *shard) beginLookUp(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return actor.ErrStopping
	}
	s.work.Add(1)
	c.looking = true
	return nil
}

// endLookUp reports whether a call is still being looked up, and ends that.
func (s *shard) endLookUp(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := c.looking
	c.looking = false
	return was
}

// endTimers ends the timers of the actors for which end returns true.
func (s *shard) endTimers(end func(key actor.Key, placed bool) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers.DeleteFunc(end)
}

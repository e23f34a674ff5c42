package host

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
)

// shardCount is a power of two well above the processors of any machine that
// this runs on, so that two turns rarely want the same lock.
const shardCount = 128

// table finds the activation of an actor. It is split into shards, each with its
// own lock, by a hash of the key.
type table struct {
	seed   maphash.Seed
	max    int64        // activations
	count  atomic.Int64 // activations
	copied atomic.Int64 // copies of states of actors that are held elsewhere
	states atomic.Int64 // bytes of the activations and copies
	most   int64        // of states
	// revisions names states for what guests cache of them.
	revisions overlay.Revisions
	ownership *ownership
	events    *Events
	hand      atomic.Uint32
	shards    [shardCount]shard
}

func (t *table) init(cfg *Config, o *ownership, events *Events, clock *timer.Clock) {
	t.seed = maphash.MakeSeed()
	t.max, t.most = int64(cfg.MaxActivations), cfg.StateMemory
	t.ownership, t.events = o, events
	t.hand.Store(rand.Uint32())
	for i := range t.shards {
		t.shards[i].actors = make(map[actor.Key]*activation)
		t.shards[i].states, t.shards[i].number = &t.states, i
		t.shards[i].history.Shared = o.shared
		t.shards[i].timers.Init(clock)
	}
}

func (t *table) shard(key actor.Key) *shard {
	return &t.shards[maphash.String(t.seed, key.ID)%shardCount]
}

// activate makes an activation for an actor that has none, and returns nil if there
// are as many as may be. The caller has the shard's lock.
func (t *table) activate(s *shard, key actor.Key) *activation {
	if t.count.Add(1) > t.max {
		t.count.Add(-1)
		return nil
	}
	a := &activation{key: key, shard: s, Home: call.Home{Timers: &s.timers, Work: &s.work}}
	a.member.Of = a
	s.actors[key] = a
	s.order.Push(&a.used, a)
	a.weigh()
	return a
}

// remove takes an activation without work out of the table. The caller has the
// shard's lock.
func (t *table) remove(s *shard, a *activation) {
	s.history.Leave(a.key, &a.Known, time.Now())
	delete(s.actors, a.key)
	s.order.Remove(&a.used)
	t.count.Add(-1)
	t.states.Add(-a.weighed)
	a.weighed = 0
}

// evict takes an idle activation out, the least recently used one of the first
// shard that has any, going around the shards. It returns nil when every
// activation has work.
func (t *table) evict() *activation {
	for range shardCount {
		s := &t.shards[t.hand.Add(1)%shardCount]
		if a := t.evictFrom(s); a != nil {
			return a
		}
	}
	return nil
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

// expired takes out the activations of a shard that were unused for their idle
// timeout. skipped are the actors that were found unused now and that stay.
func (t *table) expired(s *shard, now time.Time) (out []*activation, skipped []actor.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.order.All() {
		switch {
		case !a.idle() || now.Sub(a.lastUsed) < a.idleTimeout:
		case !a.sticky:
			t.remove(s, a)
			s.timers.Leave(a.key)
			out = append(out, a)
		case a.skipped.Before(a.lastUsed):
			a.skipped = now
			skipped = append(skipped, a.key)
		}
	}
	return out, skipped
}

// deactivated ends an activation that is out of the table. The caller has no lock of a shard.
func (t *table) deactivated(a *activation, reason DeactivateReason) {
	// With the shard's lock: who is short of memory takes instances of idle activations.
	if in := a.takeDedicated(); in != nil {
		in.Discard()
	}
	if a.announced {
		t.events.Deactivated(a.key, reason)
	}
	if a.gone != nil {
		close(a.gone)
	}
}

// evictToBudget drops copies, and then evicts idle activations, until the states in
// memory are within their bound, and reports whether that was enough.
func (t *table) evictToBudget() bool {
	for t.crowded() {
		if t.dropCopy() {
			continue
		}
		victim := t.evict()
		if victim == nil {
			return false
		}
		t.deactivated(victim, DeactivatePressure)
	}
	return true
}

// crowded reports whether the states in memory are above their bound.
func (t *table) crowded() bool { return t.states.Load() > t.most }

func (t *table) errFull() error {
	return fmt.Errorf("%w: actors at work take all of their %d bytes of memory; try again later", actor.ErrHostFull, t.most)
}

// catchUp brings an activation without batches to the newest state that this host
// knows of: nothing, if it knows only that there is one. What is loaded from now on
// is as new. It reports whether there was anything newer. The caller has the shard's lock.
func (t *table) catchUp(a *activation) bool {
	if a.Tip != nil && (!a.member.Committed() || !a.Outdated()) || !a.shard.history.CatchUp(a.key, &a.Known, time.Now()) {
		return false
	}
	if a.Tip != nil {
		a.rev = t.revisions.Next()
	}
	a.weigh()
	return true
}

// keep makes l, which is committed and was asked for at a moment, what the
// activation holds. If something newer was heard of since, what rests on it is not
// answered.
func (t *table) keep(a *activation, l *residency.Row, rev uint64, asked time.Time) {
	s := a.shard
	s.mu.Lock()
	a.Keep(l, asked)
	a.rev = rev
	a.weigh()
	fresh := !a.announced
	a.announced = true
	s.mu.Unlock()
	if fresh {
		t.events.Activated(a.key)
	}
}

// offer gives a state that a reader loaded to the actor's activation: for readers
// alone if it has a state by now, and not at all if a worker is loading one or
// anything of the shard was forgotten since it was asked for, since the state might
// be older then than what was already answered. What it does not take is answered
// all the same, and nothing older may be afterwards.
func (t *table) offer(sh *shard, key actor.Key, s *serving.Type, l *residency.Row, asked time.Time, forgets uint64) {
	sh.mu.Lock()
	a := sh.actors[key]
	if a != nil && a.Loaded != nil {
		sh.show(a, l, asked, forgets)
		sh.mu.Unlock()
		return
	}
	if hold, err := t.ownership.admits(sh, key, a, s, asked); err == nil && a == nil && sh.history.Forgets() == forgets {
		if a = t.activate(sh, key); a != nil { // readers push nobody out
			a.hold = hold
		}
	}
	if a == nil || a.busy || sh.history.Forgets() != forgets {
		sh.noteNewer(a, l.Version)
		sh.mu.Unlock()
		return
	}
	a.Loaded, a.Tip, a.rev, a.Current = l, l, t.revisions.Next(), asked
	a.weigh()
	a.sticky, a.idleTimeout, a.lastUsed = s.Sticky, s.Limits.IdleTimeout, time.Now()
	fresh := !a.announced
	a.announced = true
	sh.mu.Unlock()
	if fresh {
		t.events.Activated(key)
	}
	t.evictToBudget()
}

// noteNewer takes over that the store has a version of an actor: nothing older is
// answered from now on, whoever asks.
func (t *table) noteNewer(key actor.Key, version uint64) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteNewer(s.actors[key], version)
	s.history.Answered.Note(key, version, time.Now())
}

// confirmRead takes over that the store had a version at a moment after asked, and
// reports whether it is that of l.
func (t *table) confirmRead(key actor.Key, l *residency.Row, version uint64, asked time.Time) bool {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[key]
	if version != l.Version {
		if a == nil || a.Loaded == nil {
			s.noteNewer(a, version)
		} else {
			s.noteOther(a, version)
		}
		return false
	}
	if a != nil && a.Committed() == l {
		a.Confirmed(asked)
	}
	return true
}

// noteAnswered remembers a version of an actor that is not kept in memory and is
// about to be answered.
func (t *table) noteAnswered(key actor.Key, version uint64) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.Answered.Note(key, version, time.Now())
}

// each calls f for every activation, a shard at a time and under its lock.
func (t *table) each(f func(a *activation)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, a := range s.actors {
			f(a)
		}
		s.mu.Unlock()
	}
}

const (
	// minCopies is of how many actors of a shard there may be copies at least.
	minCopies = 16
	// copyIdle is how long a copy stays that nobody reads.
	copyIdle = time.Minute
)

// copyOf returns the copy of an actor's state, which may have none yet. The caller has the
// shard's lock.
func (t *table) copyOf(s *shard, key actor.Key) *stateCopy {
	if s.copies == nil {
		size := max(minCopies, int(t.max)/shardCount)
		s.copies, _ = simplelru.NewLRU(size, func(_ actor.Key, e *stateCopy) { // fails only for sizes below 1
			t.states.Add(-e.weighed)
			t.copied.Add(-1)
			e.weighed = 0
		})
	}
	e, ok := s.copies.Get(key)
	if !ok {
		e = &stateCopy{weighed: activationCost + int64(len(key.ID))}
		t.states.Add(e.weighed)
		t.copied.Add(1)
		s.copies.Add(key, e)
	}
	return e
}

// keepCopy makes l, which was the newest after a moment, the state of a copy that was not
// dropped meanwhile. The caller has the lock.
func (t *table) keepCopy(s *shard, key actor.Key, e *stateCopy, l *residency.Row, current time.Time) {
	if kept, ok := s.copies.Peek(key); !ok || kept != e {
		return
	}
	e.state, e.current = l, current
	w := activationCost + int64(len(key.ID)) + l.Cost()
	t.states.Add(w - e.weighed)
	e.weighed = w
}

// dropCopy drops the copy that was not read for longest of the first shard that has any,
// going around the shards, and reports whether there was one.
func (t *table) dropCopy() bool {
	if t.copied.Load() == 0 {
		return false
	}
	for range shardCount {
		s := &t.shards[t.hand.Add(1)%shardCount]
		s.mu.Lock()
		dropped := false
		if s.copies != nil {
			_, _, dropped = s.copies.RemoveOldest()
		}
		s.mu.Unlock()
		if dropped {
			return true
		}
	}
	return false
}

// dropCopies drops the copies of a shard that were not read since a moment, or whose
// actors this host is no reader of any more.
func (t *table) dropCopies(s *shard, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies == nil {
		return
	}
	for _, key := range s.copies.Keys() {
		if e, ok := s.copies.Peek(key); ok && (e.used.Before(since) || !t.ownership.cluster.Reads(key)) {
			s.copies.Remove(key)
		}
	}
}

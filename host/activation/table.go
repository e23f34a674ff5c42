package activation

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/children"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
)

// shardCount is a power of two well above the processors of any machine that
// this runs on, so that two turns rarely want the same lock.
const shardCount = 128

// Table finds the activation of an actor. It is split into shards, each with its
// own lock, by a hash of the key.
type Table struct {
	seed   maphash.Seed
	max    int64        // activations
	count  atomic.Int64 // activations
	copied atomic.Int64 // copies of states of actors that are held elsewhere
	States atomic.Int64 // bytes of the activations and copies
	most   int64        // of states
	// Revisions names states for what guests cache of them.
	Revisions overlay.Revisions
	// Children are the volatile children of the actors.
	Children  children.Families
	ownership *Ownership
	observer  Observer
	hand      atomic.Uint32
	Shards    [shardCount]Shard
}

// Observer gets what happens to activations. Neither callback is nil.
type Observer struct {
	Activated   func(actor.Key)
	Deactivated func(Deactivation)
}

// Init prepares a table for at most so many activations, whose states have at most so many bytes
// together. deliver gets the volatile messages that turns have sent.
func (t *Table) Init(activations int, stateBytes int64, o *Ownership, to Observer, clock *timer.Clock, deliver func(*actor.Tell)) {
	t.seed = maphash.MakeSeed()
	t.Children.Init(&t.States)
	t.max, t.most = int64(activations), stateBytes
	t.ownership, t.observer = o, to
	t.hand.Store(rand.Uint32())
	for i := range t.Shards {
		t.Shards[i].Actors = make(map[actor.Key]*Activation)
		t.Shards[i].states, t.Shards[i].number = &t.States, i
		t.Shards[i].History.Shared = o.Shared
		t.Shards[i].Outbox.Init(deliver)
		t.Shards[i].Timers.Init(clock, &t.Shards[i].Mu, t.Shards[i].Outbox.Put)
	}
}

// Shard returns the shard that an actor belongs to.
func (t *Table) Shard(key actor.Key) *Shard {
	return &t.Shards[maphash.String(t.seed, key.ID)%shardCount]
}

// Activate makes an activation for an actor that has none, and returns nil if there
// are as many as may be. The caller has the shard's lock.
func (t *Table) Activate(s *Shard, key actor.Key) *Activation {
	if t.count.Add(1) > t.max {
		t.count.Add(-1)
		return nil
	}
	a := &Activation{Key: key, Shard: s, Home: call.Home{Timers: &s.Timers, Work: &s.Work}}
	a.Member.Of = a
	s.Actors[key] = a
	s.order.Push(&a.used, a)
	a.Weigh()
	return a
}

// Find returns the activation of an actor, nil if there is none.
func (t *Table) Find(key actor.Key) *Activation {
	s := t.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Actors[key]
}

// Remove takes an activation without work out of the table. The caller has the
// shard's lock.
func (t *Table) Remove(s *Shard, a *Activation) {
	s.History.Leave(a.Key, &a.Known, time.Now())
	delete(s.Actors, a.Key)
	s.order.Remove(&a.used)
	t.count.Add(-1)
	t.States.Add(-a.weighed)
	a.weighed = 0
	t.EndChildren(a)
}

// EndChildren ends the volatile children of an activation, which leaves or is lost. The caller has the
// shard's lock.
func (t *Table) EndChildren(a *Activation) {
	a.orphans = append(a.orphans, t.Children.End(a.Key)...)
}

// Evict takes an idle activation out, the least recently used one of the first
// shard that has any, going around the shards. It returns nil when every
// activation has work.
func (t *Table) Evict() *Activation {
	for range shardCount {
		s := &t.Shards[t.hand.Add(1)%shardCount]
		if a := t.evictFrom(s); a != nil {
			return a
		}
	}
	return nil
}

func (t *Table) evictFrom(s *Shard) *Activation {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for a := range s.order.All() {
		if a.Idle() {
			t.Remove(s, a)
			s.Timers.Leave(a.Key)
			return a
		}
	}
	return nil
}

// Expired takes out the activations of a shard that were unused for their idle
// timeout. skipped are the actors that were found unused now and that stay.
func (t *Table) Expired(s *Shard, now time.Time) (out []*Activation, skipped []actor.Key) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for a := range s.order.All() {
		switch {
		case !a.Idle() || now.Sub(a.LastUsed) < a.IdleTimeout || now.Sub(t.Children.Used(a.Key)) < a.IdleTimeout:
		case !a.Sticky:
			t.Remove(s, a)
			s.Timers.Leave(a.Key)
			out = append(out, a)
		case a.skipped.Before(a.LastUsed):
			a.skipped = now
			skipped = append(skipped, a.Key)
		}
	}
	return out, skipped
}

// Deactivated ends an activation that is out of the table. The caller has no lock of a shard.
func (t *Table) Deactivated(a *Activation, reason DeactivateReason) {
	// With the shard's lock: who is short of memory takes instances of idle activations.
	if in := a.takeDedicated(); in != nil {
		in.Discard()
	}
	if a.announced {
		t.observer.Deactivated(Deactivation{a.Key, reason})
	}
	if a.Gone != nil {
		close(a.Gone)
	}
	for _, key := range a.orphans {
		t.dropOrphan(key, reason)
	}
}

// dropOrphan ends the activation of a child whose family has ended. One that has work stays until it
// is unused for long enough: its turns find that the child is gone.
func (t *Table) dropOrphan(key actor.Key, reason DeactivateReason) {
	s := t.Shard(key)
	s.Mu.Lock()
	a := s.Actors[key]
	idle := a != nil && a.Idle()
	if idle {
		t.Remove(s, a)
		s.Timers.Leave(key)
	}
	s.Mu.Unlock()
	if idle {
		t.Deactivated(a, reason)
	}
}

// EvictToBudget drops copies, and then evicts idle activations, until the states in
// memory are within their bound, and reports whether that was enough.
func (t *Table) EvictToBudget() bool {
	for t.Crowded() {
		if t.DropCopy() {
			continue
		}
		victim := t.Evict()
		if victim == nil {
			return false
		}
		t.Deactivated(victim, DeactivatePressure)
	}
	return true
}

// Crowded reports whether the states in memory are above their bound.
func (t *Table) Crowded() bool { return t.States.Load() > t.most }

// ErrFull is the error of a call that no memory is left for.
func (t *Table) ErrFull() error {
	return fmt.Errorf("%w: actors at work take all of their %d bytes of memory; try again later", actor.ErrHostFull, t.most)
}

// CatchUp brings an activation without batches to the newest state that this host
// knows of: nothing, if it knows only that there is one. What is loaded from now on
// is as new. It reports whether there was anything newer. The caller has the shard's lock.
func (t *Table) CatchUp(a *Activation) bool {
	if a.Tip != nil && (!a.Member.Committed() || !a.Outdated()) || !a.Shard.History.CatchUp(a.Key, &a.Known, time.Now()) {
		return false
	}
	if a.Tip != nil {
		a.Rev = t.Revisions.Next()
	}
	a.Weigh()
	return true
}

// Keep makes l, which is committed and was asked for at a moment, what the
// activation holds. If something newer was heard of since, what rests on it is not
// answered.
func (t *Table) Keep(a *Activation, l *residency.Row, rev uint64, asked time.Time) {
	s := a.Shard
	s.Mu.Lock()
	a.Keep(l, asked)
	a.Rev = rev
	a.Weigh()
	fresh := !a.announced
	a.announced = true
	s.Mu.Unlock()
	if fresh {
		t.observer.Activated(a.Key)
	}
}

// Offer gives a state that a reader loaded to the actor's activation: for readers
// alone if it has a state by now, and not at all if a worker is loading one or
// anything of the shard was forgotten since it was asked for, since the state might
// be older then than what was already answered. What it does not take is answered
// all the same, and nothing older may be afterwards.
func (t *Table) Offer(sh *Shard, key actor.Key, s *serving.Type, l *residency.Row, asked time.Time, forgets uint64) {
	sh.Mu.Lock()
	a := sh.Actors[key]
	if a != nil && a.Loaded != nil {
		sh.Show(a, l, asked, forgets)
		sh.Mu.Unlock()
		return
	}
	if hold, err := t.ownership.Admits(sh, key, a, s, asked); err == nil && a == nil && sh.History.Forgets() == forgets {
		if a = t.Activate(sh, key); a != nil { // readers push nobody out
			a.Hold = hold
		}
	}
	if a == nil || a.Busy || sh.History.Forgets() != forgets {
		sh.NoteNewer(a, l.Version)
		sh.Mu.Unlock()
		return
	}
	a.Loaded, a.Tip, a.Rev, a.Current = l, l, t.Revisions.Next(), asked
	a.Weigh()
	a.Sticky, a.IdleTimeout, a.LastUsed = s.Sticky, s.Limits.IdleTimeout, time.Now()
	fresh := !a.announced
	a.announced = true
	sh.Mu.Unlock()
	if fresh {
		t.observer.Activated(key)
	}
	t.EvictToBudget()
}

// NoteNewer takes over that the store has a version of an actor: nothing older is
// answered from now on, whoever asks.
func (t *Table) NoteNewer(key actor.Key, version uint64) {
	s := t.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.NoteNewer(s.Actors[key], version)
	s.History.Answered.Note(key, version, time.Now())
}

// ConfirmRead takes over that the store had a version at a moment after asked, and
// reports whether it is that of l.
func (t *Table) ConfirmRead(key actor.Key, l *residency.Row, version uint64, asked time.Time) bool {
	s := t.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	a := s.Actors[key]
	if version != l.Version {
		if a == nil || a.Loaded == nil {
			s.NoteNewer(a, version)
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

// NoteAnswered remembers a version of an actor that is not kept in memory and is
// about to be answered.
func (t *Table) NoteAnswered(key actor.Key, version uint64) {
	s := t.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.History.Answered.Note(key, version, time.Now())
}

// Each calls f for every activation, a shard at a time and under its lock.
func (t *Table) Each(f func(a *Activation)) {
	for i := range t.Shards {
		s := &t.Shards[i]
		s.Mu.Lock()
		for _, a := range s.Actors {
			f(a)
		}
		s.Mu.Unlock()
	}
}

const (
	// minCopies is of how many actors of a shard there may be copies at least.
	minCopies = 16
	// CopyIdle is how long a copy stays that nobody reads.
	CopyIdle = time.Minute
)

// CopyOf returns the copy of an actor's state, which may have none yet. The caller has the
// shard's lock.
func (t *Table) CopyOf(s *Shard, key actor.Key) *StateCopy {
	if s.copies == nil {
		size := max(minCopies, int(t.max)/shardCount)
		s.copies, _ = simplelru.NewLRU(size, func(_ actor.Key, e *StateCopy) { // fails only for sizes below 1
			t.States.Add(-e.weighed)
			t.copied.Add(-1)
			e.weighed = 0
		})
	}
	e, ok := s.copies.Get(key)
	if !ok {
		e = &StateCopy{weighed: activationCost + int64(len(key.ID))}
		t.States.Add(e.weighed)
		t.copied.Add(1)
		s.copies.Add(key, e)
	}
	return e
}

// KeepCopy makes l, which was the newest after a moment, the state of a copy that was not
// dropped meanwhile. The caller has the lock.
func (t *Table) KeepCopy(s *Shard, key actor.Key, e *StateCopy, l *residency.Row, current time.Time) {
	if kept, ok := s.copies.Peek(key); !ok || kept != e {
		return
	}
	e.State, e.Current = l, current
	w := activationCost + int64(len(key.ID)) + l.Cost()
	t.States.Add(w - e.weighed)
	e.weighed = w
}

// DropCopy drops the copy that was not read for longest of the first shard that has any,
// going around the shards, and reports whether there was one.
func (t *Table) DropCopy() bool {
	if t.copied.Load() == 0 {
		return false
	}
	for range shardCount {
		s := &t.Shards[t.hand.Add(1)%shardCount]
		s.Mu.Lock()
		dropped := false
		if s.copies != nil {
			_, _, dropped = s.copies.RemoveOldest()
		}
		s.Mu.Unlock()
		if dropped {
			return true
		}
	}
	return false
}

// DropCopies drops the copies of a shard that were not read since a moment, or whose
// actors this host is no reader of any more.
func (t *Table) DropCopies(s *Shard, since time.Time) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.copies == nil {
		return
	}
	for _, key := range s.copies.Keys() {
		if e, ok := s.copies.Peek(key); ok && (e.Used.Before(since) || !t.ownership.Cluster.Reads(key)) {
			s.copies.Remove(key)
		}
	}
}

// DeactivateReason says why an actor left memory.
type DeactivateReason string

// The reasons.
const (
	DeactivateIdle     DeactivateReason = "idle"     // unused for Limits.IdleTimeout
	DeactivatePressure DeactivateReason = "pressure" // Config.MaxActivations was reached
	DeactivateStop     DeactivateReason = "stop"     // the host stopped
	DeactivateDone     DeactivateReason = "done"     // a lane that keeps nothing had no work left
	DeactivateMoved    DeactivateReason = "moved"    // this host does not hold it any more
)

// Deactivation is an actor that has left memory.
type Deactivation struct {
	Key    actor.Key
	Reason DeactivateReason
}

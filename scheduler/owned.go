package scheduler

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
)

// ownedActors are the sticky actors that this host owns, for those who ask with each
// call. What [ownership.Member] says decides; this follows it. Of types that are placed with
// a group, the actor of the group key is owned: see [view.locate].
type ownedActors struct {
	seed   maphash.Seed
	count  atomic.Int64
	added  atomic.Uint64 // how many were ever added: the clock of ownedActor.used
	shards [64]ownedShard
}

type ownedShard struct {
	mu     sync.RWMutex
	actors map[actor.Key]*ownedActor
	_      [32]byte // a shard's lock is in a cache line of its own
}

type ownedActor struct {
	used    atomic.Uint64 // how many had been added when it was used last
	leaving atomic.Bool   // it is handed over, or about to be
	fenced  atomic.Bool   // nothing of an earlier owner is under way
	// members are the actors of a group key that share this state; maxMembers at most.
	// The shard's lock guards them.
	members map[actor.Key]struct{}
}

// maxMembers bounds what is remembered for a group key: whoever is beyond it is fenced anew
// when it comes into memory.
const maxMembers = 64

func newOwnedActors() *ownedActors {
	o := &ownedActors{seed: maphash.MakeSeed()}
	for i := range o.shards {
		o.shards[i].actors = map[actor.Key]*ownedActor{}
	}
	return o
}

func (o *ownedActors) shard(key actor.Key) *ownedShard {
	return &o.shards[maphash.String(o.seed, key.ID)%uint64(len(o.shards))]
}

func (o *ownedActors) get(key actor.Key) *ownedActor {
	s := o.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.actors[key]
}

// fence notes that nothing of an earlier owner of an actor is under way, by the actor's
// place.
func (o *ownedActors) fence(place, key actor.Key) {
	s := o.shard(place)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch a := s.actors[place]; {
	case a == nil:
	case place == key:
		a.fenced.Store(true)
	case a.members == nil || len(a.members) >= maxMembers:
		a.members = map[actor.Key]struct{}{key: {}}
	default:
		a.members[key] = struct{}{}
	}
}

// isFenced reports whether nothing of an earlier owner of an actor is under way; a is the
// place's.
func (o *ownedActors) isFenced(a *ownedActor, place, key actor.Key) bool {
	if place == key {
		return a.fenced.Load()
	}
	s := o.shard(place)
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, fenced := a.members[key]
	return fenced
}

// hold says whether an actor's place is owned, and notes that it is used.
func (o *ownedActors) hold(place, key actor.Key) actor.Hold {
	a := o.get(place)
	if a == nil || a.leaving.Load() {
		return actor.NotHeld
	}
	if now := o.added.Load(); a.used.Load() != now {
		a.used.Store(now)
	}
	if o.isFenced(a, place, key) {
		return actor.HeldClean
	}
	return actor.Held
}

func (o *ownedActors) add(key actor.Key) {
	s := o.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.actors[key] == nil {
		o.count.Add(1)
	}
	a := &ownedActor{}
	a.used.Store(o.added.Add(1))
	s.actors[key] = a
}

func (o *ownedActors) remove(key actor.Key) {
	s := o.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.actors[key] != nil {
		o.count.Add(-1)
		delete(s.actors, key)
	}
}

// clear removes all.
func (o *ownedActors) clear() {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		o.count.Add(-int64(len(s.actors)))
		s.actors = map[actor.Key]*ownedActor{}
		s.mu.Unlock()
	}
}

// leave marks those that fit as leaving, n at most, and returns them.
func (o *ownedActors) leave(n int, fits func(actor.Key, *ownedActor) bool) map[actor.Key]*ownedActor {
	leaving := map[actor.Key]*ownedActor{}
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.RLock()
		for key, a := range s.actors {
			if len(leaving) < n && !a.leaving.Load() && fits(key, a) {
				a.leaving.Store(true)
				leaving[key] = a
			}
		}
		s.mu.RUnlock()
	}
	return leaving
}

// leastUsed marks the n actors that were not used for longest as leaving, or fewer, and none that is to
// stay. Those used between the same two additions are of the same age.
func (o *ownedActors) leastUsed(n int, stay map[actor.Key]struct{}) map[actor.Key]*ownedActor {
	mayLeave := func(key actor.Key, a *ownedActor) bool {
		_, stays := stay[key]
		return !stays && !a.leaving.Load()
	}
	var ages []uint64
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.RLock()
		for key, a := range s.actors {
			if mayLeave(key, a) {
				ages = append(ages, a.used.Load())
			}
		}
		s.mu.RUnlock()
	}
	if n = min(n, len(ages)); n <= 0 {
		return nil
	}
	slices.Sort(ages)
	oldest := ages[n-1]
	return o.leave(n, func(key actor.Key, a *ownedActor) bool { return mayLeave(key, a) && a.used.Load() <= oldest })
}

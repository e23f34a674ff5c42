package host

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/instance"
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
	states budget       // bytes of the activations
	hand   atomic.Uint32
	shards [shardCount]shard
}

// shard holds some of the actors, the calls that run on them, and the order in
// which they were used.
type shard struct {
	mu     sync.Mutex
	closed bool // no call is admitted any more
	killed bool // running calls are stopped as they come
	actors map[actor.Key]*activation
	// newest and oldest are the ends of the order of use.
	newest, oldest *activation
	running        callList
	// forgets counts the states that left memory, for readers that loaded one
	// meanwhile.
	forgets  uint64
	answered answered
	// readAge is how old the states are at most that readers are given without a
	// question to the store; 0: as old as they like.
	readAge time.Duration
	// work counts workers and calls in the lanes without one. It grows only
	// while the shard is open.
	work sync.WaitGroup
}

func (t *table) init(maxActivations int, stateMemory int64, readAge time.Duration) {
	t.seed = maphash.MakeSeed()
	t.max, t.states.max = int64(maxActivations), stateMemory
	t.hand.Store(rand.Uint32())
	for i := range t.shards {
		t.shards[i].actors = make(map[actor.Key]*activation)
		t.shards[i].readAge = readAge
	}
}

func (t *table) shard(key actor.Key) *shard {
	return &t.shards[maphash.String(t.seed, key.ID)%shardCount]
}

// enter admits a call that runs on its caller's goroutine. warm is what its actor's
// activation holds for readers, nil if there is nothing or it is not current.
func (s *shard) enter(c *call) (warm *loaded, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, actor.ErrStopping
	}
	s.work.Add(1)
	s.running.push(c)
	return s.look(c.inv.Key, c.arrived), nil
}

// look returns the committed state that an actor's activation has for readers, nil
// if it has none that is current, and counts as a use of it. The caller has the lock.
func (s *shard) look(key actor.Key, now time.Time) *loaded {
	a := s.actors[key]
	if a == nil || a.loaded == nil {
		return nil
	}
	s.used(a)
	a.lastUsed = now
	if s.readAge > 0 && a.current.Before(now.Add(-s.readAge)) {
		return nil
	}
	return a.committed()
}

// leave ends what enter began.
func (s *shard) leave(c *call) {
	s.mu.Lock()
	s.running.remove(c)
	s.mu.Unlock()
	s.work.Done()
}

// withdraw takes a call out of its mailbox, or from those that go again, and
// reports whether it was there: then it leaves no trace.
func (s *shard) withdraw(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := c.at
	if a == nil || c.home != &a.mailbox && c.home != &a.retries {
		return false
	}
	c.home.remove(c)
	a.admitted--
	a.callBytes -= c.cost()
	return true
}

// add puts a new activation into the table. The caller has the shard's lock and
// counted it.
func (t *table) add(s *shard, a *activation) {
	a.shard = s
	s.actors[a.key] = a
	s.link(a)
	t.weigh(a)
}

// remove takes an activation out of the table. The caller has the shard's lock.
func (t *table) remove(s *shard, a *activation) {
	s.leaves(a)
	delete(s.actors, a.key)
	s.unlink(a)
	s.forgets++
	t.count.Add(-1)
	t.states.add(-a.weighed)
	a.weighed = 0
}

// used makes an activation the newest. The caller has the shard's lock.
func (s *shard) used(a *activation) {
	if s.newest != a {
		s.unlink(a)
		s.link(a)
	}
}

func (s *shard) link(a *activation) {
	a.newer, a.older = nil, s.newest
	if s.newest != nil {
		s.newest.newer = a
	} else {
		s.oldest = a
	}
	s.newest = a
}

func (s *shard) unlink(a *activation) {
	if a.newer != nil {
		a.newer.older = a.older
	} else {
		s.newest = a.older
	}
	if a.older != nil {
		a.older.newer = a.newer
	} else {
		s.oldest = a.newer
	}
	a.newer, a.older = nil, nil
}

// reserve counts one more activation, if there is room.
func (t *table) reserve() bool {
	if t.count.Add(1) <= t.max {
		return true
	}
	t.count.Add(-1)
	return false
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
	for a := s.oldest; a != nil; a = a.newer {
		if a.idle() {
			t.remove(s, a)
			return a
		}
	}
	return nil
}

// takeInstance takes its dedicated instance away from an activation that has no
// work, the least recently used one of the first shard that has any.
func (t *table) takeInstance() *instance.Instance {
	for range shardCount {
		s := &t.shards[t.hand.Add(1)%shardCount]
		if in := s.takeInstance(); in != nil {
			return in
		}
	}
	return nil
}

func (s *shard) takeInstance() *instance.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := s.oldest; a != nil; a = a.newer {
		if a.idle() && a.dedicated != nil {
			in := a.dedicated
			a.dedicated = nil
			return in
		}
	}
	return nil
}

// expired takes out the activations of a shard that were unused for their idle
// timeout.
func (t *table) expired(s *shard, now time.Time) []*activation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*activation
	for a := s.oldest; a != nil; {
		newer := a.newer
		if a.idle() && !a.sticky && now.Sub(a.lastUsed) >= a.idleTimeout {
			t.remove(s, a)
			out = append(out, a)
		}
		a = newer
	}
	return out
}

package host

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/residency"
)

// copies are states of actors that other hosts hold, for read-only methods that this host
// may answer ([Ownership.Reads]). A copy is no activation: no turn runs on it, nothing is
// ever committed, and it is the first to go when there is too little memory.
//
// What is answered from a copy was the newest after its call came: the store is asked
// each time, by all calls of the actor together. So what a caller is answered here is no
// older than what any host has answered before. The holder in turn must not answer
// what is older than a copy: see [shard.look].
type copies struct {
	memory *callMemory
	store  *storage
	table  *table
}

// stateCopy is the copy of one actor's state. The shard's lock guards it.
type stateCopy struct {
	state   *residency.Row // nil: none was read yet, or it is damaged
	current time.Time      // after this it was the newest
	used    time.Time
	weighed int64  // what it counts for in table.states
	fetch   *fetch // under way; nil: none
}

// fetch brings a copy up to date.
type fetch struct {
	done chan struct{}
	// What follows is set before done is closed.
	asked time.Time // state was the newest after this
	state *residency.Row
	err   error
}

const (
	// minCopies is of how many actors of a shard there may be copies at least.
	minCopies = 16
	// copyIdle is how long a copy stays that nobody reads.
	copyIdle = time.Minute
)

// mayRead reports whether a call that is not held here is answered from a copy.
func (o *ownership) mayRead(c *call, by *served) bool {
	return o.cluster != nil && by.shared && by.placed() && c.op == opInvoke && c.inv.Firing == nil &&
		c.inv.Consistency != actor.ConsistencyStrong && o.cluster.Reads(c.inv.Key)
}

// read returns a state that was the newest at some moment after the call came.
func (cs *copies) read(ctx context.Context, c *call) (*residency.Row, error) {
	key := c.inv.Key
	sh := cs.table.shard(key)
	for {
		sh.mu.Lock()
		e := sh.copyOf(key)
		e.used = c.arrived
		if l := e.state; l != nil && !e.current.Before(c.arrived) {
			sh.mu.Unlock()
			return l, nil
		}
		f, first := e.fetch, e.fetch == nil
		if first {
			f = &fetch{done: make(chan struct{})}
			e.fetch = f
			sh.work.Add(1) // the call is counted, so the shard is not waited for yet
			go cs.bring(sh, key, e, f, e.state)
		}
		sh.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case f.err != nil:
			return nil, f.err
		case f.asked.Before(c.arrived): // it was under way when the call came
			continue
		case first: // like what a call loads for itself alone: it may wait for an instance with it
			if !cs.memory.take(f.state.Cost()) {
				return nil, cs.memory.errFull()
			}
			c.loaded += f.state.Cost()
		}
		return f.state, nil
	}
}

// bring asks the store whether known is the newest state, nil for none, and reads the row
// if it is not.
func (cs *copies) bring(sh *shard, key actor.Key, e *stateCopy, f *fetch, known *residency.Row) {
	defer sh.work.Done()
	if known != nil {
		var version uint64
		if version, f.asked, f.err = cs.store.version(cs.store.ctx, key); f.err == nil && version == known.Version {
			f.state = known
		}
	}
	if f.state == nil && f.err == nil {
		f.asked = time.Now()
		f.state, f.err = cs.store.load(cs.store.ctx, key, actor.LoadOptions{})
	}
	if f.err != nil && cs.store.ctx.Err() != nil {
		f.err = fmt.Errorf("%w: %v", actor.ErrStopping, f.err)
	}
	sh.mu.Lock()
	e.fetch = nil
	if f.err == nil && f.state.Damage == nil {
		if f.state != known {
			// Nothing older is answered here, however the actor is read next.
			sh.noteNewer(sh.actors[key], f.state.Version)
			sh.history.Answered.Note(key, f.state.Version, time.Now())
		}
		sh.keepCopy(key, e, f.state, f.asked)
	}
	sh.mu.Unlock()
	close(f.done)
	cs.table.evictToBudget()
}

// copyOf returns the copy of an actor's state, which may have none yet. The caller has the
// lock.
func (s *shard) copyOf(key actor.Key) *stateCopy {
	if s.copies == nil {
		size := max(minCopies, int(s.table.max)/shardCount)
		s.copies, _ = simplelru.NewLRU(size, func(_ actor.Key, e *stateCopy) { // fails only for sizes below 1
			s.table.states.add(-e.weighed)
			s.table.copied.Add(-1)
			e.weighed = 0
		})
	}
	e, ok := s.copies.Get(key)
	if !ok {
		e = &stateCopy{weighed: activationCost + int64(len(key.ID))}
		s.table.states.add(e.weighed)
		s.table.copied.Add(1)
		s.copies.Add(key, e)
	}
	return e
}

// keepCopy makes l, which was the newest after a moment, the state of a copy that was not
// dropped meanwhile. The caller has the lock.
func (s *shard) keepCopy(key actor.Key, e *stateCopy, l *residency.Row, current time.Time) {
	if kept, ok := s.copies.Peek(key); !ok || kept != e {
		return
	}
	e.state, e.current = l, current
	w := activationCost + int64(len(key.ID)) + l.Cost()
	s.table.states.add(w - e.weighed)
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
func (s *shard) dropCopies(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies == nil {
		return
	}
	for _, key := range s.copies.Keys() {
		if e, ok := s.copies.Peek(key); ok && (e.used.Before(since) || !s.table.ownership.cluster.Reads(key)) {
			s.copies.Remove(key)
		}
	}
}

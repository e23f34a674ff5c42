package host

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/storage"
)

// copies are states of actors that other hosts hold, for read-only methods that this host
// may answer ([Ownership.Reads]). A copy is no activation: no turn runs on it, nothing is
// ever committed, and it is the first to go when there is too little memory.
//
// What is answered from a copy was the newest after its call came: the store is asked
// each time, by all calls of the actor together. So what a caller is answered here is no
// older than what any host has answered before. The holder in turn must not answer
// what is older than a copy: see [ownership.look].
type copies struct {
	memory *call.Memory
	store  *storage.Store
	table  *table
}

// read returns a state that was the newest at some moment after the call came.
func (cs *copies) read(ctx context.Context, c *call.Call) (*residency.Row, error) {
	key := c.Inv.Key
	sh := cs.table.shard(key)
	for {
		sh.mu.Lock()
		e := cs.table.copyOf(sh, key)
		e.used = c.Arrived
		if l := e.state; l != nil && !e.current.Before(c.Arrived) {
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
		case f.asked.Before(c.Arrived): // it was under way when the call came
			continue
		case first: // like what a call loads for itself alone: it may wait for an instance with it
			if err := cs.memory.Take(c.Inv.Key.App, f.state.Cost()); err != nil {
				return nil, err
			}
			c.Loaded += f.state.Cost()
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
		if version, f.asked, f.err = cs.store.Version(cs.store.Context, key); f.err == nil && version == known.Version {
			f.state = known
		}
	}
	if f.state == nil && f.err == nil {
		f.asked = time.Now()
		f.state, f.err = cs.store.Load(cs.store.Context, key, actor.LoadOptions{})
	}
	if f.err != nil && cs.store.Context.Err() != nil {
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
		cs.table.keepCopy(sh, key, e, f.state, f.asked)
	}
	sh.mu.Unlock()
	close(f.done)
	cs.table.evictToBudget()
}

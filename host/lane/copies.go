package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Copies are states of actors that other hosts hold, for read-only methods that this host
// may answer ([activation.Cluster.Reads]). A copy is no activation: no turn runs on it, nothing is
// ever committed, and it is the first to go when there is too little memory.
//
// What is answered from a copy was the newest after its call came: the store is asked
// each time, by all calls of the actor together. So what a caller is answered here is no
// older than what any host has answered before. The holder in turn must not answer
// what is older than a copy: see [activation.Ownership.Look].
type Copies struct {
	Memory *call.Memory
	Store  *storage.Store
	Table  *activation.Table
}

// read returns a state that was the newest at some moment after the call came.
func (cs *Copies) read(ctx context.Context, c *call.Call) (*residency.Row, error) {
	key := c.Inv.Key
	sh := cs.Table.Shard(key)
	for {
		sh.Mu.Lock()
		e := cs.Table.CopyOf(sh, key)
		e.Used = c.Arrived
		if l := e.State; l != nil && !e.Current.Before(c.Arrived) {
			sh.Mu.Unlock()
			return l, nil
		}
		f, first := e.Fetch, e.Fetch == nil
		if first {
			f = &activation.Fetch{Done: make(chan struct{})}
			e.Fetch = f
			sh.Work.Add(1) // the call is counted, so the shard is not waited for yet
			go cs.bring(sh, key, e, f, e.State)
		}
		sh.Mu.Unlock()
		select {
		case <-f.Done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case f.Err != nil:
			return nil, f.Err
		case f.Asked.Before(c.Arrived): // it was under way when the call came
			continue
		case first: // like what a call loads for itself alone: it may wait for an instance with it
			if err := cs.Memory.Take(c.Inv.Key.App, f.State.Cost()); err != nil {
				return nil, err
			}
			c.Loaded += f.State.Cost()
		}
		return f.State, nil
	}
}

// bring asks the store whether known is the newest state, nil for none, and reads the row
// if it is not.
func (cs *Copies) bring(sh *activation.Shard, key actor.Key, e *activation.StateCopy, f *activation.Fetch, known *residency.Row) {
	defer sh.Work.Done()
	if known != nil {
		var version uint64
		if version, f.Asked, f.Err = cs.Store.Version(cs.Store.Context, key); f.Err == nil && version == known.Version {
			f.State = known
		}
	}
	if f.State == nil && f.Err == nil {
		f.Asked = time.Now()
		f.State, f.Err = cs.Store.Load(cs.Store.Context, key, actor.LoadOptions{})
	}
	if f.Err != nil && cs.Store.Context.Err() != nil {
		f.Err = fmt.Errorf("%w: %v", actor.ErrStopping, f.Err)
	}
	sh.Mu.Lock()
	e.Fetch = nil
	if f.Err == nil && f.State.Damage == nil {
		if f.State != known {
			// Nothing older is answered here, however the actor is read next.
			sh.NoteNewer(sh.Actors[key], f.State.Version)
			sh.History.Answered.Note(key, f.State.Version, time.Now())
		}
		cs.Table.KeepCopy(sh, key, e, f.State, f.Asked)
	}
	sh.Mu.Unlock()
	close(f.Done)
	cs.Table.EvictToBudget()
}

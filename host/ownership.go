package host

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Which host runs an actor, and what it may answer of it, is decided in this file:
//
//   - activate makes every activation. A host that is not to run an actor is kept
//     from it here, before there is anything to give up.
//   - remove ends every activation: one that has no work, after the turns that it
//     was given. Handing an actor over is to let it come to that.
//   - each goes through the actors that the host holds.
//   - currentSince tells whether an answer needs the store. A lease on the actor
//     would make the question needless for as long as it lasts.
//
// What a host has in memory is surely current only at the moment of a commit or of a
// read. Where no other process writes to the store, that is for good; where others
// may, an answer that no commit proves is given only on a state that was current
// after some moment: for what reads and for a turn that changed nothing,
// [actor.MaxReadAge] before it began; for a failure, for the news that there is no
// actor and for what leaves the host, its beginning. If that is not known yet, the
// store is asked for the row's version, together with other actors'.

// ownership says what this host may answer of actors without asking the store.
type ownership struct {
	shared bool // others write to the store
	store  *storage
}

// activate makes an activation for an actor that has none, and returns nil if there
// are as many as may be. The caller has the shard's lock.
func (t *table) activate(s *shard, key actor.Key) *activation {
	if t.count.Add(1) > t.max {
		t.count.Add(-1)
		return nil
	}
	a := &activation{key: key, shard: s}
	s.actors[key] = a
	s.link(a)
	a.weigh()
	return a
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

// remove takes an activation without work out of the table. The caller has the
// shard's lock.
func (t *table) remove(s *shard, a *activation) {
	s.leaves(a)
	delete(s.actors, a.key)
	s.unlink(a)
	s.forgets++
	t.count.Add(-1)
	t.states.add(-a.weighed)
	a.weighed = 0
}

// currentSince reports whether what the activation has for readers is known to
// have been the newest at some moment after since. The caller has the shard's
// lock.
func (o *ownership) currentSince(a *activation, since time.Time) bool {
	return !o.shared || a.current.After(since)
}

// someNewer is the newest version of an actor of which is known only that it is
// another than the one in memory.
const someNewer = math.MaxUint64

// confirmation is a question for the version of one actor, which all readers that
// need it wait for.
type confirmation struct {
	done chan struct{}
	err  error // set before done is closed
}

// confirm finds out whether what readers see of a, an activation that was in the
// table when its reader came, is current. When it returns nil that is noted.
func (o *ownership) confirm(ctx context.Context, s *shard, a *activation) error {
	s.mu.Lock()
	known, c := a.committed(), a.confirmation
	first := c == nil
	if first {
		c = &confirmation{done: make(chan struct{})}
		a.confirmation = c
	}
	s.mu.Unlock()
	if first {
		asked := time.Now()
		o.store.versions.Ask(a.key, func(v actor.RowVersion, err error) {
			s.mu.Lock()
			switch {
			case err != nil:
				c.err = fmt.Errorf("confirm version: %w", err)
			case known == nil || a.committed() != known: // no longer what was asked for
			case known.version == v.Version:
				a.confirmed(asked)
			default:
				s.noteOther(a, v.Version)
			}
			a.confirmation = nil
			s.mu.Unlock()
			close(c.done)
		})
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// confirmTip makes sure that the state that the activation's turns run on, which
// has no batch, was the newest after a moment. It reports whether it was not: then
// it is not to be built on. It is for the worker.
func (o *ownership) confirmTip(ctx context.Context, a *activation, since time.Time) (outdated bool, err error) {
	s := a.shard
	s.mu.Lock()
	tip, ok := a.tip, o.currentSince(a, since) && !a.outdated()
	s.mu.Unlock()
	if ok || tip == nil {
		return false, nil
	}
	version, asked, err := o.store.version(ctx, a.key)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != tip.version {
		s.noteOther(a, version)
	} else {
		a.confirmed(asked)
	}
	return a.outdated(), nil
}

// since is the moment after which the state must have been the newest that an
// outcome shows, if no commit proves it: zero if that does not matter.
func (o *ownership) since(began time.Time, err error) time.Time {
	if !o.shared {
		return time.Time{}
	}
	if err == nil {
		return began.Add(-actor.MaxReadAge)
	}
	return began
}

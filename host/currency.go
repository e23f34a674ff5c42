package host

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// What a host has in memory is surely current only at the moment of a commit or
// of a read. Where no other process writes to the store, that is for good; where
// others may, an answer that no commit proves is given only on a state that was
// current after some moment: for what reads and for a turn that changed nothing,
// [actor.MaxReadAge] before it began; for a failure, for the news that there is no
// actor and for what leaves the host, its beginning. If that is not known yet, the
// store is asked for the row's version, together with other actors'.
//
// A lease on the actor would make the question needless as long as it lasts:
// [Host.currentSince] is the one place that would look at it.

// someNewer is the newest version of an actor of which is known only that it is
// another than the one in memory.
const someNewer = math.MaxUint64

// currentSince reports whether what the activation has for readers is known to
// have been the newest at some moment after since. The caller has the shard's
// lock.
func (h *Host) currentSince(a *activation, since time.Time) bool {
	return !h.shared || a.current.After(since)
}

// noteNewer takes over that the store has a version of an actor: nothing older is
// answered from now on, whoever asks.
func (h *Host) noteNewer(key actor.Key, version uint64) {
	s := h.table.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteNewer(s.actors[key], version)
	s.answered.note(key, version, time.Now())
}

// noteNewer does so for an activation, nil if there is none. The caller has the
// lock.
func (s *shard) noteNewer(a *activation, version uint64) {
	if a == nil || a.loaded == nil {
		s.forgets++ // what is being loaded may be older
		if a != nil {
			a.newest = max(a.newest, version)
		}
		return
	}
	if known := a.committed(); known != nil && version <= known.version {
		return
	}
	s.forgets++
	a.newest = max(a.newest, version)
	a.shown = nil
}

// show lets the readers of an activation with a state see l, which was asked for
// at a moment when forgets was what the shard counted, unless it is older than
// what they see. The caller has the shard's lock.
func (h *Host) show(s *shard, a *activation, l *loaded, asked time.Time, forgets uint64) {
	known := a.committed()
	switch {
	case l.damage != nil:
	case known != nil && l.version == known.version:
		a.confirmed(asked)
	case known != nil && l.version < known.version:
	case known == nil && s.forgets != forgets && (a.newest == someNewer || l.version < a.newest):
		// Something newer was heard of after it was asked for.
	case l.version == a.loaded.version:
		a.shown, a.newest, a.current = nil, 0, asked
		h.table.weigh(a)
	default:
		a.shown, a.newest, a.current = l, l.version, asked
		h.table.weigh(a)
	}
}

// confirmation is a question for the version of one actor, which all readers that
// need it wait for.
type confirmation struct {
	done chan struct{}
	err  error // set before done is closed
}

// confirm finds out whether what readers see of a, an activation that was in the
// table when its reader came, is current. When it returns nil that is noted.
func (h *Host) confirm(ctx context.Context, s *shard, a *activation) error {
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
		h.versions.Ask(a.key, func(v actor.RowVersion, err error) {
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

// noteOther takes over that the store has another version than readers see, which
// is lower only if the row was swept and made anew. The caller has the lock.
func (s *shard) noteOther(a *activation, version uint64) {
	if known := a.committed(); known != nil && version < known.version {
		version = someNewer
	}
	s.noteNewer(a, version)
}

// versionNow asks the store for an actor's version.
func (h *Host) versionNow(ctx context.Context, key actor.Key) (version uint64, asked time.Time, err error) {
	type answer struct {
		v   actor.RowVersion
		err error
	}
	got := make(chan answer, 1)
	asked = time.Now()
	h.versions.Ask(key, func(v actor.RowVersion, err error) { got <- answer{v, err} })
	select {
	case a := <-got:
		if a.err != nil {
			a.err = fmt.Errorf("confirm version: %w", a.err)
		}
		return a.v.Version, asked, a.err
	case <-ctx.Done():
		return 0, asked, ctx.Err()
	}
}

// confirmTip makes sure that the state that the activation's turns run on, which
// has no batch, was the newest after a moment. It reports whether it was not: then
// it is not to be built on. It is for the worker.
func (h *Host) confirmTip(ctx context.Context, a *activation, since time.Time) (outdated bool, err error) {
	s := a.shard
	s.mu.Lock()
	tip, ok := a.tip, h.currentSince(a, since) && !a.outdated()
	s.mu.Unlock()
	if ok || tip == nil {
		return false, nil
	}
	version, asked, err := h.versionNow(ctx, a.key)
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

// sendCheck asks whether the version that a check rests on is still the row's.
func (h *Host) sendCheck(b *batch) {
	h.versions.Ask(b.commit.Key, func(v actor.RowVersion, err error) {
		switch {
		case err != nil:
			err = fmt.Errorf("confirm version: %w", err)
		case v.Version != b.commit.ReadVersion:
			err = actor.ErrStale
		}
		h.landed(b, err, time.Now())
	})
}

// since is the moment after which the state must have been the newest that an
// outcome shows, if no commit proves it: zero if that does not matter.
func (h *Host) since(began time.Time, err error) time.Time {
	if !h.shared {
		return time.Time{}
	}
	if err == nil {
		return began.Add(-actor.MaxReadAge)
	}
	return began
}

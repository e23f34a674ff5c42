package host

import (
	"time"
)

// states is what an activation knows of its actor's state: what is committed, what
// its turns have made of that since, and what others may have. The shard's lock
// guards it. Without batches, tip and loaded are the same.
type states struct {
	loaded *loaded // committed; nil: cold
	tip    *loaded // what the next turn runs on
	// shown is what a reader found in the store that is ahead of loaded: what the
	// flight has not been answered for yet, or another writer's. Later readers see
	// no less.
	shown *loaded
	// newest, if not 0, is the version of shown, or a later one about which nothing
	// else is known; then readers load. Nothing older is answered any more.
	newest uint64
	// current is a moment after which what readers see is known to have been the
	// newest; confirmation is the question whether it still is, nil if none is
	// under way.
	current      time.Time
	confirmation *confirmation
}

// install makes l what is committed. The caller has the shard's lock.
func (p *states) install(l *loaded) {
	p.loaded = l
	if p.newest <= l.version {
		p.shown, p.newest = nil, 0
	}
}

// committed returns what readers see, nil if nothing is loaded that they may. The
// caller has the shard's lock.
func (p *states) committed() *loaded {
	if p.newest != 0 {
		return p.shown
	}
	return p.loaded
}

// outdated reports whether the store has something newer than what turns run on,
// which then is committed. The caller has the shard's lock.
func (p *states) outdated() bool { return p.shown != nil || p.newest != 0 }

// confirmed takes over that what readers see was the newest after a moment. The
// caller has the shard's lock.
func (p *states) confirmed(asked time.Time) {
	if asked.After(p.current) {
		p.current = asked
	}
}

// known is the newest version that may have been answered, 0 if nothing is loaded or
// was heard of. The caller has the shard's lock.
func (p *states) known() uint64 {
	if p.loaded == nil {
		return p.newest
	}
	return max(p.newest, p.loaded.version)
}

// noteNewer records a newer version for the activation a, which may be nil. The caller
// has the shard's lock.
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
func (s *shard) show(a *activation, l *loaded, asked time.Time, forgets uint64) {
	known := a.committed()
	switch {
	case l.damage != nil:
	case known != nil && l.version == known.version:
		a.confirmed(asked)
	case known != nil && l.version < known.version:
	case known == nil && s.forgets != forgets && l.version < a.newest:
		// Something newer was heard of after it was asked for.
	case l.version == a.loaded.version:
		a.shown, a.newest, a.current = nil, 0, asked
		a.weigh()
	default:
		a.shown, a.newest, a.current = l, l.version, asked
		a.weigh()
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

// leaves remembers what was answered of a state that leaves memory, for reads that
// are allowed to be stale, should its type become one of placement any. The caller has
// the lock.
func (s *shard) leaves(a *activation) {
	if s.table.ownership.shared && a.loaded != nil { // where nobody else writes, no read is stale
		s.answered.note(a.key, a.known(), time.Now())
	}
}

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
	// newest, if not 0, is the version of shown, or a later one of which nothing
	// else is known; then readers load. Nothing older is answered any more.
	newest uint64
	// current is a moment after which what readers see was the newest, as far as
	// is known; confirmation is the question whether it still is, nil if none is
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

// leaves remembers what was answered of a state that leaves memory, for reads that
// are allowed to be stale, should its type become one of placement any. The caller has
// the lock.
func (s *shard) leaves(a *activation) {
	if s.readAge > 0 && a.loaded != nil { // where nobody else writes, no read is stale
		s.answered.note(a.key, a.known(), time.Now())
	}
}

// forget drops the state of an activation. The caller has the lock.
func (t *table) forget(s *shard, a *activation) {
	s.leaves(a)
	a.loaded, a.tip, a.shown, a.newest = nil, nil, nil, 0
	s.forgets++
	t.weigh(a)
}

package residency

import (
	"math"
	"time"
)

// Known is what a host knows of the state of an actor in memory: what is committed, what
// its turns have made of that since, and what others may have. Without batches, Tip and
// Loaded are the same. The zero value knows nothing: the actor is cold.
type Known struct {
	Loaded *Row // committed; nil: cold
	Tip    *Row // what the next turn runs on
	// shown is what a reader found in the store that is ahead of Loaded: what the
	// flight has not been answered for yet, or another writer's. Later readers see
	// no less.
	shown *Row
	// newest, if not 0, is the version of shown, or a later one about which nothing
	// else is known; then readers load. Nothing older is answered any more.
	newest uint64
	// Current is a moment after which what readers see is known to have been the
	// newest.
	Current time.Time
}

// someNewer stands for the newest version of an actor if only one fact is known of it: it
// differs from the version in memory.
const someNewer = math.MaxUint64

// Install makes l what is committed.
func (k *Known) Install(l *Row) {
	k.Loaded = l
	if k.newest <= l.Version {
		k.shown, k.newest = nil, 0
	}
}

// Keep makes l, which is committed and was asked for at a moment, all that the actor has.
func (k *Known) Keep(l *Row, asked time.Time) {
	k.Install(l)
	k.Tip, k.Current = l, asked
}

// Committed returns what readers see, nil if nothing is loaded that they may.
func (k *Known) Committed() *Row {
	if k.newest != 0 {
		return k.shown
	}
	return k.Loaded
}

// Outdated reports whether the store has something newer than what turns run on,
// which then is committed.
func (k *Known) Outdated() bool { return k.shown != nil || k.newest != 0 }

// Confirmed records that what readers see was the newest after a moment.
func (k *Known) Confirmed(asked time.Time) {
	if asked.After(k.Current) {
		k.Current = asked
	}
}

// Newest is the newest version that may have been answered, 0 if nothing is loaded or
// was heard of.
func (k *Known) Newest() uint64 {
	if k.Loaded == nil {
		return k.newest
	}
	return max(k.newest, k.Loaded.Version)
}

// Cost is what the rows count for in memory.
func (k *Known) Cost() int64 {
	cost := k.Tip.Cost() + k.shown.Cost()
	if k.Loaded != k.Tip {
		cost += k.Loaded.Cost()
	}
	return cost
}

// drop forgets all rows.
func (k *Known) drop() { k.Loaded, k.Tip, k.shown, k.newest = nil, nil, nil, 0 }

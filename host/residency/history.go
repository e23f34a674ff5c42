package residency

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// History is what is known beyond the actors in memory, of all actors that share a lock.
// The zero value is that of a host that just began.
type History struct {
	// Shared means that others write to the store.
	Shared    bool
	Answered  Answered
	Unsettled Unsettled
	// forgets counts the states that left memory, for readers that loaded one
	// meanwhile.
	forgets uint64
}

// Forgets returns a number that grows when anything that is being loaded may be older than
// what was known.
func (h *History) Forgets() uint64 { return h.forgets }

// Forget records that what is being loaded may be older than what was known.
func (h *History) Forget() { h.forgets++ }

// Leave records that the state of an actor leaves memory. The version that was answered is
// remembered for reads that are allowed to be stale, should its type become one of
// placement any; where nobody else writes, no read is stale.
func (h *History) Leave(key actor.Key, k *Known, now time.Time) {
	if h.Shared && k.Loaded != nil {
		h.Answered.Note(key, k.Newest(), now)
	}
	h.forgets++
}

// Drop forgets the state of an actor in memory.
func (h *History) Drop(key actor.Key, k *Known, now time.Time) {
	h.Leave(key, k, now)
	k.drop()
}

// CatchUp brings an actor without batches to the newest state that is known of: nothing,
// if it is only known that there is one. changed reports whether there was anything newer.
func (h *History) CatchUp(key actor.Key, k *Known, now time.Time) (changed bool) {
	switch {
	case k.Tip == nil:
		k.newest = 0
		return false
	case !k.Outdated():
		return false
	case k.shown != nil:
		l := k.shown
		k.Install(l)
		k.Tip = l
	default:
		h.Drop(key, k, now)
	}
	return true
}

// NoteNewer records that the store has a newer version of an actor. k is nil if the actor
// is not in memory.
func (h *History) NoteNewer(k *Known, version uint64) {
	if k == nil || k.Loaded == nil {
		h.forgets++ // what is being loaded may be older
		if k != nil {
			k.newest = max(k.newest, version)
		}
		return
	}
	if known := k.Committed(); known != nil && version <= known.Version {
		return
	}
	h.forgets++
	k.newest = max(k.newest, version)
	k.shown = nil
}

// NoteOther records that the store has another version than readers see, which
// is lower only if the row was swept and made anew.
func (h *History) NoteOther(k *Known, version uint64) {
	if known := k.Committed(); known != nil && version < known.Version {
		version = someNewer
	}
	h.NoteNewer(k, version)
}

// Show lets the readers of an actor with a state see l, which was asked for at a moment
// when Forgets was forgets, unless it is older than what they see.
func (h *History) Show(k *Known, l *Row, asked time.Time, forgets uint64) {
	known := k.Committed()
	switch {
	case l.Damage != nil:
	case known != nil && l.Version == known.Version:
		k.Confirmed(asked)
	case known != nil && l.Version < known.Version:
	case known == nil && h.forgets != forgets && l.Version < k.newest:
		// Something newer was heard of after it was asked for.
	case l.Version == k.Loaded.Version:
		k.shown, k.newest, k.Current = nil, 0, asked
	default:
		k.shown, k.newest, k.Current = l, l.Version, asked
	}
}

package residency

import (
	"math"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Answered remembers the versions that this host has answered lately of actors that
// it does not keep in memory, or no more: a store may answer a read that is allowed to be stale
// with something older, by actor.MaxStaleness at most. The shard's lock guards it.
type Answered struct {
	// recent are those since began, before the ones of the time until then, which
	// is actor.MaxStaleness long or longer.
	recent, before map[actor.Key]uint64
	began          time.Time
	full, wasFull  bool // recent, before do not have all of them
}

// maxAnswered bounds what a shard remembers; above it no read of its actors is
// allowed to be stale for a while.
const maxAnswered = 4096

// Note remembers a version that is being answered.
func (m *Answered) Note(key actor.Key, version uint64, now time.Time) {
	if now.Sub(m.began) > actor.MaxStaleness {
		m.before, m.recent, m.began = m.recent, nil, now
		m.wasFull, m.full = m.full, false
	}
	switch {
	case version <= m.recent[key]:
	case m.recent == nil:
		m.recent = map[actor.Key]uint64{key: version}
	case len(m.recent) < maxAnswered:
		m.recent[key] = version
	default:
		m.full = true
	}
}

// Least returns the version below which nothing of an actor may be answered.
func (m *Answered) Least(key actor.Key, now time.Time) uint64 {
	if now.Sub(m.began) > 2*actor.MaxStaleness {
		*m = Answered{}
	}
	if m.full || m.wasFull {
		return math.MaxUint64
	}
	return max(m.recent[key], m.before[key])
}

package ownership

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Clone returns a copy that shares nothing.
func (m *Member) Clone() *Member {
	c := *m
	c.owned, c.asked = maps.Clone(m.owned), maps.Clone(m.asked)
	return &c
}

// Clone returns a copy that shares nothing.
func (l *Leader) Clone() *Leader {
	c := *l
	c.hosts = make(map[placement.HostID]*knownHost, len(l.hosts))
	for id, h := range l.hosts {
		copied := *h
		c.hosts[id] = &copied
	}
	c.sticky = make(map[protocol.TypeName]map[string]tenure, len(l.sticky))
	for name, actors := range l.sticky {
		c.sticky[name] = maps.Clone(actors)
	}
	c.tenures = slices.Clone(l.tenures)
	return &c
}

// fingerprint gathers numbers, to be hashed.
type fingerprint struct {
	bytes []byte
	now   clock.Instant
}

// left is what is left of a time, nothing if it is over.
func (b *fingerprint) left(until clock.Instant) clock.Instant { return max(until-b.now, 0) }

func (b *fingerprint) add(numbers ...clock.Instant) {
	for _, n := range numbers {
		b.bytes = binary.LittleEndian.AppendUint64(b.bytes, uint64(n))
	}
}

func (*fingerprint) bit(v bool) clock.Instant {
	if v {
		return 1
	}
	return 0
}

// Fingerprint adds all that decides what m does next, for a single actor.
func (m *Member) Fingerprint(b *fingerprint) {
	b.add(b.left(m.until), b.bit(m.ended), clock.Instant(m.session.Number), clock.Instant(m.session.Epoch), clock.Instant(m.last), clock.Instant(m.epoch), clock.Instant(len(m.owned)), clock.Instant(len(m.asked)))
}

// Fingerprint adds all that decides what l does next, for a single actor.
func (l *Leader) Fingerprint(b *fingerprint) {
	b.add(clock.Instant(l.epoch), b.left(l.until), clock.Instant(l.missing))
	for _, id := range slices.Sorted(maps.Keys(l.hosts)) {
		h := l.hosts[id]
		b.bytes = append(b.bytes, id...)
		b.add(b.bit(h.awaited), b.bit(h.gone), clock.Instant(h.session), b.bit(h.claimed), clock.Instant(h.count))
	}
}

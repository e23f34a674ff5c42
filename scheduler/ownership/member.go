package ownership

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Member is what one host knows of its own right to run sticky actors: its lease, its
// session with a leader, and what it owns. It is pure state, for one goroutine at a
// time. The zero Member is not usable: [NewMember].
type Member struct {
	host    placement.HostID
	until   clock.Instant    // the host's own count of its lease
	ended   bool             // the row is gone
	session protocol.Session // Number 0: none
	last    uint64           // number of the newest session
	epoch   uint64           // newest that was met
	owned   map[actor.Key]struct{}
	asked   map[actor.Key]struct{} // in the present session, not answered
}

// NewMember returns the state of a host that has just registered; its lease begins with
// the first [Member.Renewed].
func NewMember(host placement.HostID) *Member {
	return &Member{host: host, owned: map[actor.Key]struct{}{}, asked: map[actor.Key]struct{}{}}
}

// Renewed notes that the host's row was renewed, by a statement sent at sent, for
// lease. An answer that overtakes a later one changes nothing.
func (m *Member) Renewed(sent clock.Instant, lease clock.Instant) {
	if !m.ended {
		m.until = max(m.until, sent+clock.Usable(lease))
	}
}

// End notes that the row is gone, or that the host gives it up: it owns nothing from
// now on. It returns what it owned.
func (m *Member) End() []actor.Key {
	keys := m.Owned()
	m.ended, m.until, m.session = true, 0, protocol.Session{}
	clear(m.owned)
	clear(m.asked)
	return keys
}

// Current reports whether the host's lease is known to hold: whether it may answer
// without a commit, and run what it owns.
func (m *Member) Current(now clock.Instant) bool { return !m.ended && now < m.until }

// Until returns when [Member.Current] ends unless the lease is renewed.
func (m *Member) Until() clock.Instant { return m.until }

// Connect begins a session with the leader of an epoch and returns it with the claims
// to send, before anything else, in it. It reports false if that leader is older than
// one already met, or the host has ended. What an earlier session asked for and was
// not told is void.
func (m *Member) Connect(epoch uint64) (protocol.Session, []actor.Key, bool) {
	if m.ended || epoch < m.epoch {
		return protocol.Session{}, nil, false
	}
	m.epoch = epoch
	m.last++
	m.session = protocol.Session{Host: m.host, Number: m.last, Epoch: epoch}
	clear(m.asked)
	return m.session, m.Owned(), true
}

// Disconnect ends a session, unless a later one has begun.
func (m *Member) Disconnect(s protocol.Session) {
	if m.session == s {
		m.session = protocol.Session{}
		clear(m.asked)
	}
}

// Ask notes that the host asks the leader for an actor, and returns the session to ask in. It
// reports false if there is no session, or if the host owns or has asked for the actor
// already.
func (m *Member) Ask(key actor.Key) (protocol.Session, bool) {
	_, owned := m.owned[key]
	_, asked := m.asked[key]
	if m.session.Number == 0 || owned || asked {
		return protocol.Session{}, false
	}
	m.asked[key] = struct{}{}
	return m.session, true
}

// Granted notes a grant that came in a session, and reports whether the host owns the
// actor by it. It does not when the session is over or the lease is: then the leader
// learns from the next claims, or from the row, that the host does not have it.
func (m *Member) Granted(s protocol.Session, key actor.Key, now clock.Instant) bool {
	if s != m.session {
		return false
	}
	if _, asked := m.asked[key]; !asked {
		return false
	}
	delete(m.asked, key)
	if m.ended {
		return false
	}
	m.owned[key] = struct{}{}
	return true
}

// Refused notes that another host owns what was asked for, or that the leader does not
// grant now.
func (m *Member) Refused(s protocol.Session, key actor.Key) {
	if s == m.session {
		delete(m.asked, key)
	}
}

// Release gives up an actor, after its last turn, and returns the session in which to tell
// the leader. It reports false if there is no session, or if the host does not own the actor.
func (m *Member) Release(key actor.Key) (protocol.Session, bool) {
	if _, owned := m.owned[key]; !owned {
		return protocol.Session{}, false
	}
	delete(m.owned, key)
	return m.session, m.session.Number != 0
}

// MayRun reports whether a turn of a sticky actor may begin here now.
func (m *Member) MayRun(key actor.Key, now clock.Instant) bool {
	_, owned := m.owned[key]
	return owned && m.Current(now)
}

// Owned returns what the host owns, in no order.
func (m *Member) Owned() []actor.Key {
	keys := make([]actor.Key, 0, len(m.owned))
	for k := range m.owned {
		keys = append(keys, k)
	}
	return keys
}

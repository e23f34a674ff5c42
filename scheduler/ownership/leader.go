package ownership

import (
	"cmp"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Leader is what the leader of one term knows: the hosts, their sessions, and which host owns
// which sticky actor. It is pure state, for one goroutine at a time; another term has another
// Leader. The zero Leader is not usable: [NewLeader].
type Leader struct {
	epoch uint64
	until clock.Instant // the leader's own count of its lease
	// resigned: the term is over, whatever is renewed.
	resigned bool
	hosts    map[placement.HostID]*knownHost
	// missing counts the hosts that were registered when the term began and have
	// neither claimed nor been cleared; -1 until they are known.
	missing int
	// sticky has the tenure of the owner of each actor. A tenure is void once its host has
	// another one. So a host's actors are free at once, however many they are; the entries are
	// removed together, when most of the table is void.
	sticky  map[protocol.TypeName]map[string]tenure
	tenures []placement.HostID // by tenure; empty: void
	entries int
	void    int // entries of void tenures, at most: some are taken over
}

// tenure numbers what one host owns by one session's claims and grants. They are not
// used again within a term, which would have to see 4 billion sessions.
type tenure uint32

// knownHost is what a leader knows of one host.
type knownHost struct {
	awaited bool   // counted in missing
	session uint64 // the newest; 0: none yet
	claimed bool   // its claims are complete
	gone    bool   // cleared: its ID never comes back
	tenure  tenure
	count   int // entries of its tenure
}

// NewLeader returns the state of a term that begins: its lease was taken by a statement
// sent at sent, for lease.
func NewLeader(epoch uint64, sent, lease clock.Instant) *Leader {
	l := &Leader{epoch: epoch, hosts: map[placement.HostID]*knownHost{}, missing: -1, sticky: map[protocol.TypeName]map[string]tenure{}}
	l.Renewed(sent, lease)
	return l
}

// Renewed notes that the leader's lease was renewed.
func (l *Leader) Renewed(sent, lease clock.Instant) { l.until = max(l.until, sent+clock.Usable(lease)) }

// Leading reports whether the term lasts, by the leader's own count. Outside of it
// nothing may be granted or cleared.
func (l *Leader) Leading(now clock.Instant) bool { return now < l.until && !l.resigned }

// Resign ends the term before its lease is given back.
func (l *Leader) Resign() { l.resigned = true }

// Epoch returns the term's number.
func (l *Leader) Epoch() uint64 { return l.epoch }

// Registered tells the hosts whose rows were read after the term's lease was taken.
// Those of the first reading are awaited before anything is granted. A host that is
// not among them any more is not forgotten: see [Leader.Cleared].
func (l *Leader) Registered(hosts []placement.HostID) {
	first := l.missing < 0
	if first {
		l.missing = 0
	}
	for _, id := range hosts {
		h := l.host(id)
		if first && !h.claimed && !h.gone {
			h.awaited = true
			l.missing++
		}
	}
}

func (l *Leader) host(id placement.HostID) *knownHost {
	h := l.hosts[id]
	if h == nil {
		h = &knownHost{}
		l.hosts[id] = h
	}
	return h
}

// Granting reports whether all that earlier leaders granted is known, so that this one
// may grant.
func (l *Leader) Granting(now clock.Instant) bool { return l.missing == 0 && l.Leading(now) }

// Missing returns the hosts that keep the leader from granting, in order.
func (l *Leader) Missing() []placement.HostID {
	var ids []placement.HostID
	for id, h := range l.hosts {
		if h.awaited {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Begin opens a session of a host, and reports false if it is of another epoch, older
// than one that was met, or of a host that was cleared. Whatever the host owned stays its own until
// [Leader.Claimed].
func (l *Leader) Begin(s protocol.Session) bool {
	h := l.host(s.Host)
	if h.gone || s.Epoch != l.epoch || s.Number <= h.session {
		return false
	}
	h.session, h.claimed = s.Number, false
	return true
}

// Claimed tells all that the host of a session owns as it began, and reports false if
// the session is over. Other actors that it was known to own are free. A claim to what
// another host owns is not given: it is returned, and the host must give the actor up.
func (l *Leader) Claimed(s protocol.Session, keys []actor.Key) (refused []actor.Key, ok bool) {
	h := l.hosts[s.Host]
	if h == nil || s.Epoch != l.epoch || s.Number != h.session || h.gone || h.claimed {
		return nil, false
	}
	l.vacate(h)
	l.tenures = append(l.tenures, s.Host)
	h.tenure = tenure(len(l.tenures) - 1)
	for _, key := range keys {
		if owner := l.Owner(key); owner != "" && owner != s.Host {
			refused = append(refused, key)
			continue
		}
		l.own(h, key)
	}
	h.claimed = true
	if h.awaited {
		h.awaited = false
		l.missing--
	}
	return refused, true
}

// Cleared notes that a host's row is gone: its lease was over when a leader removed it, or
// the host has left. All that the host owned is free.
func (l *Leader) Cleared(id placement.HostID) {
	h := l.host(id)
	if h.awaited {
		l.missing--
	}
	l.vacate(h)
	*h = knownHost{gone: true}
}

// Gone reports whether a host was cleared: no session of it begins in this term any more.
func (l *Leader) Gone(id placement.HostID) bool { h := l.hosts[id]; return h != nil && h.gone }

// Answer is the result of an acquisition.
type Answer struct {
	Granted bool
	Owner   placement.HostID // the host that owns the actor; empty: not known yet, ask again
}

// Acquire gives an actor to the host of a session, unless another owns it. It reports
// false if the session is over or its claims have not come: then nothing is answered.
func (l *Leader) Acquire(now clock.Instant, s protocol.Session, key actor.Key) (Answer, bool) {
	h := l.hosts[s.Host]
	if h == nil || s.Epoch != l.epoch || s.Number != h.session || !h.claimed {
		return Answer{}, false
	}
	if !l.Granting(now) {
		return Answer{}, true
	}
	if owner := l.Owner(key); owner != "" {
		return Answer{Granted: owner == s.Host, Owner: owner}, true
	}
	l.own(h, key)
	return Answer{Granted: true, Owner: s.Host}, true
}

// Release frees an actor that the host of a session gave up.
func (l *Leader) Release(s protocol.Session, key actor.Key) {
	h := l.hosts[s.Host]
	if h == nil || s.Epoch != l.epoch || s.Number != h.session || l.Owner(key) != s.Host {
		return
	}
	name := protocol.TypeOf(key)
	delete(l.sticky[name], key.ID)
	if len(l.sticky[name]) == 0 {
		delete(l.sticky, name)
	}
	h.count--
	l.entries--
}

// Owner returns the host that owns an actor; empty if the leader knows of none.
func (l *Leader) Owner(key actor.Key) placement.HostID {
	t, found := l.sticky[protocol.TypeOf(key)][key.ID]
	if !found {
		return ""
	}
	return l.tenures[t]
}

// own enters an actor that nobody else owns.
func (l *Leader) own(h *knownHost, key actor.Key) {
	name := protocol.TypeOf(key)
	actors := l.sticky[name]
	if actors == nil {
		actors = map[string]tenure{}
		l.sticky[name] = actors
	}
	was, found := actors[key.ID]
	switch {
	case !found:
		l.entries++
	case was == h.tenure:
		return
	default:
		l.void--
	}
	actors[key.ID] = h.tenure
	h.count++
}

// vacate makes all that a host owns free.
func (l *Leader) vacate(h *knownHost) {
	if h.count > 0 {
		l.tenures[h.tenure] = ""
		l.void += h.count
		h.count = 0
	}
	if l.void > minVoid && l.void > l.entries/2 {
		l.sweep()
	}
}

// minVoid is how many void entries are not worth a sweep.
const minVoid = 1024

// sweep removes void entries. It costs as much as the table has entries, which are less
// than twice those that became void since the last time.
func (l *Leader) sweep() {
	for name, actors := range l.sticky {
		for id, t := range actors {
			if l.tenures[t] == "" {
				delete(actors, id)
				l.entries--
				l.void--
			}
		}
		if len(actors) == 0 {
			delete(l.sticky, name)
		}
	}
}

// StickyEntry is a sticky actor and the host that owns it.
type StickyEntry struct {
	Key   actor.Key
	Owner placement.HostID
}

// List returns sticky actors of an app in order of type and ID, those after a key of it,
// n at most: of a type and an owner, or of all where they are empty. It looks at the
// whole table.
func (l *Leader) List(app, typ string, owner placement.HostID, after actor.Key, n int) []StickyEntry {
	var list []StickyEntry
	order := func(a, b StickyEntry) int {
		return cmp.Or(cmp.Compare(a.Key.Type, b.Key.Type), cmp.Compare(a.Key.ID, b.Key.ID))
	}
	for name, actors := range l.sticky {
		if name.App != app || typ != "" && name.Type != typ {
			continue
		}
		for id, t := range actors {
			e := StickyEntry{actor.Key{App: app, Type: name.Type, ID: id}, l.tenures[t]}
			if e.Owner == "" || owner != "" && e.Owner != owner || order(e, StickyEntry{Key: after}) <= 0 {
				continue
			}
			list = append(list, e)
			if len(list) >= 4*n+64 {
				slices.SortFunc(list, order)
				list = list[:n]
			}
		}
	}
	slices.SortFunc(list, order)
	return list[:min(n, len(list))]
}

// Owned returns how many sticky actors each host owns that has any.
func (l *Leader) Owned() map[placement.HostID]int {
	counts := map[placement.HostID]int{}
	for id, h := range l.hosts {
		if h.count > 0 {
			counts[id] = h.count
		}
	}
	return counts
}

// OwnedBy returns how many sticky actors a host owns; false if the leader cannot know, since
// the host has made no claims to it and was not cleared.
func (l *Leader) OwnedBy(id placement.HostID) (n int, known bool) {
	h := l.hosts[id]
	if h == nil {
		return 0, false
	}
	return h.count, h.claimed || h.count > 0 || h.gone
}

// Entries returns how many entries the table has, void ones among them.
func (l *Leader) Entries() (all, void int) { return l.entries, l.void }

//go:build !race

// One goroutine explores: the race detector would only make it slower.

package ownership

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// The model explores every history of two hosts, two schedulers, a database and the
// network between them, about one sticky actor, for any length of time: only the terms
// and the sessions are counted. One host is there from the start, the other registers
// at some time. The hosts and leaders are the real [Member] and [Leader]. A process that
// is frozen is one that takes no step; one that crashed never takes one again; so both
// are among the histories.
const (
	modelTick  clock.Instant = 50
	modelLease clock.Instant = 2 * modelTick
	modelTerms               = 2
)

var (
	modelSessions = flag.Int("model.sessions", 2, "how many sessions the hosts of the model open together")
	modelLeaves   = flag.Bool("model.leaves", false, "let the hosts of the model give up their rows")
)

var (
	modelActor = actor.Key{App: "a", Type: "T", ID: "x"}
	modelHosts = [2]placement.HostID{"h0", "h1"}
)

// sabotage is a rule of the protocol that a run of the model breaks on purpose: one
// that finds nothing then is worth nothing.
type sabotage int

const (
	asWritten       sabotage = iota
	grantsAtOnce             // a new leader does not wait for claims
	clearsEarly              // a row is cleared before its lease has run out
	renewsTheGone            // a host whose row is gone goes on
	takesOldGrants           // a grant of an earlier session is taken
	leadsForever             // a leader does not count its lease
	countsFromReply          // a host counts its lease from the answer, not from the request
)

// world is one state of everything.
type world struct {
	now    clock.Instant
	leader struct {
		holder int // -1: nobody yet
		epoch  uint64
		until  clock.Instant
	}
	rows [2]struct {
		later bool // its host has not registered yet
		gone  bool
		until clock.Instant
	}
	hosts    [2]*Member
	leaders  [2]*Leader // nil: never led
	sessions [2][]connection
	twice    bool // two hosts claimed the actor from one leader
}

// connection is a stream with what is under way on it. A stream that broke still
// delivers what had been sent, in order, or loses the rest.
type connection struct {
	session protocol.Session
	leader  int
	up      []message // to the leader
	down    []message
}

type message int

const (
	claimNothing message = iota
	claimActor
	acquire
	release
	granted
)

func (w *world) clone() *world {
	c := *w
	for i := range w.hosts {
		c.hosts[i] = w.hosts[i].Clone()
		if w.leaders[i] != nil {
			c.leaders[i] = w.leaders[i].Clone()
		}
		c.sessions[i] = slices.Clone(w.sessions[i])
		for j := range c.sessions[i] {
			s := &c.sessions[i][j]
			s.up, s.down = slices.Clone(s.up), slices.Clone(s.down)
		}
	}
	return &c
}

func (w *world) fingerprint() uint64 {
	b := fingerprint{bytes: make([]byte, 0, 512)}
	// Times count from now on: what is over is over, whenever it was.
	b.now = w.now
	b.add(b.left(w.leader.until), b.left(w.rows[0].until), b.left(w.rows[1].until))
	b.add(clock.Instant(w.leader.holder), clock.Instant(w.leader.epoch), b.bit(w.rows[0].gone), b.bit(w.rows[1].gone), b.bit(w.rows[1].later))
	for i := range w.hosts {
		w.hosts[i].Fingerprint(&b)
		if w.leaders[i] != nil {
			w.leaders[i].Fingerprint(&b)
		}
		for _, s := range w.sessions[i] {
			if len(s.up)+len(s.down) == 0 {
				continue // nothing comes of it any more but what is in the others
			}
			b.add(clock.Instant(s.session.Number), clock.Instant(s.session.Epoch), clock.Instant(s.leader), clock.Instant(len(s.up)))
			for _, m := range s.up {
				b.add(clock.Instant(m))
			}
			for _, m := range s.down {
				b.add(clock.Instant(m))
			}
			b.add(-1)
		}
	}
	return xxhash.Sum64(b.bytes)
}

// step is one thing that may happen next.
type step struct {
	name string // with who did it, as one or two numbers
	i, j int
	do   func(w *world)
}

// steps returns all that may happen next.
func (w *world) steps(broken sabotage, sessions int) []step {
	var steps []step
	may := func(possible bool, name string, i, j int, do func(w *world)) {
		if possible {
			steps = append(steps, step{name, i, j, do})
		}
	}
	may(true, "time passes", 0, 0, func(w *world) {
		w.now += modelTick
		for _, l := range w.leaders {
			if l != nil && broken == leadsForever {
				l.Renewed(w.now, modelLease)
			}
		}
	})
	for i := range w.hosts {
		w.hostSteps(may, i, broken, sessions)
		w.leaderSteps(may, i, broken)
		for j := range w.sessions[i] {
			w.sessionSteps(may, i, j, broken)
		}
	}
	return steps
}

// mayFunc adds a step if it is possible.
type mayFunc = func(possible bool, name string, i, j int, do func(*world))

func (w *world) hostSteps(may mayFunc, i int, broken sabotage, sessions int) {
	if w.rows[i].later {
		may(true, "host %d registers", i, 0, func(w *world) {
			w.rows[i].later, w.rows[i].until = false, w.now+modelLease
			w.hosts[i].Renewed(w.now, modelLease)
		})
		return
	}
	// A renewal whose answer is lost, or late, leaves the host with less than it has.
	row := w.rows[i]
	useful := row.gone || w.hosts[i].Until() < w.now+clock.Usable(modelLease)
	may(useful && !w.hosts[i].ended, "host %d renews", i, 0, func(w *world) {
		row := &w.rows[i]
		sent := w.now
		if broken == countsFromReply {
			sent += modelTick
		}
		if row.gone && broken != renewsTheGone {
			w.hosts[i].End()
			return
		}
		if !row.gone {
			row.until = w.now + modelLease
		}
		w.hosts[i].Renewed(sent, modelLease)
	})
	for l := range w.leaders {
		there := w.leaders[l] != nil && w.hosts[i].session.Number > 0 && w.hosts[i].session.Epoch == w.leaders[l].Epoch()
		may(w.leaders[l] != nil && !there && int(w.hosts[0].last+w.hosts[1].last) < sessions, "host %d connects to leader %d", i, l, func(w *world) {
			s, keys, ok := w.hosts[i].Connect(w.leaders[l].Epoch())
			if !ok {
				return
			}
			claims := claimNothing
			if len(keys) > 0 {
				claims = claimActor
			}
			w.sessions[i] = append(w.sessions[i], connection{session: s, leader: l, up: []message{claims}})
		})
	}
	may(w.hosts[i].session.Number != 0, "host %d asks for the actor", i, 0, func(w *world) {
		if s, ok := w.hosts[i].Ask(modelActor); ok {
			w.send(i, s, acquire)
		}
	})
	// As one that leaves does.
	idle := !row.gone && !w.hosts[i].ended && len(w.hosts[i].owned) == 0
	may(*modelLeaves && idle, "host %d gives its row up", i, 0, func(w *world) {
		w.hosts[i].End()
		w.rows[i].gone = true
	})
	may(len(w.hosts[i].owned) > 0, "host %d releases the actor", i, 0, func(w *world) {
		if s, ok := w.hosts[i].Release(modelActor); ok {
			w.send(i, s, release)
		}
	})
}

func (w *world) send(i int, s protocol.Session, m message) {
	for j := range w.sessions[i] {
		if w.sessions[i][j].session == s {
			w.sessions[i][j].up = append(w.sessions[i][j].up, m)
		}
	}
}

func (w *world) leaderSteps(may mayFunc, i int, broken sabotage) {
	// The first term is of s0: that the schedulers are alike halves the histories.
	may(w.now >= w.leader.until && w.leader.epoch < modelTerms && (i == 0 || w.leader.epoch > 0), "leader %d is elected", i, 0, func(w *world) {
		w.leader.holder, w.leader.epoch, w.leader.until = i, w.leader.epoch+1, w.now+modelLease
		w.leaders[i] = NewLeader(w.leader.epoch, w.now, modelLease)
		var there []placement.HostID
		for j, row := range w.rows {
			if !row.gone && !row.later {
				there = append(there, modelHosts[j])
			}
		}
		w.leaders[i].Registered(there)
		if broken == grantsAtOnce {
			w.leaders[i].missing = 0
			for _, h := range w.leaders[i].hosts {
				h.awaited = false
			}
		}
	})
	l := w.leaders[i]
	if l == nil {
		return
	}
	inForce := w.leader.holder == i && w.leader.epoch == l.Epoch()
	for j, row := range w.rows {
		over := w.now >= row.until || broken == clearsEarly
		may(!row.gone && !row.later && over && inForce && l.Leading(w.now), "leader %d clears host %d", i, j, func(w *world) {
			w.rows[j].gone = true
			w.leaders[i].Cleared(modelHosts[j])
		})
		known := l.hosts[modelHosts[j]]
		may(*modelLeaves && row.gone && known != nil && !known.gone, "leader %d reads that the row of host %d is gone", i, j, func(w *world) {
			w.leaders[i].Cleared(modelHosts[j])
		})
	}
}

func (w *world) sessionSteps(may mayFunc, i, j int, broken sabotage) {
	s := &w.sessions[i][j]
	may(len(s.up) > 0, "host %d, connection %d: the leader receives", i, j, func(w *world) {
		s := &w.sessions[i][j]
		m := s.up[0]
		s.up = s.up[1:]
		l := w.leaders[s.leader]
		switch m {
		case claimNothing, claimActor:
			if l.Begin(s.session) {
				var keys []actor.Key
				if m == claimActor {
					keys = []actor.Key{modelActor}
				}
				if taken, _ := l.Claimed(s.session, keys); len(taken) > 0 {
					w.twice = true
				}
			}
		case acquire:
			switch a, ok := l.Acquire(w.now, s.session, modelActor); {
			case !ok:
			case a.Granted:
				s.down = append(s.down, granted)
			default:
				w.hosts[i].Refused(s.session, modelActor)
			}
		case release:
			l.Release(s.session, modelActor)
		}
	})
	may(len(s.down) > 0, "host %d, connection %d: the host receives", i, j, func(w *world) {
		s := &w.sessions[i][j]
		s.down = s.down[1:]
		h := w.hosts[i]
		if broken == takesOldGrants && !h.ended {
			h.owned[modelActor] = struct{}{}
		} else {
			h.Granted(s.session, modelActor, w.now)
		}
	})
	// What is under way on a stream that broke may still arrive. What is lost never does:
	// a history without its arrival.
	may(w.hosts[i].session == s.session, "host %d gives connection %d up", i, j, func(w *world) { w.hosts[i].Disconnect(w.sessions[i][j].session) })
}

// owners returns who may begin a turn of the actor now.
func (w *world) owners() (ids []placement.HostID) {
	for i, h := range w.hosts {
		if h.MayRun(modelActor, w.now) {
			ids = append(ids, modelHosts[i])
		}
	}
	return ids
}

// node is a state that was reached, and how.
type node struct {
	w    *world
	from *node
	step step
	at   clock.Instant
}

func (n *node) history() string {
	if n.from == nil {
		return "start"
	}
	args := []any{n.step.i, n.step.j}[:strings.Count(n.step.name, "%d")]
	return fmt.Sprintf("%s\n%4d %s", n.from.history(), n.at/modelTick, fmt.Sprintf(n.step.name, args...))
}

// explore visits every state in breadth, until there are two owners, which it returns
// with the shortest history that leads there.
func explore(t *testing.T, broken sabotage, sessions int, without ...string) (bad *node, states int, owned int) {
	t.Helper()
	start := &world{}
	start.leader.holder = -1
	for i, id := range modelHosts {
		start.hosts[i] = NewMember(id)
	}
	start.rows[0].until = modelLease
	start.hosts[0].Renewed(0, modelLease)
	start.rows[1].later = true
	seen := map[uint64]struct{}{start.fingerprint(): {}}
	queue := []*node{{w: start}}
	for len(queue) > 0 {
		n := queue[0]
		queue[0] = nil
		queue = queue[1:]
		for _, s := range n.w.steps(broken, sessions) {
			if slices.Contains(without, s.name) {
				continue
			}
			next := &node{w: n.w.clone(), from: n, step: step{name: s.name, i: s.i, j: s.j}, at: n.w.now}
			s.do(next.w)
			f := next.w.fingerprint()
			if _, there := seen[f]; there {
				continue
			}
			seen[f] = struct{}{}
			switch owners := next.w.owners(); {
			case len(owners) > 1 || next.w.twice:
				return next, len(seen), owned
			case len(owners) == 1:
				owned++
			}
			queue = append(queue, next)
		}
		n.w = nil
	}
	return nil, len(seen), owned
}

// TestModelOneOwner: in no history may two hosts begin a turn of a sticky actor.
func TestModelOneOwner(t *testing.T) {
	t.Parallel()
	bad, states, owned := explore(t, asWritten, *modelSessions)
	if bad != nil {
		t.Fatalf("two owners:\n%s", bad.history())
	}
	if owned == 0 {
		t.Fatal("in no state does a host own the actor: the model explores nothing")
	}
	t.Logf("%d states, in %d of which one host may run the actor", states, owned)
}

// TestModelFindsFaults: each rule of the protocol is needed: without it the model
// finds a history with two owners. Steps that no such history needs are left out, since
// the search is in breadth.
func TestModelFindsFaults(t *testing.T) {
	t.Parallel()
	const (
		releases = "host %d releases the actor"
		gives    = "host %d gives connection %d up"
	)
	for name, tt := range map[string]struct {
		broken   sabotage
		sessions int
		without  []string
	}{
		"a leader that does not wait for claims":   {grantsAtOnce, 2, []string{releases, gives}},
		"a row cleared before its lease is over":   {clearsEarly, 2, []string{releases, gives}},
		"a host that goes on without its row":      {renewsTheGone, 2, []string{releases, gives}},
		"a host that takes grants of old sessions": {takesOldGrants, 3, []string{releases, "time passes"}},
		"a leader that outlives its lease":         {leadsForever, 3, []string{releases, gives}},
		"a lease counted from the answer":          {countsFromReply, 2, []string{releases, gives}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, states, _ := explore(t, tt.broken, tt.sessions, tt.without...)
			if bad == nil {
				t.Fatalf("%d states and no fault", states)
			}
			t.Logf("after %d states:\n%s", states, bad.history())
		})
	}
}

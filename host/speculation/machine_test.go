package speculation_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/host/speculation"
)

type (
	member  = speculation.Member[*call, *payload]
	batch   = speculation.Batch[*call, *payload]
	held    = speculation.Dependent[*call, *payload]
	actions = speculation.Actions[*call, *payload]
)

// payload is what a commit carries: the turns that it adds, by actor.
type payload struct{ turns map[int][]string }

// call is one call of a history: where it is, and what it has seen when it last ran.
type call struct {
	name  string
	actor int
	where string // "queued", "running", "held", "behind" or "answered"
	seen  []string
	runs  int
}

// shell performs the actions of a history as a host does, on actors that keep the
// names of the turns that changed them.
type shell struct {
	t       *testing.T
	members []*member
	stored  [][]string // what is durable, by actor
	tips    [][]string // what the next turn runs on; nil: to be read
	queues  [][]*call
	running []*call
	calls   []*call
	flights []*batch
	clock   time.Time
	history []string
}

func newShell(t *testing.T, actors int) *shell {
	s := &shell{t: t, clock: time.Unix(1, 0), stored: make([][]string, actors), tips: make([][]string, actors),
		queues: make([][]*call, actors), running: make([]*call, actors)}
	for i := range actors {
		s.members = append(s.members, new(member))
		s.tips[i] = []string{}
	}
	return s
}

func (s *shell) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(s.history, ", "))
}

func (s *shell) now() time.Time {
	s.clock = s.clock.Add(time.Second)
	return s.clock
}

// begin runs the next call of an actor, a new one if none waits.
func (s *shell) begin(at int) bool {
	m := s.members[at]
	if s.running[at] != nil || !m.MayBegin() {
		return false
	}
	if len(s.queues[at]) == 0 {
		c := &call{name: fmt.Sprint("c", len(s.calls)), actor: at, where: "queued"}
		s.calls = append(s.calls, c)
		s.queues[at] = append(s.queues[at], c)
	}
	c := s.queues[at][0]
	s.queues[at] = s.queues[at][1:]
	c.where, s.running[at] = "running", c
	c.runs++
	if s.tips[at] == nil {
		if !m.Committed() {
			s.fail("%s begins on no state, with batches", c.name)
		}
		s.tips[at] = slices.Clone(s.stored[at])
	}
	c.seen = slices.Clone(s.tips[at])
	m.Begin()
	return true
}

// end ends the turn that runs. A turn that changed something may have changed
// another actor as well, as a chain does, whose turn is not running.
func (s *shell) end(at int, role speculation.Role, also []int) bool {
	c, m := s.running[at], s.members[at]
	if c == nil {
		return false
	}
	for _, other := range also {
		if s.running[other] != nil || !s.members[other].MayBegin() {
			return false
		}
	}
	s.running[at] = nil
	behind, dropped := m.End()
	if dropped != nil {
		s.rerun(append(behind, c))
		return true
	}
	if len(behind) > 0 {
		s.fail("calls wait behind a turn whose state was not dropped")
	}
	c.where = "held"
	switch role {
	case speculation.Observer:
		if b := m.Latest(); b != nil {
			b.Hold(held{Call: c, Home: m})
			return true
		}
		s.answer(c)
	default:
		members := []*member{m}
		for _, other := range also {
			members = append(members, s.members[other])
			if s.tips[other] == nil {
				s.tips[other] = slices.Clone(s.stored[other])
			}
		}
		b := speculation.Fold(members, held{Call: c, Home: m, Role: role},
			func() *payload { return &payload{turns: make(map[int][]string)} },
			func(into, from *payload) {
				for actor, turns := range from.turns {
					into.turns[actor] = append(into.turns[actor], turns...)
				}
			})
		for _, actor := range append([]int{at}, also...) {
			b.Payload.turns[actor] = append(b.Payload.turns[actor], c.name)
			s.tips[actor] = append(slices.Clip(s.tips[actor]), c.name)
		}
		if l := m.Launch(s.now()); l != nil {
			s.flights = append(s.flights, l)
		}
	}
	return true
}

func (s *shell) rerun(calls []*call) {
	for i := len(calls) - 1; i >= 0; i-- {
		c := calls[i]
		if c.where == "queued" || c.where == "answered" {
			s.fail("%s goes again, and is %s", c.name, c.where)
		}
		c.where = "queued"
		s.queues[c.actor] = append([]*call{c}, s.queues[c.actor]...)
	}
}

// answer judges an answer: all that its call has seen, and done, is stored.
func (s *shell) answer(c *call) {
	if c.where != "held" {
		s.fail("%s is answered, and is %s", c.name, c.where)
	}
	c.where = "answered"
	stored := s.stored[c.actor]
	if len(c.seen) > len(stored) || !slices.Equal(c.seen, stored[:len(c.seen)]) {
		s.fail("%s is answered after it saw %v, stored is %v", c.name, c.seen, stored)
	}
}

// land ends the oldest flight of an actor.
func (s *shell) land(at int, o speculation.Outcome) bool {
	b := s.members[at].Flight()
	if b == nil {
		return false
	}
	s.flights = slices.DeleteFunc(s.flights, func(f *batch) bool { return f == b })
	if o == speculation.Applied {
		for actor, turns := range b.Payload.turns {
			s.stored[actor] = append(s.stored[actor], turns...)
		}
	}
	s.perform(b.Landed(o, errors.New("not applied"), s.now()))
	return true
}

func (s *shell) perform(a actions) {
	index := func(m *member) int { return slices.Index(s.members, m) }
	for _, m := range a.Dropped {
		if !m.Committed() {
			s.fail("a member is to be read anew that has batches")
		}
		s.tips[index(m)] = nil
	}
	for _, m := range a.Rewound {
		if m.MayBegin() {
			s.fail("a turn of actor %d may begin while what its tip went back to is under way", index(m))
		}
		s.tips[index(m)] = append(slices.Clone(s.stored[index(m)]), m.Flight().Payload.turns[index(m)]...)
	}
	last := -1
	var calls []*call
	for _, h := range a.Rerun {
		if at := slices.Index(s.calls, h.Call); at < last && len(s.members) == 1 {
			s.fail("%s goes again after a later one", h.Call.name)
		} else {
			last = at
		}
		calls = append(calls, h.Call)
	}
	s.rerun(calls)
	for _, c := range slices.Concat(a.Answer, a.Confirm) {
		s.answer(c)
	}
	for _, c := range a.Fail {
		c.where = "answered"
	}
	s.flights = append(s.flights, a.Launch...)
}

// check judges the invariants that hold between any two events.
func (s *shell) check() {
	for i, m := range s.members {
		if f := m.Flight(); f != nil && !slices.Contains(s.flights, f) {
			s.fail("actor %d has a flight that was not launched", i)
		}
		if m.Pending() != nil && len(s.flights) == 0 {
			s.fail("actor %d has a pending batch behind nothing", i)
		}
	}
	names := make(map[string]bool)
	for i, stored := range s.stored {
		clear(names)
		for _, name := range stored {
			if names[name] {
				s.fail("%s is stored twice at actor %d: %v", name, i, stored)
			}
			names[name] = true
		}
	}
}

// finish lets all flights land and all calls run, and judges that every call is
// answered.
func (s *shell) finish() {
	for round := 0; ; round++ {
		if round > 100 {
			s.fail("it does not come to an end")
		}
		busy := false
		for at := range s.members {
			if s.running[at] != nil {
				busy = s.end(at, speculation.Effect, nil) || busy
			}
			busy = s.land(at, speculation.Applied) || busy
			if len(s.queues[at]) > 0 {
				busy = s.begin(at) || busy
			}
		}
		s.check()
		if !busy {
			break
		}
	}
	for _, c := range s.calls {
		if c.where != "answered" {
			s.fail("%s is %s at the end", c.name, c.where)
		}
	}
	for _, c := range s.calls {
		for i := range s.members {
			if n := len(slices.DeleteFunc(slices.Clone(s.stored[i]), func(name string) bool { return name != c.name })); n > 1 {
				s.fail("%s took effect %d times", c.name, n)
			}
		}
	}
}

// event is one step of a history; it reports false if it cannot happen.
type event struct {
	name string
	do   func(s *shell) bool
}

func events(actors int) (all []event) {
	for at := range actors {
		all = append(all,
			event{fmt.Sprint("begin ", at), func(s *shell) bool { return s.begin(at) }},
			event{fmt.Sprint("look ", at), func(s *shell) bool { return s.end(at, speculation.Observer, nil) }},
			event{fmt.Sprint("write ", at), func(s *shell) bool { return s.end(at, speculation.Effect, nil) }},
			event{fmt.Sprint("applied ", at), func(s *shell) bool { return s.land(at, speculation.Applied) }},
			event{fmt.Sprint("refused ", at), func(s *shell) bool { return s.land(at, speculation.Refused) }},
		)
		if actors == 1 {
			all = append(all,
				event{"fail", func(s *shell) bool { return s.end(at, speculation.Failure, nil) }},
				event{"lost", func(s *shell) bool { return s.land(at, speculation.Failed) }},
				event{"settle", func(s *shell) bool {
					b := s.members[at].Flight()
					if b == nil || s.members[at].Settling() {
						return false
					}
					b.Settle()
					return true
				}})
			continue
		}
		var others []int
		for other := range actors {
			if other != at {
				others = append(others, other)
			}
		}
		all = append(all, event{fmt.Sprint("chain ", at), func(s *shell) bool { return s.end(at, speculation.Effect, others) }})
	}
	return all
}

// TestEveryHistory plays every history of a few events, on one actor and on actors
// whose turns form chains, and lets each come to its end.
func TestEveryHistory(t *testing.T) {
	for _, tc := range []struct{ actors, length int }{{1, 9}, {2, 7}, {3, 5}} {
		t.Run(fmt.Sprint(tc.actors, " actors"), func(t *testing.T) {
			length := tc.length
			if testing.Short() {
				length -= 2
			}
			all, played := events(tc.actors), 0
			var play func(prefix []int)
			play = func(prefix []int) {
				s := newShell(t, tc.actors)
				for _, i := range prefix {
					s.history = append(s.history, all[i].name)
					if !all[i].do(s) {
						return
					}
					s.check()
				}
				played++
				if len(prefix) == length {
					s.finish()
					return
				}
				for i := range all {
					play(append(slices.Clip(prefix), i))
				}
			}
			play(nil)
			t.Logf("%d histories", played)
		})
	}
}

// TestSeenTooEarly: what a batch does not prove of an observer is held on.
func TestSeenTooEarly(t *testing.T) {
	m, launched := new(member), time.Unix(10, 0)
	c := &call{}
	speculation.Fold([]*member{m}, held{Call: &call{}, Home: m, Role: speculation.Effect}, func() *payload { return nil }, nil)
	b := m.Launch(launched)
	for _, since := range []time.Time{{}, launched.Add(-1), launched, launched.Add(1)} {
		b.Hold(held{Call: c, Home: m, Since: since})
	}
	if a := b.Landed(speculation.Applied, nil, launched.Add(5)); len(a.Later) != 2 || len(a.Answer) != 3 || !m.Committed() {
		t.Errorf("%d are held on, %d answered", len(a.Later), len(a.Answer))
	}
}

// TestRewound: a member whose pending batch is lost with another member's state goes
// back to what its flight carries, and no turn of it begins before that has landed.
func TestRewound(t *testing.T) {
	for _, o := range []speculation.Outcome{speculation.Applied, speculation.Refused, speculation.Failed} {
		a, b := new(member), new(member)
		none := func() *payload { return nil }
		write := func(name string, members ...*member) *call {
			c := &call{name: name}
			speculation.Fold(members, held{Call: c, Home: members[0], Role: speculation.Effect}, none, func(_, _ *payload) {})
			return c
		}
		alone := write("alone", a)
		flight := a.Launch(time.Unix(1, 0))
		write("other", b)
		refused := b.Launch(time.Unix(1, 0))
		chain := write("chain", a, b) // behind both
		if !a.MayBegin() || !b.MayBegin() {
			t.Fatal("a turn has to wait for a commit")
		}
		did := refused.Landed(speculation.Refused, errors.New("stale"), time.Unix(2, 0))
		if !slices.Equal(did.Rewound, []*member{a}) || !slices.Equal(did.Dropped, []*member{b}) || len(did.Lost) != 1 {
			t.Fatalf("rewound %v, dropped %v, lost %v", did.Rewound, did.Dropped, did.Lost)
		}
		if len(did.Rerun) != 2 || did.Rerun[1].Call != chain {
			t.Errorf("%v goes again", did.Rerun)
		}
		if a.MayBegin() || !b.MayBegin() || a.Flight() != flight {
			t.Errorf("a may begin: %t, b: %t", a.MayBegin(), b.MayBegin())
		}
		after := flight.Landed(o, errors.New("not applied"), time.Unix(3, 0))
		if !a.MayBegin() || !a.Committed() {
			t.Errorf("outcome %d: no turn may begin after the flight", o)
		}
		if answered := slices.Contains(after.Answer, alone); answered != (o == speculation.Applied) {
			t.Errorf("outcome %d: answered %t", o, answered)
		}
	}
}

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
	member  = speculation.Member[int, *call, *payload]
	batch   = speculation.Batch[int, *call, *payload]
	held    = speculation.Dependent[int, *call, *payload]
	actions = speculation.Actions[int, *call, *payload]
)

// payload is what a commit carries: the turns that it adds, by actor, and how many each
// actor has before, which is its fence.
type payload struct {
	turns map[int][]string
	fence map[int]int
}

// call is one call of a history: where it is, which actors its turn has, and what it has
// seen of each when it last ran.
type call struct {
	name   string
	actor  int
	actors []int  // its own first; more than one in a chain
	where  string // "queued", "running", "held" or "answered"
	seen   map[int][]string
	role   speculation.Role // since it is held
	runs   int
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
		s.members = append(s.members, &member{Of: i})
		s.stored[i], s.tips[i] = []string{}, []string{}
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
	c.where, c.actors, c.seen = "running", nil, make(map[int][]string)
	c.runs++
	s.enter(at, c)
	return true
}

// enter gives an actor to the turn of a call.
func (s *shell) enter(at int, c *call) {
	m := s.members[at]
	s.running[at] = c
	if s.tips[at] == nil {
		if !m.Committed() {
			s.fail("%s begins on no state, with batches", c.name)
		}
		s.tips[at] = slices.Clone(s.stored[at])
	}
	c.actors, c.seen[at] = append(c.actors, at), slices.Clone(s.tips[at])
	m.Begin()
}

// enlist lets the turn that runs at an actor have another one as well, whose turn it is.
func (s *shell) enlist(at, other int) bool {
	c := s.running[at]
	if c == nil || c.actor != at || s.running[other] != nil || !s.members[other].MayBegin() || len(s.queues[other]) > 0 {
		return false
	}
	s.enter(other, c)
	return true
}

// end ends the turn that runs at an actor, and at those that it has enlisted. One that
// changed something changed all of them, or, with alone, its own actor.
func (s *shell) end(at int, role speculation.Role, alone bool) bool {
	c := s.running[at]
	if c == nil || c.actor != at || alone && len(c.actors) == 1 {
		return false
	}
	var members []*member
	lost, committed := false, true
	for _, actor := range c.actors {
		m := s.members[actor]
		members, s.running[actor] = append(members, m), nil
		behind, dropped := m.End()
		if dropped == nil && len(behind) > 0 {
			s.fail("calls wait behind a turn whose state was not dropped")
		}
		lost, committed = lost || dropped != nil, committed && m.Committed()
		if actor == at && dropped != nil {
			behind = append(behind, c)
		}
		s.rerun(behind)
	}
	if lost {
		if c.where != "queued" { // a member of its own was not dropped
			s.rerun([]*call{c})
		}
		return true
	}
	if role == speculation.Observer && len(members) > 1 {
		role = speculation.Question
	}
	c.where, c.role = "held", role
	switch {
	case role != speculation.Effect && role != speculation.Failure && committed:
		s.answer(c)
		return true
	case role == speculation.Observer:
		members[0].Latest().Add(held{Call: c, Home: members[0]})
		return true
	}
	b := speculation.Fold(members, held{Call: c, Home: members[0], Role: role},
		func() *payload { return &payload{turns: make(map[int][]string), fence: make(map[int]int)} },
		func(into, from *payload) {
			for actor, fence := range from.fence {
				into.turns[actor], into.fence[actor] = from.turns[actor], fence
			}
		})
	for _, actor := range c.actors {
		if _, ok := b.Payload.fence[actor]; !ok {
			b.Payload.fence[actor] = len(s.tips[actor])
		}
		if role == speculation.Effect && (actor == at || !alone) {
			b.Payload.turns[actor] = append(b.Payload.turns[actor], c.name)
			s.tips[actor] = append(slices.Clip(s.tips[actor]), c.name)
		}
	}
	if l := members[0].Launch(s.now()); l != nil {
		s.flights = append(s.flights, l)
	}
	return true
}

// outdated ends a turn whose actor, all committed, turns out to be older than what is
// stored.
func (s *shell) outdated(at int) bool {
	c, m := s.running[at], s.members[at]
	if c == nil || len(c.actors) > 1 || !m.Committed() || m.Dropped() != nil {
		return false
	}
	s.running[at] = nil
	m.End()
	c.where = "held"
	s.perform(speculation.Drop([]*member{m}, []held{{Call: c, Home: m}}, errors.New("newer")))
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
	for actor, seen := range c.seen {
		stored := s.stored[actor]
		if len(seen) > len(stored) || !slices.Equal(seen, stored[:len(seen)]) {
			s.fail("%s is answered after it saw %v of actor %d, stored is %v", c.name, seen, actor, stored)
		}
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
		for actor, fence := range b.Payload.fence {
			if len(s.stored[actor]) != fence {
				s.fail("what is committed rests on %d turns of actor %d, stored is %v", fence, actor, s.stored[actor])
			}
		}
		for actor, turns := range b.Payload.turns {
			s.stored[actor] = append(s.stored[actor], turns...)
		}
	}
	check := b.Check()
	did := b.Landed(o, errors.New("not applied"), s.now())
	for _, c := range did.Fail {
		if c.role == speculation.Observer || c.role == speculation.Question && !check {
			s.fail("%s fails, which changed nothing", c.name)
		}
	}
	s.perform(did)
	return true
}

func (s *shell) perform(a actions) {
	for _, m := range a.Dropped {
		if !m.Committed() {
			s.fail("a member is to be read anew that has batches")
		}
		s.tips[m.Of] = nil
	}
	for _, m := range a.Rewound {
		if m.MayBegin() {
			s.fail("a turn of actor %d may begin while what its tip went back to is under way", m.Of)
		}
		s.tips[m.Of] = append(slices.Clone(s.stored[m.Of]), m.Flight().Payload.turns[m.Of]...)
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
		if f := m.Flight(); f != nil && f.Check() && len(f.Payload.turns) > 0 {
			s.fail("actor %d has a check that carries %v", i, f.Payload.turns)
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
				busy = s.end(at, speculation.Effect, false) || busy
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
		add := func(name string, do func(s *shell) bool) {
			all = append(all, event{fmt.Sprint(name, " ", at), do})
		}
		add("begin", func(s *shell) bool { return s.begin(at) })
		add("look", func(s *shell) bool { return s.end(at, speculation.Observer, false) })
		add("write", func(s *shell) bool { return s.end(at, speculation.Effect, false) })
		add("applied", func(s *shell) bool { return s.land(at, speculation.Applied) })
		add("refused", func(s *shell) bool { return s.land(at, speculation.Refused) })
		if actors > 1 {
			add("write alone", func(s *shell) bool { return s.end(at, speculation.Effect, true) })
			add("enlist", func(s *shell) bool { return s.enlist(at, (at+1)%actors) })
		}
		if actors < 3 {
			add("fail", func(s *shell) bool { return s.end(at, speculation.Failure, false) })
			add("lost", func(s *shell) bool { return s.land(at, speculation.Failed) })
			add("outdated", func(s *shell) bool { return s.outdated(at) })
			add("settle", func(s *shell) bool {
				b := s.members[at].Flight()
				if b == nil || s.members[at].Settling() {
					return false
				}
				b.Settle()
				return true
			})
		}
	}
	return all
}

// TestEveryHistory plays every history of a few events, on one actor and on actors
// whose turns form chains, and lets each come to its end. Some begin with a flight and a
// pending batch at each actor, which a chain joins.
func TestEveryHistory(t *testing.T) {
	busy := []string{
		"begin 0", "write 0", "begin 0", "write 0", "begin 1", "write 1", "begin 1", "write 1",
		"begin 0", "enlist 0",
	}
	asked := []string{"begin 0", "write 0", "begin 0", "enlist 0", "look 0"}
	for _, tc := range []struct {
		actors, length int
		before         []string
	}{{1, 9, nil}, {2, 7, nil}, {2, 5, busy}, {2, 6, asked}, {3, 6, nil}, {3, 3, append(asked, "begin 2", "write 2", "begin 2", "write 2", "begin 1", "enlist 1")}} {
		t.Run(fmt.Sprint(tc.actors, " actors after ", len(tc.before), " events"), func(t *testing.T) {
			length := tc.length
			if testing.Short() {
				length -= 2
			}
			all, played := events(tc.actors), 0
			var before []int
			for _, name := range tc.before {
				before = append(before, slices.IndexFunc(all, func(e event) bool { return e.name == name }))
			}
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
				if len(prefix) == len(before)+length {
					s.finish()
					return
				}
				for i := range all {
					play(append(slices.Clip(prefix), i))
				}
			}
			play(before)
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
		b.Add(held{Call: c, Home: m, Since: since})
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

package speculation

import (
	"slices"
	"time"
)

// Member is one activation: calls are of type C, what a batch commits is a P. The
// zero value is a member without batches. A Member and the batches that it is in
// are for one goroutine at a time.
type Member[A, C, P any] struct {
	// Of is the caller's own: what the member stands for.
	Of A

	flight, pending *Batch[A, C, P]
	settling        bool // its flight's outcome is being found out
	rewound         bool // its tip went back to what its flight carries
	running         bool
	// dropped is why the state was dropped under the turn that runs; behind are the
	// calls that go again before that one.
	dropped error
	behind  []C
}

// Batch is the turns that share one commit, and the calls that rest on it.
type Batch[A, C, P any] struct {
	// Payload is the caller's own.
	Payload    P
	members    []*Member[A, C, P]
	dependents []Dependent[A, C, P]
	effects    int // calls whose effects it carries
	began      time.Time

	// What members and dependents are made in, which are one each most of the time.
	member    [1]*Member[A, C, P]
	dependent [1]Dependent[A, C, P]
}

// Dependent is a call whose answer rests on a batch.
type Dependent[A, C, P any] struct {
	Call C
	// Home is the member whose turn it is: where it goes again.
	Home *Member[A, C, P]
	Role Role
	// Since is the moment after which the state must have been the newest that the
	// call shows, if it is an Observer; zero if that does not matter.
	Since time.Time
}

// Role is what a call has to do with the batch that it is held in.
type Role uint8

const (
	// Observer has seen what the batch carries, or what it was built on.
	Observer Role = iota
	// Effect is a turn whose effects the batch carries.
	Effect
	// Failure is a turn that failed and whose batch is a fence: no earlier attempt
	// of the call can be applied after it. Whether one was before is to be found out.
	Failure
	// Question is a turn that changed nothing, in a batch of its own making: a check,
	// whose error is its answer, or, once turns with effects have joined the batch, what
	// it has seen and nothing more.
	Question
)

// Outcome is what came of a batch's commit.
type Outcome uint8

const (
	// Applied is a commit that holds.
	Applied Outcome = iota
	// Refused is a commit that another one came before: nothing of it was applied.
	Refused
	// Failed is one that was not applied for another reason, or whose outcome is
	// unknown.
	Failed
)

// Actions are what the caller has to do, in this order.
type Actions[A, C, P any] struct {
	// Rerun are calls that run again at their members, before all that wait there, in
	// their order.
	Rerun []Dependent[A, C, P]
	// Answer are calls whose held answers go out; Fail get the commit's error in
	// their place; Confirm are failures to be looked up, and then answered.
	Answer, Fail, Confirm []C
	// Later are observers of a batch that proves nothing of what they show: they are
	// held in the flight, or in the check that the caller makes if there is none.
	Later []Dependent[A, C, P]
	// Launch are batches to send to the store.
	Launch []*Batch[A, C, P]
	// Dropped are the members whose states have to be read anew. Rewound are those
	// whose tips go back to what their flights carry: no turn of them begins before
	// those have landed. Lost are the pending batches that went with them.
	Dropped, Rewound []*Member[A, C, P]
	Lost             []*Batch[A, C, P]
}

// Flight returns the batch whose commit is under way, nil if there is none.
func (m *Member[A, C, P]) Flight() *Batch[A, C, P] { return m.flight }

// Pending returns the batch behind the flight, nil if there is none.
func (m *Member[A, C, P]) Pending() *Batch[A, C, P] { return m.pending }

// Settling reports whether the flight's outcome is being found out.
func (m *Member[A, C, P]) Settling() bool { return m.settling }

// Committed reports whether all of the member's state is committed.
func (m *Member[A, C, P]) Committed() bool { return m.flight == nil && m.pending == nil }

// MayBegin reports whether a turn of the member may begin.
func (m *Member[A, C, P]) MayBegin() bool { return !m.settling && !m.rewound }

// Dropped returns why the state was dropped under the turn that runs, nil if it was
// not.
func (m *Member[A, C, P]) Dropped() error { return m.dropped }

// Latest returns the batch that a turn on the member's tip could have seen, nil
// when all of it is committed.
func (m *Member[A, C, P]) Latest() *Batch[A, C, P] {
	if m.pending != nil {
		return m.pending
	}
	return m.flight
}

// Began is when the batch was launched.
func (b *Batch[A, C, P]) Began() time.Time { return b.began }

// Check reports whether the batch carries no effects.
func (b *Batch[A, C, P]) Check() bool { return b.effects == 0 }

// Effects returns how many turns the batch carries the effects of.
func (b *Batch[A, C, P]) Effects() int { return b.effects }

// Begin says that a turn of the member begins.
func (m *Member[A, C, P]) Begin() { m.running = true }

// End says that the turn that ran is over, and returns the calls that go again
// before it and why; both are nil if its state was not dropped.
func (m *Member[A, C, P]) End() (behind []C, dropped error) {
	behind, dropped = m.behind, m.dropped
	m.running, m.behind, m.dropped = false, nil, nil
	return behind, dropped
}

// Fold puts a call into the pending batch of its members, which are not empty. If
// they have several, those become one, and merge adds the payload of the second to
// that of the first; if they have none, payload makes that of a new one.
func Fold[A, C, P any](members []*Member[A, C, P], h Dependent[A, C, P], payload func() P, merge func(into, from P)) *Batch[A, C, P] {
	var b *Batch[A, C, P]
	for _, m := range members {
		switch {
		case m.pending == nil || m.pending == b:
		case b == nil:
			b = m.pending
		default:
			b.join(m.pending, merge)
		}
	}
	if b == nil {
		b = &Batch[A, C, P]{Payload: payload()}
		b.members, b.dependents = b.member[:0], b.dependent[:0]
	}
	for _, m := range members {
		if m.pending == nil {
			m.pending = b
			b.members = append(b.members, m)
		}
	}
	b.Add(h)
	return b
}

// join makes the members and calls of other b's.
func (b *Batch[A, C, P]) join(other *Batch[A, C, P], merge func(into, from P)) {
	merge(b.Payload, other.Payload)
	b.dependents = append(b.dependents, other.dependents...)
	b.effects += other.effects
	for _, m := range other.members {
		m.pending = b
		b.members = append(b.members, m)
	}
	*other = Batch[A, C, P]{}
}

// Add keeps a call that has seen a batch until that has landed.
func (b *Batch[A, C, P]) Add(h Dependent[A, C, P]) {
	b.dependents = append(b.dependents, h)
	if h.Role == Effect || h.Role == Failure {
		b.effects++
	}
}

// Launch makes the member's pending batch the flight of all its members, if none of
// them has one, and returns it to be sent; otherwise nil.
func (m *Member[A, C, P]) Launch(now time.Time) *Batch[A, C, P] {
	b := m.pending
	if b == nil || slices.ContainsFunc(b.members, func(m *Member[A, C, P]) bool { return m.flight != nil }) {
		return nil
	}
	for _, m := range b.members {
		m.flight, m.pending = b, nil
	}
	b.began = now
	return b
}

// Settle records that the outcome of a flight is being found out.
func (b *Batch[A, C, P]) Settle() {
	for _, m := range b.members {
		m.settling = true
	}
}

// Landed ends a flight. err is why it was not applied. now is when that was known.
func (b *Batch[A, C, P]) Landed(o Outcome, err error, now time.Time) (a Actions[A, C, P]) {
	for _, m := range b.members {
		m.flight, m.settling, m.rewound = nil, false, false
	}
	if o != Applied {
		a.drop(b.members, b, o, err)
		return a
	}
	for _, h := range b.dependents {
		switch {
		case h.Role == Observer && !h.Since.IsZero() && !b.began.After(h.Since):
			a.Later = append(a.Later, h)
		case h.Role == Failure:
			a.Confirm = append(a.Confirm, h.Call)
		default:
			a.Answer = append(a.Answer, h.Call)
		}
	}
	for _, m := range b.members {
		if next := m.Launch(now); next != nil {
			a.Launch = append(a.Launch, next)
		}
	}
	return a
}

// Drop drops the states of members that have no batches, since the store has newer
// ones, and lets calls go again that were about to be answered.
func Drop[A, C, P any](members []*Member[A, C, P], calls []Dependent[A, C, P], err error) (a Actions[A, C, P]) {
	a.drop(members, nil, Refused, err)
	for _, h := range calls {
		a.rerun(h)
	}
	return a
}

// drop drops members, and all that share a pending batch with one that is dropped.
// lost is the flight that was not applied, nil if there was none.
func (a *Actions[A, C, P]) drop(members []*Member[A, C, P], lost *Batch[A, C, P], o Outcome, err error) {
	members = slices.Clone(members)
	for at := 0; at < len(members); at++ {
		m := members[at]
		if slices.Contains(a.Dropped, m) || slices.Contains(a.Rewound, m) {
			continue
		}
		if m.running {
			m.dropped = err
		}
		if m.flight == nil {
			a.Dropped = append(a.Dropped, m)
		} else {
			m.rewound = true
			a.Rewound = append(a.Rewound, m)
		}
		if p := m.pending; p != nil {
			a.Lost = append(a.Lost, p)
			members = append(members, p.members...)
			for _, other := range p.members {
				other.pending = nil
			}
		}
	}
	if lost != nil {
		for _, h := range lost.dependents {
			if o == Failed && (h.Role == Effect || h.Role == Failure || h.Role == Question && lost.Check()) {
				a.Fail = append(a.Fail, h.Call)
			} else {
				a.rerun(h)
			}
		}
	}
	for _, b := range a.Lost {
		for _, h := range b.dependents {
			a.rerun(h)
		}
	}
}

// rerun lets a call go again: after the turn that runs at its member, if one does,
// which was begun later than it.
func (a *Actions[A, C, P]) rerun(h Dependent[A, C, P]) {
	if m := h.Home; m.dropped != nil {
		m.behind = append(m.behind, h.Call)
		return
	}
	a.Rerun = append(a.Rerun, h)
}

package mailbox

import (
	"fmt"
	"iter"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/list"
)

// Mailbox has the calls of one actor. The zero value is empty.
type Mailbox[C any] struct {
	waiting list.List[C]
	retries list.List[C] // calls that run again; they come first
	aside   list.List[C] // calls that cannot run for now
	// unanswered counts the calls in the lists, those in batches and the one that runs;
	// bytes is their cost.
	unanswered int
	bytes      int64
}

// CheckCalls reports why no further call may wait, where limit calls may.
func (m *Mailbox[C]) CheckCalls(limit int) error {
	if m.unanswered > limit { // one of them runs
		return fmt.Errorf("%w: %d invocations wait; call less at once, or try again later", actor.ErrMailboxFull, limit)
	}
	return nil
}

// CheckBytes reports why no call of a cost may be added, where calls may take limit bytes
// together. One call always may.
func (m *Mailbox[C]) CheckBytes(cost, limit int64) error {
	if m.unanswered > 0 && m.bytes+cost > limit {
		return fmt.Errorf("%w: its invocations have %d bytes; call less at once, or try again later", actor.ErrMailboxFull, m.bytes)
	}
	return nil
}

// Put adds a call behind all others.
func (m *Mailbox[C]) Put(p *list.Place[C], c C, cost int64) {
	m.waiting.Push(p, c)
	m.unanswered++
	m.bytes += cost
}

// Take takes out the next call, which is unanswered still; the zero value if none waits.
func (m *Mailbox[C]) Take() C {
	if m.retries.Len() > 0 {
		return m.retries.Pop()
	}
	return m.waiting.Pop()
}

// Again puts a call that was taken out before all others.
func (m *Mailbox[C]) Again(p *list.Place[C], c C) { m.retries.PushFront(p, c) }

// AgainBehind is Again behind all calls that match.
func (m *Mailbox[C]) AgainBehind(p *list.Place[C], c C, match func(C) bool) {
	if !m.waiting.PushBehindLast(p, c, match) && !m.retries.PushBehindLast(p, c, match) {
		m.Again(p, c)
	}
}

// AgainAfter is Again behind the first call that matches, which comes before all others then.
func (m *Mailbox[C]) AgainAfter(p *list.Place[C], c C, match func(C) bool) {
	m.Again(p, c)
	for _, l := range [...]*list.List[C]{&m.retries, &m.waiting} {
		if first := l.Find(match); first != nil {
			e := first.Element()
			l.Remove(first)
			m.retries.PushFront(first, e)
			return
		}
	}
}

// Has reports whether a call matches.
func (m *Mailbox[C]) Has(match func(C) bool) bool {
	return m.retries.Find(match) != nil || m.waiting.Find(match) != nil
}

// GiveUp takes out a call that waits, of a cost, and reports whether it did: then the call
// needs no answer.
func (m *Mailbox[C]) GiveUp(p *list.Place[C], cost int64) bool {
	if !m.TakeOut(p) {
		return false
	}
	m.Answered(cost)
	return true
}

// TakeOut takes out a call that waits, which is unanswered still, and reports whether it did.
func (m *Mailbox[C]) TakeOut(p *list.Place[C]) bool {
	switch {
	case m.waiting.In(p):
		m.waiting.Remove(p)
	case m.retries.In(p):
		m.retries.Remove(p)
	case m.aside.In(p):
		m.aside.Remove(p)
	default:
		return false
	}
	return true
}

// All returns the calls that wait, also those that were set aside.
func (m *Mailbox[C]) All() []C {
	var all []C
	for _, l := range [...]*list.List[C]{&m.retries, &m.waiting, &m.aside} {
		all = slices.AppendSeq(all, l.All())
	}
	return all
}

// SetAside keeps a call that was taken out until TakeAside takes it.
func (m *Mailbox[C]) SetAside(p *list.Place[C], c C) { m.aside.Push(p, c) }

// TakeAside takes out the first call that was set aside, which is unanswered still; the zero value if
// there is none.
func (m *Mailbox[C]) TakeAside() C { return m.aside.Pop() }

// Aside returns how many calls are set aside.
func (m *Mailbox[C]) Aside() int { return m.aside.Len() }

// Answered forgets a call that was taken out, of a cost.
func (m *Mailbox[C]) Answered(cost int64) {
	m.unanswered--
	m.bytes -= cost
}

// Len returns how many calls wait.
func (m *Mailbox[C]) Len() int { return m.waiting.Len() + m.retries.Len() }

// Retries returns the calls that wait to run again, in their order.
func (m *Mailbox[C]) Retries() iter.Seq[C] { return m.retries.All() }

// IsRetry reports whether a call waits to run again.
func (m *Mailbox[C]) IsRetry(p *list.Place[C]) bool { return m.retries.In(p) }

package mailbox

import "github.com/greenroom-run/greenroom/host/list"

// Answers are calls that are to be answered, in an order. They are in no list, and only
// their callers, who wait, know them as well. The zero value is empty.
type Answers[C any] struct{ calls list.Chain[C] }

// Add adds a call, whose place is in no list.
func (a *Answers[C]) Add(p *list.Place[C], c C) { a.calls.Push(p, c) }

// Take takes out the first call; ok is false if there is none.
func (a *Answers[C]) Take() (c C, ok bool) { return a.calls.Pop() }

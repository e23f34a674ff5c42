package mailbox

import "github.com/greenroom-run/greenroom/host/list"

// Answers are calls that are to be answered, in an order. They are in no list, and only
// their callers, who wait, know them as well. The zero value is empty.
type Answers[C any] struct {
	calls list.Chain[C]
	len   int
	cost  int64
}

// Add adds a call of a cost, whose place is in no list.
func (a *Answers[C]) Add(p *list.Place[C], c C, cost int64) {
	a.calls.Push(p, c)
	a.len++
	a.cost += cost
}

// Take takes out the first call; ok is false if there is none.
func (a *Answers[C]) Take() (c C, ok bool) { return a.calls.Pop() }

// Sum returns how many calls were added, and their cost together.
func (a *Answers[C]) Sum() (calls int, cost int64) { return a.len, a.cost }

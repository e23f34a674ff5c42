package mailbox

// Answers are calls that are to be answered, in an order. They are in no list, and only
// their callers, who wait, know them as well. The zero value is empty.
type Answers[C any] struct {
	first, last *Place[C]
	len         int
	cost        int64
}

// Add adds a call of a cost, whose place is in no list.
func (a *Answers[C]) Add(p *Place[C], c C, cost int64) {
	p.call, p.next = c, nil
	if a.last != nil {
		a.last.next = p
	} else {
		a.first = p
	}
	a.last = p
	a.len++
	a.cost += cost
}

// Take takes out the first call; ok is false if there is none.
func (a *Answers[C]) Take() (c C, ok bool) {
	p := a.first
	if p == nil {
		return c, false
	}
	if a.first, p.next = p.next, nil; a.first == nil {
		a.last = nil
	}
	return p.call, true
}

// Sum returns how many calls were added, and their cost together.
func (a *Answers[C]) Sum() (calls int, cost int64) { return a.len, a.cost }

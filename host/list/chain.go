package list

// Chain is a singly linked list. Its elements have no pointer to it, so that it may be on a
// stack. The zero value is empty.
type Chain[E any] struct{ first, last *Place[E] }

// Push puts an element, whose place is in no list or chain, behind all others.
func (c *Chain[E]) Push(p *Place[E], e E) {
	p.element, p.next = e, nil
	if c.first == nil {
		c.first = p
	} else {
		c.last.next = p
	}
	c.last = p
}

// Pop takes out the first element; ok is false if there is none.
func (c *Chain[E]) Pop() (e E, ok bool) {
	p := c.first
	if p == nil {
		return e, false
	}
	c.first, p.next = p.next, nil
	return p.element, true
}

package mailbox

import "iter"

// Place is where a call is: in at most one [List]. The zero value is in none.
type Place[C any] struct {
	call       C
	prev, next *Place[C]
	list       *List[C]
}

// List is a doubly linked list of calls. The zero value is empty.
type List[C any] struct {
	head, tail *Place[C]
	len        int
}

// Len returns how many calls the list has.
func (l *List[C]) Len() int { return l.len }

// All returns the calls in their order. The list must not change meanwhile.
func (l *List[C]) All() iter.Seq[C] {
	return func(yield func(C) bool) {
		for p := l.head; p != nil && yield(p.call); p = p.next {
		}
	}
}

// Push puts a call, whose place is in no list, behind all others.
func (l *List[C]) Push(p *Place[C], c C) {
	p.call, p.list, p.prev, p.next = c, l, l.tail, nil
	if l.tail != nil {
		l.tail.next = p
	} else {
		l.head = p
	}
	l.tail = p
	l.len++
}

// PushFront puts a call, whose place is in no list, before all others.
func (l *List[C]) PushFront(p *Place[C], c C) {
	p.call, p.list, p.prev, p.next = c, l, nil, l.head
	if l.head != nil {
		l.head.prev = p
	} else {
		l.tail = p
	}
	l.head = p
	l.len++
}

// Remove takes out a call of the list.
func (l *List[C]) Remove(p *Place[C]) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.tail = p.prev
	}
	p.list, p.prev, p.next = nil, nil, nil
	l.len--
}

// pop takes out the first call; the zero value if there is none.
func (l *List[C]) pop() (c C) {
	if p := l.head; p != nil {
		l.Remove(p)
		return p.call
	}
	return c
}

// prepend moves the calls of front before those of l, in their order.
func (l *List[C]) prepend(front *List[C]) {
	for p := front.tail; p != nil; p = front.tail {
		front.Remove(p)
		l.PushFront(p, p.call)
	}
}

// Package list has linked lists whose elements contain their places: taking an element out
// of the middle needs no search, and adding one needs no memory. One lock guards the lists
// that exchange elements.
package list

import "iter"

// Place is where an element is: in at most one [List]. The zero value is in none.
type Place[E any] struct {
	element    E
	prev, next *Place[E]
	list       *List[E]
}

// Element returns what was put at the place last.
func (p *Place[E]) Element() E { return p.element }

// List is elements in an order. The zero value is empty.
type List[E any] struct {
	head, tail *Place[E]
	len        int
}

// Len returns how many elements the list has.
func (l *List[E]) Len() int { return l.len }

// All returns the elements in their order. What is yielded may be removed meanwhile, and
// nothing else.
func (l *List[E]) All() iter.Seq[E] {
	return func(yield func(E) bool) {
		for p := l.head; p != nil; {
			next := p.next
			if !yield(p.element) {
				return
			}
			p = next
		}
	}
}

// Push puts an element, whose place is in no list, behind all others.
func (l *List[E]) Push(p *Place[E], e E) {
	p.element, p.list, p.prev, p.next = e, l, l.tail, nil
	if l.tail != nil {
		l.tail.next = p
	} else {
		l.head = p
	}
	l.tail = p
	l.len++
}

// PushFront puts an element, whose place is in no list, before all others.
func (l *List[E]) PushFront(p *Place[E], e E) {
	p.element, p.list, p.prev, p.next = e, l, nil, l.head
	if l.head != nil {
		l.head.prev = p
	} else {
		l.tail = p
	}
	l.head = p
	l.len++
}

// PushBehindLast puts an element, whose place is in no list, behind the last one that match is true
// for, and reports whether there is one.
func (l *List[E]) PushBehindLast(p *Place[E], e E, match func(E) bool) bool {
	for at := l.tail; at != nil; at = at.prev {
		if !match(at.element) {
			continue
		}
		if at == l.tail {
			l.Push(p, e)
			return true
		}
		p.element, p.list, p.prev, p.next = e, l, at, at.next
		at.next.prev, at.next = p, p
		l.len++
		return true
	}
	return false
}

// Find returns the place of the first element that match is true for, nil if there is none.
func (l *List[E]) Find(match func(E) bool) *Place[E] {
	for p := l.head; p != nil; p = p.next {
		if match(p.element) {
			return p
		}
	}
	return nil
}

// In reports whether a place is in the list.
func (l *List[E]) In(p *Place[E]) bool { return p.list == l }

// Last reports whether a place is the last one of the list.
func (l *List[E]) Last(p *Place[E]) bool { return l.tail == p }

// Remove takes out an element of the list.
func (l *List[E]) Remove(p *Place[E]) {
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

// Pop takes out the first element; the zero value if there is none.
func (l *List[E]) Pop() (e E) {
	if p := l.head; p != nil {
		l.Remove(p)
		return p.element
	}
	return e
}

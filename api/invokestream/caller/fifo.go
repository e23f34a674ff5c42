package caller

// fifo is a queue whose memory is used again. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int // of items, how many were popped
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		// What is moved is at most what was popped since the last time, or the
		// memory doubles.
		if n := q.len(); n <= q.head {
			copy(q.items, q.items[q.head:])
			clear(q.items[n:])
			q.items, q.head = q.items[:n], 0
		}
	}
	q.items = append(q.items, v)
}

func (q *fifo[T]) pop() T {
	var zero T
	v := q.items[q.head]
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v
}

// peek returns what pop would.
func (q *fifo[T]) peek() T { return q.items[q.head] }

package pipeline

import (
	"fmt"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
)

// lanes is a bounded queue and the permissions to serve it in groups.
type lanes[T any] struct {
	cfg  Config
	size func(T) int64 // bytes
	// serve brings a group to the store, calls answered, and hands the answers
	// out. The group is its own until it returns.
	serve func(group []T, answered func())

	mu      sync.Mutex
	queue   []T // from head on
	head    int
	bytes   int64 // of the queue
	busy    int   // lanes with a group at the store
	freed   func()
	working sync.WaitGroup
	spare   sync.Pool // of *[]T
}

func (l *lanes[T]) init(cfg Config, size func(T) int64, serve func([]T, func())) {
	l.cfg, l.size, l.serve, l.freed = cfg, size, serve, l.free
	l.spare.New = func() any { return new([]T) }
}

// put queues one more, and sends a lane if one is free.
func (l *lanes[T]) put(item T) error {
	size := l.size(item)
	l.mu.Lock()
	waiting := len(l.queue) - l.head
	if waiting >= l.cfg.QueueRows || waiting > 0 && l.bytes+size > l.cfg.QueueBytes {
		bytes := l.bytes
		l.mu.Unlock()
		return fmt.Errorf("%w: it is slower than what is asked of it: %d requests with %d bytes wait; try again later",
			actor.ErrUnavailable, waiting, bytes)
	}
	l.queue = append(l.queue, item)
	l.bytes += size
	if l.busy < l.cfg.Lanes {
		l.busy++
		l.send()
	}
	l.mu.Unlock()
	return nil
}

// send starts a lane on what is queued. The caller has the lock and counted it.
func (l *lanes[T]) send() {
	group := l.take()
	l.working.Add(1)
	go l.work(group)
}

// take returns the next group. The caller has the lock; something is queued.
func (l *lanes[T]) take() *[]T {
	var bytes int64
	n := 0
	waiting := l.queue[l.head:]
	for n < len(waiting) && n < l.cfg.GroupRows {
		size := l.size(waiting[n])
		if n > 0 && bytes+size > l.cfg.GroupBytes {
			break
		}
		bytes += size
		n++
	}
	group := l.spare.Get().(*[]T)
	*group = append((*group)[:0], waiting[:n]...)
	clear(waiting[:n])
	l.head += n
	l.bytes -= bytes
	if l.head > len(l.queue)/2 {
		rest := copy(l.queue, l.queue[l.head:])
		clear(l.queue[rest:])
		l.queue, l.head = l.queue[:rest], 0
	}
	return group
}

// work serves one group. The lane goes on to the next one, with a goroutine of
// its own, as soon as the store has answered.
func (l *lanes[T]) work(group *[]T) {
	defer l.working.Done()
	l.serve(*group, l.freed)
	clear(*group)
	l.spare.Put(group)
}

// free gives a lane to what is queued, if anything is.
func (l *lanes[T]) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head < len(l.queue) {
		l.send()
		return
	}
	l.busy--
}

// waiting returns how many wait for a lane.
func (l *lanes[T]) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) - l.head
}

package pipeline

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// workers is a bounded queue and the permissions to serve it in groups.
type workers[T any] struct {
	cfg  Config
	app  func(T) string
	size func(T) int64 // bytes
	// weigh is what an item counts for in a group; it may change while it waits.
	weigh func(T) int64
	// serve brings a group to the store and returns what hands an item its answer,
	// by its place in the group.
	serve func(group []T) (answer func(i int))
	// refuse answers an item that no worker has taken.
	refuse func(item T, err error)
	// abandon answers an item of a group whose serve has panicked.
	abandon func(item T)

	mu      sync.Mutex
	queue   lines[T]
	busy    int  // workers with a group at the store
	answers int  // groups that the store has answered
	seen    int  // answers when the watch last looked
	watched bool // a watch is set: something waited for a worker since it last looked
	stalled atomic.Bool
	working sync.WaitGroup
	spare   sync.Pool // of *[]T
}

func (l *workers[T]) init(cfg Config, app func(T) string, size func(T) int64, serve func([]T) func(int), refuse func(T, error)) {
	l.cfg, l.app, l.size, l.weigh, l.serve, l.refuse = cfg, app, size, size, serve, refuse
	l.queue = newLines[T](&l.cfg)
	l.abandon = func(item T) { refuse(item, errPanicked) }
	l.spare.New = func() any { return new([]T) }
}

// put queues one more, and sends a worker if one is free; with onCaller the caller is
// that worker, and put returns when the store has answered.
func (l *workers[T]) put(item T, onCaller bool) error {
	app, size := l.app(item), l.size(item)
	l.mu.Lock()
	if l.stalled.Load() {
		l.mu.Unlock()
		return l.errStalled()
	}
	var group *[]T
	switch free := l.busy < l.cfg.Workers; {
	case free && l.queue.rows == 0: // most commits find a worker that is free
		group = l.spare.Get().(*[]T)
		*group = append((*group)[:0], item)
	case !l.queue.fits(app, size):
		rows, bytes := l.queue.rows, l.queue.bytes
		l.mu.Unlock()
		return fmt.Errorf("%w: it is slower than what is asked of it: %d requests with %d bytes wait; try again later",
			actor.ErrUnavailable, rows, bytes)
	default:
		l.queue.add(app, item, size, false)
		if free {
			group = l.take()
		}
	}
	switch {
	case group == nil:
		if !l.watched {
			l.watch()
		}
	case onCaller:
		l.busy++
		l.working.Add(1)
		l.mu.Unlock()
		l.work(group)
		return nil
	default:
		l.busy++
		l.send(group)
	}
	l.mu.Unlock()
	return nil
}

// watch looks again after Config.StallAfter. One watch serves all that comes
// meanwhile. The caller has the lock; all workers are busy.
func (l *workers[T]) watch() {
	l.watched, l.seen = true, l.answers
	time.AfterFunc(l.cfg.StallAfter, l.look)
}

// look refuses all that waits if the store has answered no worker since the last
// time: what it does not do for those it would not do for these.
func (l *workers[T]) look() {
	l.mu.Lock()
	l.watched = false
	if l.queue.rows == 0 {
		l.mu.Unlock()
		return
	}
	if l.answers != l.seen {
		l.watch()
		l.mu.Unlock()
		return
	}
	l.stalled.Store(true)
	waiting := l.queue.drain()
	l.working.Add(1)
	l.mu.Unlock()
	defer l.working.Done()
	for _, item := range waiting {
		l.refuse(item, l.errStalled())
	}
}

func (l *workers[T]) errStalled() error {
	return fmt.Errorf("%w: it has answered nothing for %s or longer; try again later", actor.ErrUnavailable, l.cfg.StallAfter)
}

// back puts items of a group before all that waits of their apps. The group's worker is not
// free yet.
func (l *workers[T]) back(items []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, item := range slices.Backward(items) {
		l.queue.add(l.app(item), item, l.size(item), true)
	}
}

// send starts a worker on a group. The caller has the lock and counted it.
func (l *workers[T]) send(group *[]T) {
	l.working.Add(1)
	go l.work(group)
}

// take returns the next group. The caller has the lock; something is queued.
func (l *workers[T]) take() *[]T {
	group := l.spare.Get().(*[]T)
	*group = l.queue.take((*group)[:0], l.size, l.weigh)
	return group
}

// errPanicked is why a group has no answer whose worker has panicked.
var errPanicked = fmt.Errorf("%w: the host has failed while it was asked", actor.ErrUnavailable)

// work serves one group. The worker goes on to the next one, with a goroutine of
// its own, as soon as the store has answered. A panic goes on to the caller when
// the worker is free and every member has an answer: a caller that is the worker may
// be one that recovers, and the others must not pay for it.
func (l *workers[T]) work(group *[]T) {
	defer l.working.Done()
	answer := func(i int) { l.abandon((*group)[i]) }
	defer func() {
		handOut(len(*group), func(i int) { answer(i) })
		clear(*group)
		l.spare.Put(group)
	}()
	defer l.free()
	answer = l.serve(*group)
}

// handOut calls answer for each of n items. If one panics, the others get theirs
// before the panic goes on.
func handOut(n int, answer func(int)) {
	next := 0
	defer func() {
		if from := next; from < n {
			handOut(n-from, func(i int) { answer(from + i) })
		}
	}()
	for next < n {
		next++
		answer(next - 1)
	}
}

// free gives the worker to what is queued, if anything is.
func (l *workers[T]) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	l.stalled.Store(false)
	l.busy--
	if l.queue.rows > 0 {
		l.busy++
		l.send(l.take())
	}
}

// waiting returns how many wait for a worker.
func (l *workers[T]) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.rows
}

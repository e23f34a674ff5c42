package routing

import (
	"container/list"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// waiting holds the calls that wait for an owner. It bounds them, shares the bounds among apps,
// and wakes the calls that wait for the same change together.
type waiting struct {
	usage // changes under mu alone

	mu     sync.Mutex
	groups map[<-chan struct{}]*group
	closed bool
	done   chan struct{} // closed with closed
	groupN sync.WaitGroup
}

// group has the calls that wait for one change. The calls of an actor form a line, in the order
// in which they came, so that no call waits for a call of another actor.
type group struct{ lines map[actor.Key]*list.List }

// waiter is one wait. It ends once: by its change, by its time, or by [waiter.leave].
type waiter struct {
	w     *waiting
	of    actor.Key
	bytes int64
	on    <-chan struct{}
	timer *time.Timer
	wake  func(next func())
	line  *list.List
	place *list.Element // in line; nil once the wait has ended
}

func newWaiting(maxCalls int, maxBytes int64) *waiting {
	return &waiting{
		usage: usage{
			calls: newAccount("calls that wait for their actors' hosts", int64(maxCalls)),
			bytes: newAccount("bytes of calls that wait for their actors' hosts", maxBytes),
		},
		groups: map[<-chan struct{}]*group{}, done: make(chan struct{}),
	}
}

// enter begins a wait of an actor's call. The wait ends when on is closed (nil: never) or after
// limit; then a goroutine of its own calls wake. wake must call next as soon as no later call can
// overtake this one: that wakes the next call of the actor's line, once on is closed. An error
// says why the call may not wait.
func (w *waiting) enter(of actor.Key, bytes int64, on <-chan struct{}, limit time.Duration, wake func(next func())) (*waiter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, actor.ErrStopping
	}
	if full := w.take(of.App, bytes); full != nil {
		return nil, noOwner("%v", full)
	}
	if on == nil {
		on = w.done
	}
	e := &waiter{w: w, of: of, bytes: bytes, on: on, wake: wake}
	e.timer = time.AfterFunc(limit, func() {
		if e.leave() {
			e.wake(func() {})
		}
	})
	g := w.groups[on]
	if g == nil {
		g = &group{lines: map[actor.Key]*list.List{}}
		w.groups[on] = g
		w.groupN.Go(func() { w.watch(on, g) })
	}
	if e.line = g.lines[of]; e.line == nil {
		e.line = list.New()
		g.lines[of] = e.line
	}
	e.place = e.line.PushBack(e)
	return e, nil
}

// watch wakes the first of each line of a group when its change has come.
func (w *waiting) watch(on <-chan struct{}, g *group) {
	select {
	case <-on:
	case <-w.done:
	}
	w.mu.Lock()
	delete(w.groups, on)
	w.mu.Unlock()
	for _, line := range g.lines { // which nobody adds to any more
		go w.wakeFirst(line)
	}
}

// wakeFirst wakes the first call of a line, whose next wakes the following one. Until then a call
// counts against the bounds, and can leave.
func (w *waiting) wakeFirst(line *list.List) {
	w.mu.Lock()
	first := line.Front()
	if first == nil {
		w.mu.Unlock()
		return
	}
	e := first.Value.(*waiter)
	w.end(e)
	w.mu.Unlock()
	e.wake(sync.OnceFunc(func() { go w.wakeFirst(line) }))
}

// leave ends a wait. It returns false if the wait had ended.
func (e *waiter) leave() bool {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if !e.w.end(e) {
		return false
	}
	if g := e.w.groups[e.on]; g != nil && e.line.Len() == 0 && g.lines[e.of] == e.line {
		delete(g.lines, e.of)
	}
	return true
}

// end ends a wait. It returns false if the wait had ended. Its caller holds mu.
func (w *waiting) end(e *waiter) bool {
	if e.place == nil {
		return false
	}
	e.line.Remove(e.place)
	e.place = nil
	e.timer.Stop()
	w.give(e.of.App, e.bytes)
	return true
}

// close refuses further waits, and wakes all waiting calls.
func (w *waiting) close() {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	if !closed {
		close(w.done)
	}
	w.groupN.Wait()
}

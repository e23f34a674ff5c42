package routing

import (
	"sync"
	"time"
)

// waiting bounds what waits for an owner, and wakes what waits for the same change
// together.
type waiting struct {
	maxCalls int
	maxBytes int64

	mu     sync.Mutex
	calls  int
	bytes  int64
	groups map[<-chan struct{}]*group
	closed bool
	done   chan struct{} // closed with closed
	groupN sync.WaitGroup
}

// group has the calls that wait for one change.
type group struct{ calls map[*waiter]struct{} }

// waiter is one wait. It ends once: by its change, by its time, or by [waiter.leave].
type waiter struct {
	w     *waiting
	bytes int64
	on    <-chan struct{}
	timer *time.Timer
	wake  func() // called by a goroutine of its own
	ended bool
}

func newWaiting(maxCalls int, maxBytes int64) *waiting {
	return &waiting{maxCalls: maxCalls, maxBytes: maxBytes, groups: map[<-chan struct{}]*group{}, done: make(chan struct{})}
}

// enter begins a wait that ends when on is closed (nil: never) or after limit, and then
// calls wake. It returns nil where nothing more may wait.
func (w *waiting) enter(bytes int64, on <-chan struct{}, limit time.Duration, wake func()) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.calls >= w.maxCalls || w.calls > 0 && w.bytes+bytes > w.maxBytes {
		return nil
	}
	w.calls++
	w.bytes += bytes
	if on == nil {
		on = w.done
	}
	e := &waiter{w: w, bytes: bytes, on: on, wake: wake}
	e.timer = time.AfterFunc(limit, func() {
		if e.leave() {
			e.wake()
		}
	})
	g := w.groups[on]
	if g == nil {
		g = &group{calls: map[*waiter]struct{}{}}
		w.groups[on] = g
		w.groupN.Go(func() { w.watch(on, g) })
	}
	g.calls[e] = struct{}{}
	return e
}

// watch wakes a group when its change has come.
func (w *waiting) watch(on <-chan struct{}, g *group) {
	select {
	case <-on:
	case <-w.done:
	}
	w.mu.Lock()
	delete(w.groups, on)
	var woken []*waiter
	for e := range g.calls {
		if w.end(e) {
			woken = append(woken, e)
		}
	}
	w.mu.Unlock()
	for _, e := range woken {
		go e.wake()
	}
}

// leave ends a wait, and reports false if it had ended.
func (e *waiter) leave() bool {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if !e.w.end(e) {
		return false
	}
	if g := e.w.groups[e.on]; g != nil {
		delete(g.calls, e)
	}
	return true
}

// end takes a wait off. Its caller holds mu.
func (w *waiting) end(e *waiter) bool {
	if e.ended {
		return false
	}
	e.ended = true
	e.timer.Stop()
	w.calls--
	w.bytes -= e.bytes
	return true
}

func (w *waiting) isClosed() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// count returns how many calls wait, and their bytes.
func (w *waiting) count() (calls int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls, w.bytes
}

// close lets nothing more wait, and wakes what waits for a change.
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

package routing

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// TestWaitersGoOnInOrder: those of an actor in the order in which they came, without those
// that left, and none waits for another actor's.
func TestWaitersGoOnInOrder(t *testing.T) {
	const n = 64
	w := newWaiting(1000, 1<<20)
	on := make(chan struct{})
	enter := func(id string, wake func(next func())) *waiter {
		e, err := w.enter(actor.Key{App: "app", Type: "T", ID: id}, 1, on, time.Hour, wake)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	var stuck sync.WaitGroup
	woken, release := make(chan struct{}), make(chan struct{})
	stuck.Add(1)
	enter("stuck", func(func()) {
		defer stuck.Done()
		close(woken)
		<-release
	})
	last := enter("stuck", func(func()) { t.Error("a call passed the one before it") })

	var order, want []int
	var all sync.WaitGroup
	for i := range n {
		e := enter("a", func(next func()) {
			defer all.Done()
			order = append(order, i) // one at a time
			next()
			next()
		})
		if i%7 == 3 {
			if !e.leave() || e.leave() {
				t.Error("a waiter leaves once")
			}
			continue
		}
		all.Add(1)
		want = append(want, i)
	}
	close(on)
	all.Wait()
	<-woken
	if !slices.Equal(order, want) {
		t.Errorf("they went on as %v", order)
	}
	if calls, bytes := w.count(); calls != 1 || bytes != 1 || !last.leave() {
		t.Errorf("%d calls with %d bytes wait behind one that has no place yet", calls, bytes)
	}
	close(release)
	stuck.Wait()
	if calls, bytes := w.count(); calls != 0 || bytes != 0 {
		t.Errorf("%d calls with %d bytes still wait", calls, bytes)
	}
	w.close()
}

// TestWaitEndsOnce: by its time, by its change or by leaving, whatever else comes at the same
// moment; nothing is kept of it.
func TestWaitEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(1000, 1<<20)
		defer w.close()
		on, woken := make(chan struct{}), 0
		enter := func() *waiter {
			e, _ := w.enter(actor.Key{App: "app", Type: "T", ID: "a"}, 1, on, time.Hour, func(next func()) {
				woken++
				next()
			})
			return e
		}
		for what, end := range map[string]func(e *waiter){
			"left":  func(e *waiter) { e.leave() },
			"timed": func(*waiter) { <-time.After(time.Hour) },
			"woken": func(*waiter) { close(on); synctest.Wait(); on = make(chan struct{}) },
		} {
			woken = 0
			e := enter()
			end(e)
			synctest.Wait()
			before, want := woken, 1
			if what == "left" {
				want = 0
			}
			if e.timer.Stop() {
				t.Errorf("%s: its time goes on", what)
			}
			e.timer.Reset(0) // it was about to end so
			<-time.After(time.Second)
			synctest.Wait()
			if before != want || woken != want {
				t.Errorf("%s: woken %d times, then %d", what, before, woken)
			}
			if g := w.groups[e.on]; g != nil && len(g.lines) > 0 {
				t.Errorf("%s: its line is kept", what)
			}
		}
		if calls, bytes := w.count(); calls != 0 || bytes != 0 {
			t.Errorf("%d calls with %d bytes still wait", calls, bytes)
		}
	})
}

// TestWaitForAChangeThatHasCome is over at once, though others have waited for the change.
func TestWaitForAChangeThatHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(1000, 1<<20)
		defer w.close()
		on, woken := make(chan struct{}), 0
		close(on)
		for i := range 2 {
			_, _ = w.enter(actor.Key{App: "app", Type: "T", ID: "a"}, 1, on, time.Hour, func(next func()) { woken++; next() })
			synctest.Wait()
			if woken != i+1 {
				t.Errorf("wait %d goes on", i)
			}
		}
	})
}

// TestWaitsOfALineOneOfWhichLeft: the line is still there for those that come later.
func TestWaitsOfALineOneOfWhichLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(1000, 1<<20)
		on := make(chan struct{})
		var order []int
		enter := func(i int) *waiter {
			e, _ := w.enter(actor.Key{App: "app", Type: "T", ID: "a"}, 1, on, time.Hour, func(next func()) {
				order = append(order, i)
				next()
			})
			return e
		}
		first, _ := enter(0), enter(1)
		first.leave()
		enter(2)
		close(on)
		synctest.Wait()
		if !slices.Equal(order, []int{1, 2}) {
			t.Errorf("they went on as %v", order)
		}
		on = make(chan struct{})
		enter(3)
		w.close()
		synctest.Wait()
		if !slices.Equal(order, []int{1, 2, 3}) || enter(4) != nil {
			t.Errorf("after the end: %v", order)
		}
	})
}

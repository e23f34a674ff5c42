package routing

import (
	"slices"
	"sync"
	"testing"
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
		e := w.enter(actor.Key{App: "app", Type: "T", ID: id}, 1, on, time.Hour, wake)
		if e == nil {
			t.Fatal("refused")
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

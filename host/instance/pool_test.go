package instance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiterLeavesAsItIsServed lets a waiter give up at the very moment at which it is given a place,
// which does not get lost.
func TestWaiterLeavesAsItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{key: Key{Max: 1}, places: 1}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := p.Acquire(ctx)
			left <- err
		}()
		synctest.Wait()
		p.mu.Lock()
		cancel() // the waiter wakes up and wants the lock
		close(p.waiters[0])
		p.waiters = nil
		p.mu.Unlock()
		if err := <-left; !errors.Is(err, context.Canceled) && err != nil {
			t.Errorf("the waiter got %v", err)
		}
		if p.places != 0 {
			t.Errorf("the place is lost: %d taken", p.places)
		}
	})
}

// TestCalledTurnsLeaveThePoolAsItWas has turns lend their places and called ones run beside them: as
// many turns as before have a place in the end, and no more instances are idle than the bound.
func TestCalledTurnsLeaveThePoolAsItWas(t *testing.T) {
	p := &Pool{key: Key{Max: 2}, idle: []*Instance{{}, {}}}
	for _, in := range p.idle {
		in.pool = p
	}
	first, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	called := p.Spare()
	if called == nil || p.Spare() != nil {
		t.Fatal("two instances were idle, and two can be taken")
	}
	if called.Lend() {
		t.Error("a called turn has lent a place")
	}
	if !first.Lend() || p.places != 0 {
		t.Errorf("%d places are taken after the turn has lent its own", p.places)
	}
	first.Regain()
	called.GiveBack(nil, time.Time{})
	if p.places != 1 || len(p.idle) != 1 {
		t.Errorf("%d places are taken and %d instances idle while one turn runs", p.places, len(p.idle))
	}
	first.GiveBack(nil, time.Time{})
	if p.places != 0 || len(p.idle) != 2 {
		t.Errorf("%d places are taken and %d instances idle in the end", p.places, len(p.idle))
	}
	if p.keep(&Instance{}) {
		t.Error("more instances are kept than the bound")
	}
}

package instance

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestWaiterLeavesAsItIsServed lets a waiter give up at the very moment at which
// it is granted an instance, or the permission to make one: neither gets lost.
func TestWaiterLeavesAsItIsServed(t *testing.T) {
	for name, in := range map[string]*Instance{"an instance": {}, "a permission": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Pool{key: Key{Max: 1}, made: 1}
				ctx, cancel := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() {
					_, err := p.Acquire(ctx)
					left <- err
				}()
				synctest.Wait()
				p.mu.Lock()
				cancel() // the waiter wakes up and wants the lock
				if !p.grant(in) {
					t.Error("nobody waits")
				}
				p.mu.Unlock()
				if err := <-left; !errors.Is(err, context.Canceled) {
					t.Errorf("the waiter got %v", err)
				}
				if in != nil && (len(p.idle) != 1 || p.made != 1) {
					t.Errorf("the instance is lost: %d idle, %d made", len(p.idle), p.made)
				}
				if in == nil && p.made != 0 {
					t.Errorf("the permission is lost: %d made", p.made)
				}
			})
		})
	}
}

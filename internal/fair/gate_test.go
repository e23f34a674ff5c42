package fair

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// A gate lets in one at a time, apps in turn, and those that left hold up no caller.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{Waiting: Bounds{PerApp: 3}, Running: Bounds{Total: 1}})
		first, err := g.Enter(t.Context(), Caller{App: "a"})
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		enter := func(ctx context.Context, app string) {
			go func() {
				leave, err := g.Enter(ctx, Caller{App: app})
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				order = append(order, app)
				leave()
			}()
			synctest.Wait()
		}
		leaving, cancel := context.WithCancel(t.Context())
		enter(t.Context(), "a")
		enter(leaving, "a")
		enter(t.Context(), "a")
		if _, err := g.Enter(t.Context(), Caller{App: "a"}); !errors.As(err, new(*FullError)) {
			t.Errorf("a fourth that waits: %v", err)
		}
		enter(t.Context(), "b")
		cancel()
		synctest.Wait()
		if got := g.Len(); got != 3 {
			t.Errorf("%d wait, want 3", got)
		}
		first()
		synctest.Wait()
		if want := []string{"a", "b", "a"}; !slices.Equal(order, want) {
			t.Errorf("let in %v, want %v", order, want)
		}
		if _, err := g.Enter(leaving, Caller{App: "a"}); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that had left: %v", err)
		}
	})
}

// A place that is given at the moment at which its caller leaves goes to the next.
func TestGatePlaceOfOneThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{Running: Bounds{Total: 1}})
		e := &Entry[chan struct{}]{App: "a"}
		g.mu.Lock()
		if err := g.queue.Push(e); err != nil || g.queue.Next() != e {
			t.Fatal(err)
		}
		g.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if leave, err := g.Enter(ctx, Caller{App: "b"}); err == nil {
				leave() // of the two that were ready, either
			}
		}()
		synctest.Wait()
		g.mu.Lock()
		cancel()
		g.queue.Remove(e)
		g.deal()
		g.mu.Unlock()
		<-ended
		if n := g.queue.Running(); n != 0 {
			t.Errorf("%d places are lost", n)
		}
	})
}

package instance

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/executor"
)

// An app pays for the instances that are made for it: where one app's turns need an instance
// each, another app's turns, which use as much, go in between.
func TestMakingInstancesIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 16
		slots := executor.New(1, []executor.PoolConfig{{Name: executor.PoolUser}})
		var mu sync.Mutex
		var order []string
		ran := func(app string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, app)
		}
		ps := New(Config{
			Engine: sizedEngine{}, Memory: 1 << 30, MemoryPerApp: 1 << 30, Logger: slog.New(slog.DiscardHandler), Slots: slots,
			ModuleBytes: func(context.Context, string, actor.Digest) ([]byte, error) { return nil, nil },
			Made:        func(e Event) { ran(e.App) }, Closed: func(Event) {},
		})
		pool := ps.Get(Key{App: "traps", Digest: "d", MemoryBytes: 100, Max: each})
		var first executor.Slot
		if err := first.Enter(t.Context(), slots.Pool(executor.PoolUser), &actor.Key{App: "first"}); err != nil {
			t.Fatal(err)
		}
		for range each {
			go func() {
				if _, err := pool.Acquire(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			go func() {
				var slot executor.Slot
				if err := slot.Enter(t.Context(), slots.Pool(executor.PoolUser), &actor.Key{App: "other", Type: "T"}); err != nil {
					t.Error(err)
				}
				ran("other")
				slot.Leave(50_000) // about what making an instance takes
			}()
		}
		synctest.Wait()
		first.Leave(0)
		synctest.Wait()
		others := 0
		for _, app := range order[:each] {
			if app == "other" {
				others++
			}
		}
		if others < each/4 {
			t.Errorf("%d of the first %d were the other app's: %v", others, each, order)
		}
	})
}

package reminder

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// A firing is fresh when nobody can have delivered it before: not one that was delivered, nor
// one that another owner of its bucket may have.
func TestFresh(t *testing.T) {
	inBubble(t, func(w *world) {
		var mu sync.Mutex
		var fresh []bool
		fails := 0
		cfg := w.config()
		deliver := DeliverFunc(func(ctx context.Context, f actor.Firing) error {
			mu.Lock()
			defer mu.Unlock()
			fresh = append(fresh, f.Fresh)
			if fails--; fails >= 0 {
				return actor.ErrAmbiguous
			}
			return w.host.deliver(ctx, f)
		})
		want := func(list ...bool) {
			w.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(fresh) != len(list) {
				w.Fatalf("deliveries that are fresh: %v, want %v", fresh, list)
			}
			for i := range list {
				if fresh[i] != list[i] {
					w.Fatalf("deliveries that are fresh: %v, want %v", fresh, list)
				}
			}
			fresh = nil
		}
		cfg.Deliverer = deliver
		first := w.start(cfg)
		w.set(first, "first", true, once(time.Second))
		w.set(first, "every", true, func(sp *actor.ReminderSpec) {
			sp.Schedule.After, sp.Schedule.Every, sp.Schedule.Times = 10*time.Second, time.Second, 2
		})
		after(20 * time.Second)
		want(true, true, true)

		fails = 1
		w.set(first, "again", true, once(time.Second))
		after(20 * time.Second)
		want(true, false)

		w.set(first, "overdue", true, once(time.Minute))
		w.set(first, "later", true, once(10*time.Minute))
		if err := first.Stop(context.Background()); err != nil {
			w.Fatal(err)
		}
		after(2 * time.Minute)
		cfg = w.config()
		cfg.Deliverer = deliver
		w.start(cfg)
		after(20 * time.Minute)
		want(false, true)
	})
}

package reminder

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// countedPeers counts the releases that are asked for.
type countedPeers struct {
	Peers
	asked atomic.Int64
}

func (p *countedPeers) Release(ctx context.Context, host actor.HostID, r ReleaseRequest) ([]actor.ReminderID, error) {
	if p.asked.Add(1) > 1000 {
		<-ctx.Done() // so that the test ends
		return nil, ctx.Err()
	}
	return p.Peers.Release(ctx, host, r)
}

func (p *countedPeers) Notice(ctx context.Context, host actor.HostID, heads []store.ReminderHead) error {
	return p.Peers.Notice(ctx, host, heads)
}

// An instance that stops answers at once that nothing waits there: it is not asked again and
// again for that.
func TestStoppingInstanceIsNotAskedAgainAndAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		counted := &countedPeers{}
		a, b, _ := w.startPair(func(cfg *Config) { counted.Peers, cfg.Peers = cfg.Peers, counted })
		slow := make(chan struct{})
		w.host.turn = func(actor.Firing) error {
			<-slow
			return nil
		}
		w.set(b, "slow", true, once(time.Second))
		w.subscribe(a, 1, "jobs")
		after(time.Minute - 5*time.Second)
		before := counted.asked.Load()
		stopped := make(chan error, 1)
		go func() { stopped <- b.Stop(w.Context()) }()
		after(20 * time.Second)
		if n := counted.asked.Load() - before; n > 20 {
			t.Errorf("asked %d times in 20 s", n)
		}
		close(slow)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// What thousands of firings that failed lead to is committed before the service has stopped, although
// commits are slow: the next one runs none of them again. A stop whose context ends waits no longer.
func TestStopCommitsTheOutcomesOfFiringsThatFailed(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := w.config()
		cfg.Store = slowCommits{index(w.store, 0)}
		s := w.start(cfg)
		var runs atomic.Int64
		w.host.turn = func(actor.Firing) error {
			runs.Add(1)
			return &actor.GuestError{Code: "on_purpose"}
		}
		const count = 5000
		fail := func(s *Service, name string) {
			for i := range count {
				w.set(s, fmt.Sprint(name, i), true, func(sp *actor.ReminderSpec) {
					sp.Schedule.After = time.Second
					sp.Failure = actor.FailurePolicy{Kind: actor.FailureConstant, Attempts: 1}
				})
			}
			after(3 * time.Second)
		}
		dead := func() int {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			return len(w.store.dead)
		}
		fail(s, "a")
		if dead() == count {
			t.Fatal("all are dead letters before the stop")
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := dead(); n != count || w.store.left() != 0 {
			t.Errorf("after the stop %d of %d are dead letters, and %d are left", n, count, w.store.left())
		}
		s = w.start(cfg)
		after(time.Minute)
		if n := runs.Load(); n != count {
			t.Errorf("%d runs of %d reminders that are tried once", n, count)
		}

		fail(s, "b")
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 7*time.Second || w.store.left() == 0 {
			t.Errorf("a stop that may take 5 s took %v, and %d are left", took, w.store.left())
		}
	})
}

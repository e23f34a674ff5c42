package reminder

import (
	"context"
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

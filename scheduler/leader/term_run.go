package leader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// run leads until the lease cannot be renewed in time, no other host reaches this one, which
// it reports, or ctx ends. It then gives the lease back.
func (t *term) run(ctx context.Context) (reached bool) {
	log := t.cfg.Logger.With("epoch", t.lease.Epoch)
	log.Info("leading the cluster")
	t.cfg.led(t.lease.Epoch, true)
	defer func() {
		t.end(context.WithoutCancel(ctx), log)
		log.Info("not leading the cluster any more")
		t.cfg.led(t.lease.Epoch, false)
	}()
	ctx, lost := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { defer lost(); t.keep(ctx, log) })
	defer renewing.Wait()
	defer lost()
	read := time.NewTimer(0)
	defer read.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-t.renewals:
			t.lock()
			t.tables.Slow()
			t.plan()
			t.mu.Unlock()
		case <-read.C:
			read.Reset(t.readHosts(ctx, ""))
			if others := t.unreached(); others > 0 {
				log.Warn("none of the other hosts has a session with this leader: it lets another lead; see that they reach the address that this one advertises, and that all have the same cluster key",
					"advertised", t.cfg.Self.Address, "others", others)
				return false
			}
		case <-t.departed:
			read.Reset(t.readHosts(ctx, ""))
		}
	}
}

// end ends the term. First it sends the hosts what was decided. It ends their sessions once
// they have it and the lease is free for another leader, or when this takes long.
func (t *term) end(ctx context.Context, log *slog.Logger) {
	patience := time.After(clock.RenewEvery(t.cfg.Lease) / 4)
	t.lock()
	t.leader.Resign()
	var flushed []<-chan struct{}
	for id, h := range t.sessions {
		if id != t.lease.Holder { // which knows
			flushed = append(flushed, h.out.Flushed())
		}
	}
	t.mu.Unlock()
	released := make(chan struct{})
	go func() {
		defer close(released)
		// If this fails the next leader waits for the lease's end.
		ctx, cancel := context.WithTimeout(ctx, t.cfg.Lease)
		defer cancel()
		if err := t.cfg.Store.ReleaseLease(ctx, t.lease); err != nil {
			log.Warn("the leader's lease was not released", "error", err)
		}
	}()
	for _, done := range append(flushed, released) {
		select {
		case <-done:
			continue
		case <-patience:
		}
		break
	}
	close(t.ended)
	t.lock()
	for _, h := range t.sessions {
		h.end(protocol.ErrNotLeader)
	}
	t.mu.Unlock()
	<-released
}

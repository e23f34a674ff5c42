package leader

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// termLease is the leader's lease of one term.
type termLease struct {
	cfg   *Config
	lease actor.Lease
	began clock.Instant
	// sent is when the newest renewal of the lease was sent, a [clock.Instant]. The lease is
	// renewed under no lock; term.lock hands sent on to [ownership.Leader].
	sent atomic.Int64
	// renewals has a value when the lease was renewed.
	renewals chan struct{}
}

func newTermLease(cfg *Config, l actor.Lease, sent clock.Instant) *termLease {
	t := &termLease{cfg: cfg, lease: l, began: sent, renewals: make(chan struct{}, 1)}
	t.sent.Store(int64(sent))
	return t
}

// keep renews the lease until it cannot be renewed in time, another process leads, or ctx
// ends. It takes no lock, so nothing else that the leader does can end its term.
func (t *termLease) keep(ctx context.Context, log *slog.Logger) {
	renew := time.NewTimer(clock.RenewEvery(t.cfg.Lease)) // it has just been taken
	defer renew.Stop()
	for {
		remaining := clock.Instant(t.sent.Load()) + clock.Usable(t.cfg.Lease) - t.cfg.now()
		if remaining <= 0 {
			log.Warn("the leader's lease could not be renewed in time")
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(remaining):
		case <-renew.C:
			if !t.renew(ctx) {
				return
			}
			renew.Reset(clock.RenewEvery(t.cfg.Lease))
		}
	}
}

// renew reports false if another process leads.
func (t *termLease) renew(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.Lease/2)
	defer cancel()
	sent := t.cfg.now()
	held, err := t.cfg.Store.RenewLease(ctx, t.lease, t.cfg.Lease)
	if err != nil {
		t.cfg.Logger.Warn("the leader's lease was not renewed", "epoch", t.lease.Epoch, "error", err)
		return true // as long as its count lasts
	}
	if held {
		t.sent.Store(int64(sent))
		select {
		case t.renewals <- struct{}{}:
		default:
		}
	}
	return held
}

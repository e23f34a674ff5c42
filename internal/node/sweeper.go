package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/store"
)

const (
	// tombstoneAge is far above every statement timeout: a writer that still
	// remembers a row's version has given up by then.
	tombstoneAge = time.Hour
	sweepEvery   = 10 * time.Minute
	sweepBatch   = 500
)

// sweeper removes old tombstones and expired idempotency records. Several hosts may sweep one store.
type sweeper struct {
	store store.Store
	log   *slog.Logger

	cancel context.CancelFunc
	done   sync.WaitGroup
}

func (s *sweeper) Start(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.done.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot sweep the store; trying again later", "error", err)
			}
		}
	})
}

func (s *sweeper) Stop(context.Context) error {
	s.cancel()
	s.done.Wait()
	return nil
}

// sweep removes all that is old, in batches.
func (s *sweeper) sweep(ctx context.Context) error {
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	for _, batch := range []func() (int, error){
		func() (int, error) { return s.store.SweepTombstones(ctx, now.Add(-tombstoneAge), sweepBatch) },
		func() (int, error) { return s.store.SweepIdempotency(ctx, sweepBatch) },
	} {
		for n := sweepBatch; n == sweepBatch; {
			if n, err = batch(); err != nil {
				return err
			}
		}
	}
	return nil
}

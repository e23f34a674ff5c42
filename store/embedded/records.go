package embedded

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// records keeps recorded calls.
type records struct{ *writer }

func (s *records) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	if err := store.ValidateCalls(calls); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	now := s.clock.read()
	f, err := s.find(&recordKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	defer f.close()
	found := make([]actor.Recorded, len(calls))
	for i, c := range calls {
		key := recordKey(store.RecordIDOf(c))
		stored, err := readRecord(f, key)
		if err != nil {
			return nil, unavailable(err)
		}
		if err := s.await(ctx, s.syncs.covering(key)); err != nil {
			return nil, err
		}
		if stored != nil && stored.expires > now {
			found[i] = stored.recorded(c, now)
		}
	}
	return found, nil
}

func (s *records) SweepIdempotency(ctx context.Context, limit int) (int, error) {
	return s.sweep(ctx, limit, func(tx *tx) (int, error) { return tx.records.sweep(ctx, limit) })
}

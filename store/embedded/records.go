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
		if err := s.await(ctx, s.flights.over(key)); err != nil {
			return nil, err
		}
		if stored != nil && stored.expires > now {
			found[i] = stored.recorded(c, now)
		}
	}
	return found, nil
}

func (s *records) SweepIdempotency(ctx context.Context, limit int) (int, error) {
	if err := store.ValidateLimit(limit); err != nil {
		return 0, err
	}
	var swept int
	err := s.update(ctx, writeOptions{frees: true}, func(tx *tx) (err error) {
		swept, err = tx.records.sweep(ctx, limit)
		return unavailable(err)
	})
	if err != nil {
		return 0, unavailable(err) // sweeping may always go again
	}
	return swept, nil
}

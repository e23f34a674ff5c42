package faultstore

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// events is the part of a store that reads and trims events, with the fault of loads.
type events struct {
	inner store.Events
	plan  *plan
}

func (s *events) ReadEvents(ctx context.Context, q actor.EventQuery) (actor.EventPage, error) {
	if f := s.plan.first(LoadFails); f != "" {
		return actor.EventPage{}, f.unavailable()
	}
	return s.inner.ReadEvents(ctx, q)
}

func (s *events) NewestEvent(ctx context.Context, key actor.Key) (actor.EventPosition, error) {
	return s.inner.NewestEvent(ctx, key)
}

func (s *events) TrimEvents(ctx context.Context, key actor.Key, keep actor.EventsKept) error {
	return s.inner.TrimEvents(ctx, key, keep)
}

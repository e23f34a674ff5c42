package faultstore

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// services is the part of a store that reads services.
type services struct{ inner store.Services }

func (s *services) FindService(ctx context.Context, app, name string) (actor.Service, error) {
	return s.inner.FindService(ctx, app, name)
}

func (s *services) ListServices(ctx context.Context, q actor.ServiceQuery) ([]actor.Service, error) {
	return s.inner.ListServices(ctx, q)
}

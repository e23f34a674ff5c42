package turn

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// ServiceSource says who stands for services. Its methods may be called concurrently.
type ServiceSource interface {
	// FindService returns who stands for a service; the zero Service if nobody does.
	FindService(ctx context.Context, app, name string) (actor.Service, error)
}

// Services says who stands for services, for turns. Its methods may be called concurrently.
type Services interface {
	ServiceSource
	// Resolve is FindService, of a moment ago.
	Resolve(ctx context.Context, app, name string) (actor.Service, error)
}

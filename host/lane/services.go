package lane

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/turn"
)

const (
	// serviceAge is for how long a host knows who stands for a service.
	serviceAge = time.Second
	// maxKnownServices is how many of them it knows. An app that calls very many asks the store
	// more often, and so do the others then.
	maxKnownServices = 1 << 14
)

// Services is a [turn.Services] that remembers for a moment who stands for services, for calls and
// messages. Its methods may be called concurrently.
type Services struct {
	turn.ServiceSource
	mu    sync.Mutex
	known *simplelru.LRU[serviceName, knownService]
}

type serviceName struct{ app, name string }

type knownService struct {
	service actor.Service
	asked   time.Time
}

// NewServices returns Services that ask a source.
func NewServices(source turn.ServiceSource) *Services {
	known, err := simplelru.NewLRU[serviceName, knownService](maxKnownServices, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return &Services{ServiceSource: source, known: known}
}

// Resolve implements [turn.Services].
func (sv *Services) Resolve(ctx context.Context, app, name string) (actor.Service, error) {
	of, asked := serviceName{app, name}, time.Now()
	sv.mu.Lock()
	k, ok := sv.known.Get(of)
	sv.mu.Unlock()
	if ok && asked.Sub(k.asked) < serviceAge {
		return k.service, nil
	}
	var found actor.Service
	var err error
	engine.Outside(ctx, func() { found, err = sv.FindService(ctx, app, name) })
	if err == nil && found.Name != "" { // who claims a service may call it by that name at once
		sv.mu.Lock()
		sv.known.Add(of, knownService{found, asked})
		sv.mu.Unlock()
	}
	return found, err
}

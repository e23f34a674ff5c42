package transcode

import (
	"log/slog"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/typed"
)

// maxDeclarations bounds what is kept of the services that were read: a declaration takes about a
// kilobyte. Beyond it, the services that were asked for longest ago are read anew at their next call.
const maxDeclarations = 64 << 10

// Services reads the services of actor types, and keeps them. Make it with [NewServices]; its
// methods may be called concurrently.
type Services struct {
	log *slog.Logger

	mu sync.Mutex
	// read has the services that were read, and declarations the sum of their sizes.
	read         *simplelru.LRU[typeOfModule, *typed.Service]
	declarations int
}

// typeOfModule names an actor type of a module.
type typeOfModule struct {
	digest actor.Digest
	typ    string
}

// NewServices returns Services without any.
func NewServices(log *slog.Logger) *Services {
	s := &Services{log: log}
	s.read, _ = simplelru.NewLRU(maxDeclarations, func(_ typeOfModule, gone *typed.Service) { s.declarations -= gone.Size }) // fails without a size
	return s
}

// Of returns the service of a type that has one, as its deployment declares it; ok is false if the
// service cannot be read.
func (s *Services) Of(d actor.Deployment, spec *abi.TypeSpec) (service *typed.Service, ok bool) {
	of := typeOfModule{d.Digest, spec.Name}
	s.mu.Lock()
	service, ok = s.read.Get(of)
	s.mu.Unlock()
	if ok {
		return service, true
	}
	service, problems := typed.Parse(spec)
	if len(problems) > 0 { // the upload had none: the version that took it read descriptors otherwise
		s.log.Error("a deployed service cannot be read", "app", d.App, "actor_type", spec.Name, "module", d.Digest.Short(), "error", problems[0])
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.read.Get(of); ok {
		return other, true
	}
	s.read.Add(of, service)
	for s.declarations += service.Size; s.declarations > maxDeclarations; {
		s.read.RemoveOldest()
	}
	return service, true
}

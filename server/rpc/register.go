package rpc

import (
	"context"
	"runtime"

	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/events"
	"github.com/greenroom-run/greenroom/server/query"
	"github.com/greenroom-run/greenroom/server/transcode"
)

// New adds to an edge the services that the backends allow. Streams end when draining ends.
func New(draining context.Context, e *edge.Edge, to Backends) *Services {
	s := &Services{Backends: to, edge: e, Health: newHealth(e.Log), draining: draining, compiler: query.NewCompiler(), queries: fair.NewPlaces(runtime.GOMAXPROCS(0) / queryShare)}
	s.Calls = &transcode.Host{To: to.Host, Types: to.Modules, Receivers: to.Messages, Services: transcode.NewServices(e.Log), MaxPayload: e.Conf.MaxPayloadBytes}
	limit := int64(e.Conf.Bounds.Streams)
	s.Streams = edge.NewPlaces(streamBounds("streams open", limit), "put more calls on each, or use another server")
	s.subscribers = edge.NewPlaces(streamBounds("subscribers", limit), "have each subscribe to more, or use another server")
	s.watches = edge.NewPlaces(streamBounds("watches of services", watches), "end others, or use another server")
	s.Events = events.New(draining, to.Feed, int64(e.Conf.MaxSubscriptions))
	s.streamConf = newStreamConfig(s)
	all := []edge.Service{newActorService(s), newModuleService(s), newLogService(s)}
	if s.Settings != nil {
		all = append(all, newSettingsService(s))
	}
	if s.Reminders != nil {
		all = append(all, newReminderService(s))
	}
	cluster := newCluster(s)
	if cluster != nil {
		all = append(all, newClusterService(s, cluster))
	}
	all = append(all, newStatusService(s, cluster))
	for _, sv := range all {
		s.Health.services = append(s.Health.services, sv.Name)
	}
	all = append(all, newHealthService(s))
	var names []string
	for _, sv := range all {
		names = append(names, sv.Name)
	}
	guests := newGuestServices(s)
	e.HandleGuests("guest", s.Modules.HasService, guests)
	all = append(all, newReflection(s, names, guests))
	if s.Interconnect != nil {
		all = append(all, newPeerServices(s)) // nothing for clients to see
	}
	e.Handle(all...)
	e.HandlePlain("/healthz", true, s.Health.serveAlive)
	e.HandlePlain("/readyz", true, s.Health.serveReady)
	return s
}

package rpc

import (
	"github.com/greenroom-run/greenroom/api/gen/grpc/health/v1/healthv1connect"
	"github.com/greenroom-run/greenroom/server/edge"
)

// newHealthService registers health, for anybody to ask.
func newHealthService(s *Services) edge.Service {
	sv := edge.Service{Name: healthv1connect.HealthName}
	_, h := healthv1connect.NewHealthHandler(s.Health, s.edge.HandlerOptions(s.edge.PayloadRoute())...)
	check, watch := edge.SmallRoute(), edge.StreamRoute()
	check.Open, watch.Open = true, true
	sv.Serve(edge.RoleRead, check, h, healthv1connect.HealthCheckProcedure)
	sv.Serve(edge.RoleRead, watch, h, healthv1connect.HealthWatchProcedure)
	return sv
}

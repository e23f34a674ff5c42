package rpc

import (
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/store"
)

const (
	// watchEvery is how often the services of a watch are read: as long as a server may know who
	// stands for one.
	watchEvery = time.Second
	// watchIdle is after how long the same services are sent again: a stream that says nothing may
	// be broken.
	watchIdle = 25 * time.Second
)

// WatchServices implements ActorService.
func (a *actorService) WatchServices(ctx context.Context, req *connect.Request[greenroomv1.WatchServicesRequest], stream *connect.ServerStream[greenroomv1.WatchServicesResponse]) error {
	app := edge.AppOf(req.Msg.GetApp())
	if err := a.s.watches.Enter(app); err != nil {
		return err
	}
	defer a.s.watches.Leave(app)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var known []actor.Service
	var sent time.Time
	for {
		found, err := a.s.Actors.ListServices(ctx, actor.ServiceQuery{App: app, Prefix: req.Msg.GetPrefix(), Limit: store.MaxList})
		if err != nil {
			return err
		}
		if now := time.Now(); !slices.Equal(found, known) || now.Sub(sent) >= watchIdle {
			known, sent = found, now
			if err := stream.Send(&greenroomv1.WatchServicesResponse{Services: mapped(found, serviceToProto), More: len(found) == store.MaxList}); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-a.s.draining.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

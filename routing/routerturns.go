package routing

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// CountTurns returns what another host counted of an app's turns. A host that cannot be asked is
// [actor.ErrUnavailable]; one of an earlier version answers with an error.
func (r *Router) CountTurns(ctx context.Context, host actor.HostID, app string) (*greenroomv1.ExchangeTurnsResponse, error) {
	p := r.peers.get(host)
	if p == nil {
		return nil, fmt.Errorf("%w: host %s is not known as a member", actor.ErrUnavailable, host)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.PeerTimeout)
	defer cancel()
	return ask(ctx, p, p.unary.CountTurns, &greenroomv1.ExchangeTurnsRequest{Hello: p.hello(), App: app})
}

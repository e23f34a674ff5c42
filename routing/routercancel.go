package routing

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
)

// CancelQueued cancels what waits at another host for an actor or, without an ID, for all actors of
// a type. A host that cannot be asked is [actor.ErrUnavailable]; one of an earlier version answers with
// an error.
func (r *Router) CancelQueued(ctx context.Context, at actor.HostID, of actor.Key) (host.Cancelled, error) {
	p := r.peers.get(at)
	if p == nil {
		return host.Cancelled{}, fmt.Errorf("%w: host %s is not known as a member", actor.ErrUnavailable, at)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.PeerTimeout)
	defer cancel()
	msg, err := ask(ctx, p, p.unary.CancelQueued, &greenroomv1.ExchangeCancelRequest{Hello: p.hello(), App: of.App, Type: of.Type, Id: of.ID})
	if err != nil {
		return host.Cancelled{}, err
	}
	c := host.Cancelled{Calls: int(msg.GetCalls()), Tells: int(msg.GetVolatileMessages())}
	for _, text := range msg.GetBegun() {
		id, err := actor.ParseReminderID(text)
		if err != nil {
			return c, fmt.Errorf("host %s: %w", at, err)
		}
		c.Begun = append(c.Begun, id)
	}
	return c, nil
}

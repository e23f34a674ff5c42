package routing

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// ReleaseReminders asks another host for reminders that wait there for subscribers of these
// keys, at most limit of them; it waits for the first for so long. An error wraps
// [actor.ErrUnavailable].
func (r *Router) ReleaseReminders(ctx context.Context, host actor.HostID, keys []actor.Key, limit int, wait time.Duration) ([]actor.ReminderID, error) {
	unavailable := func(why any) error {
		return fmt.Errorf("%w: host %s releases no reminders: %v", actor.ErrUnavailable, host, why)
	}
	p := r.peers.get(host)
	if p == nil || p.protocol < protocolRelease {
		return nil, unavailable("it is not known as a member, or is of an older version")
	}
	ctx, cancel := context.WithTimeout(ctx, wait+3*r.cfg.PeerTimeout)
	defer cancel()
	req := connect.NewRequest(&greenroomv1.ExchangeReleaseRequest{
		Hello: p.hello(), Limit: uint32(limit), WaitMs: uint32(wait.Milliseconds()), //nolint:gosec // small numbers
	})
	for _, key := range keys {
		req.Msg.Subscriptions = append(req.Msg.Subscriptions, protoKey(key))
	}
	p.authorize(req.Header())
	res, err := p.unary.ReleaseReminders(ctx, req)
	if err != nil {
		return nil, unavailable(err)
	}
	ids := make([]actor.ReminderID, len(res.Msg.GetReminderIds()))
	for i, text := range res.Msg.GetReminderIds() {
		if ids[i], err = actor.ParseReminderID(text); err != nil {
			return nil, unavailable(err)
		}
	}
	return ids, nil
}

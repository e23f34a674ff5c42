package routing

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/store"
)

// NoticeReminders notifies another host of changed reminders of its buckets. An error wraps
// [actor.ErrUnavailable].
func (r *Router) NoticeReminders(ctx context.Context, host actor.HostID, heads []store.ReminderHead) error {
	unavailable := func(why any) error {
		return fmt.Errorf("%w: host %s takes no notice of reminders: %v", actor.ErrUnavailable, host, why)
	}
	p := r.peers.get(host)
	if p == nil || p.protocol < protocolRelease {
		return unavailable("it is not known as a member, or is of an older version")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*r.cfg.PeerTimeout)
	defer cancel()
	req := &greenroomv1.ExchangeNoticeRequest{Hello: p.hello()}
	for _, h := range heads {
		req.Reminders = append(req.Reminders, &greenroomv1.NoticedReminder{Id: h.ID.String(), FireAt: timestamppb.New(h.FireAt)})
	}
	if _, err := ask(ctx, p, p.unary.NoticeReminders, req); err != nil {
		return unavailable(err)
	}
	return nil
}

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
	req := &greenroomv1.ExchangeReleaseRequest{
		Hello: p.hello(), Limit: uint32(limit), WaitMs: uint32(wait.Milliseconds()), //nolint:gosec // small numbers
	}
	for _, key := range keys {
		req.Subscriptions = append(req.Subscriptions, protoKey(key))
	}
	res, err := ask(ctx, p, p.unary.ReleaseReminders, req)
	if err != nil {
		return nil, unavailable(err)
	}
	ids := make([]actor.ReminderID, len(res.GetReminderIds()))
	for i, text := range res.GetReminderIds() {
		if ids[i], err = actor.ParseReminderID(text); err != nil {
			return nil, unavailable(err)
		}
	}
	return ids, nil
}

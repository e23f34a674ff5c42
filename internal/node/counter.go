package node

import (
	"context"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// counter counts what apps store, a bounded number of rows at a time: it is a [host.Counter].
type counter struct{ store store.Store }

// CountStored implements [host.Counter].
func (c counter) CountStored(ctx context.Context, app string, quotas []actor.Quota) (all actor.Stored, err error) {
	has := func(q actor.Quota) bool { return slices.Contains(quotas, q) }
	if has(actor.QuotaActors) || has(actor.QuotaBytes) {
		types, err := c.store.Deployments(ctx, app)
		if err != nil {
			return all, err
		}
		for _, d := range types {
			if err := c.countActors(ctx, app, d.Type, &all); err != nil {
				return all, err
			}
		}
	}
	if has(actor.QuotaReminders) || has(actor.QuotaMessages) {
		var at actor.ReminderName
		for more := true; more; {
			count, next, err := c.store.CountReminders(ctx, app, at, store.MaxExamined)
			if err != nil {
				return all, err
			}
			all.Reminders += int64(count.Reminders)
			all.Messages += int64(count.Messages)
			at, more = next, next.Name != ""
		}
	}
	return all, nil
}

// countActors adds the actors of a type, also of one that is undeployed, and their states.
func (c counter) countActors(ctx context.Context, app, typ string, all *actor.Stored) error {
	q := store.ActorScan{App: app, Type: typ, Limit: store.MaxExamined, AllowStale: true}
	for more := true; more; {
		page := actor.Stored{}
		_, next, err := c.store.ScanActors(ctx, q, func(row *store.ScannedActor) bool {
			page.Actors++
			page.Bytes += row.StateSize
			return true
		})
		if err != nil {
			return err
		}
		all.Add(page, 1)
		q.After, more = next, next != ""
	}
	return nil
}

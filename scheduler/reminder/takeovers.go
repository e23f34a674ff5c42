package reminder

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/store"
)

// takeovers takes over what waits at other instances for subscribers that are here. Its methods
// may be called concurrently.
type takeovers struct {
	cfg        *Config
	clock      *dbClock
	tenure     *tenure
	outcomes   outcomes
	counters   *counters
	table      *bucketTable
	creators   *creators
	deliveries *deliveries
	subs       *subscribers
	tasks      *tasks
}

// notify notifies the owners of reminders that were changed here, in the background. An owner that
// gets no notice finds the reminders at its next poll. Owners are notified also of what is due
// beyond the window: an owner may take the bucket for empty, and not read it.
func (t *takeovers) notify(changed []store.ReminderHead) {
	if t.cfg.Peers == nil {
		return
	}
	heads := map[actor.HostID][]store.ReminderHead{}
	self := t.tenure.host()
	for _, h := range changed {
		row, _, known := t.table.row(h.ID.Bucket())
		if known && row.Owner != "" && row.Owner != self {
			heads[row.Owner] = append(heads[row.Owner], h)
		}
	}
	for owner, list := range heads {
		t.tasks.run(func() {
			for part := range slices.Chunk(list, MaxRelease) {
				if err := t.cfg.Peers.Notice(t.deliveries.queue.ctx, owner, part); err != nil {
					t.cfg.Logger.Debug("the owner of reminders was not told of their change", "owner", owner, "error", err)
				}
			}
		})
	}
}

// run keeps asking every other instance for what waits there for subscribers that
// are here.
func (t *takeovers) run(ctx context.Context) {
	asked := map[actor.HostID]context.CancelFunc{}
	for {
		live, self := t.table.instances(), t.tenure.host()
		for host, cancel := range asked {
			if !slices.Contains(live, host) {
				cancel()
				delete(asked, host)
			}
		}
		for _, host := range live {
			if _, already := asked[host]; already || host == self {
				continue
			}
			its, cancel := context.WithCancel(ctx)
			asked[host] = cancel
			t.tasks.run(func() { t.takeOverFrom(its, host) })
		}
		if !clock.Pause(ctx, pollEvery) {
			for _, cancel := range asked {
				cancel()
			}
			return
		}
	}
}

func (t *takeovers) takeOverFrom(ctx context.Context, host actor.HostID) {
	failing := false // which is said once
	for ctx.Err() == nil {
		keys, limit, changed := t.subs.free()
		if limit == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		asked := time.Now()
		ids, err := t.cfg.Peers.Release(ctx, host, ReleaseRequest{keys, limit, releaseWait})
		if err == nil && len(ids) > 0 {
			err = t.takeOver(ctx, keys, ids)
		} else if err == nil { // an instance that stops has nothing to release, and answers at once
			clock.Pause(ctx, releaseWait-time.Since(asked))
		}
		failed := err != nil
		if failed {
			if ctx.Err() == nil && !failing {
				t.cfg.Logger.Warn("reminders that subscribers here wait for were not taken over", "from", host, "error", err)
			}
			clock.Pause(ctx, pollEvery)
		}
		failing = failed
	}
}

// takeOver gives reminders that another instance has released tokens of this one's bucket,
// each in a commit that rests on its ID and version.
func (t *takeovers) takeOver(ctx context.Context, keys []actor.Key, ids []actor.ReminderID) error {
	rows, err := t.cfg.Store.LoadReminders(ctx, ids)
	var damaged *store.DamagedReminders
	if err != nil && !errors.As(err, &damaged) { // which their owner tells of
		return err
	}
	now := t.clock.now()
	var commits []actor.Commit
	var of []*actor.Reminder // those that are borrowed; nil: it is moved
	for i := range rows {
		r := &rows[i]
		if r.Version == 0 || r.Paused || r.FireAt.After(now) || !slices.Contains(keys, r.Key) {
			continue
		}
		id, err := t.creators.token(ctx, r.Key.App)
		if err != nil {
			for _, r := range of {
				if r != nil {
					t.outcomes.done(r.ID)
				}
			}
			return err
		}
		if t.outcomes.owns(id.Bucket()) {
			commits, of = append(commits, moved(r, id, t.outcomes.deliveredTill(id.Bucket()))), append(of, nil)
		} else if t.outcomes.borrow(r.ID) {
			c := actor.CommitOf()
			// The owner of its bucket does not deliver it before the time for its execution is over.
			c.Reminders.Steps = []actor.ReminderStep{put(r, now.Add(t.cfg.ExecutionTimeout+releasedFor))}
			commits, of = append(commits, c), append(of, r)
		}
	}
	if len(commits) == 0 {
		return nil
	}
	for i, err := range t.cfg.Store.Commit(ctx, commits) {
		borrowed := of[i]
		if borrowed != nil && err != nil {
			t.outcomes.done(borrowed.ID)
		}
		switch {
		case err == nil && borrowed != nil:
			borrowed.Version, borrowed.FireAt = borrowed.Version+1, now
			t.deliveries.consider(borrowed.ID, borrowed)
		case err == nil:
			r := &commits[i].Reminders.Set[0]
			t.counters.takenOver()
			t.outcomes.noticed([]store.ReminderHead{{ID: r.ID, FireAt: r.FireAt}})
		case errors.Is(err, actor.ErrFiringTaken), errors.Is(err, actor.ErrKeyExists): // it fired, or was changed, meanwhile
		default:
			t.cfg.Logger.Warn("a reminder was not taken over", "reminder", commits[i].Reminders.Steps[0].ID.String(), "error", err)
		}
	}
	return nil
}

// moved is the commit that gives a reminder another ID, of a bucket that is delivered till a
// time.
func moved(r *actor.Reminder, id actor.ReminderID, till time.Time) actor.Commit {
	c := actor.CommitOf()
	c.Reminders.Steps = []actor.ReminderStep{{ReminderName: nameOf(r), ID: r.ID, Version: r.Version}}
	then := *r
	then.ID, then.Version, then.Keep = id, 1, false
	if then.FireAt.Before(till) { // it may have waited for days, and the next owner looks from there on
		then.FireAt = schedule.Ceil(till)
	}
	c.Reminders.Set = []actor.Reminder{then}
	if r.Schedule.Recurring() {
		c.Records = []actor.IdempotencyRecord{movedRecord(r.Key.App, r.ID, id)}
	}
	return c
}

// movedCall is what the new ID of a reminder that was taken over is recorded under, as the reply
// to a call with an idempotency key is.
func movedCall(app string, id actor.ReminderID) actor.KeyedCall {
	return actor.KeyedCall{Actor: actor.Key{App: app, Type: "greenroom.reminder", ID: id.String()}, Method: "greenroom.moved", Key: "id"}
}

func movedRecord(app string, from, to actor.ReminderID) actor.IdempotencyRecord {
	c := movedCall(app, from)
	return actor.IdempotencyRecord{
		Actor: c.Actor, Method: c.Method, Key: c.Key, TTL: movedKnown,
		Reply: actor.Payload{ContentType: "text/plain; charset=utf-8", Data: []byte(to.String())},
	}
}

// movedKnown is for how long the ID that a recurring reminder had before a take-over leads to
// the one that it has now. One that fires once has little use for it: it is taken over to be
// executed.
const movedKnown = 30 * 24 * time.Hour

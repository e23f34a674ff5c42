package faultstore_test

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// retrying is a client that tries again what is unavailable, as every caller
// may. A closed store stays unavailable, so it ends.
type retrying struct{ store.Store }

const tries = 40

func retry(do func() error) error {
	var err error
	for range tries {
		if err = do(); !errors.Is(err, actor.ErrUnavailable) {
			return err
		}
	}
	return err
}

func (r retrying) LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) (rows []actor.Row, err error) {
	err = retry(func() error {
		rows, err = r.Store.LoadActors(ctx, keys, opts)
		return err
	})
	return rows, err
}

func (r retrying) Versions(ctx context.Context, keys []actor.Key) (versions []actor.RowVersion, err error) {
	err = retry(func() error {
		versions, err = r.Store.Versions(ctx, keys)
		return err
	})
	return versions, err
}

// Commit sends those commits of a group again that were unavailable.
func (r retrying) Commit(ctx context.Context, commits []actor.Commit) []error {
	errs := make([]error, len(commits))
	again := make([]int, len(commits))
	for i := range again {
		again[i] = i
	}
	for range tries {
		if len(again) == 0 {
			break
		}
		var group []actor.Commit
		for _, i := range again {
			group = append(group, commits[i])
		}
		var next []int
		for j, err := range r.Store.Commit(ctx, group) {
			errs[again[j]] = err
			if errors.Is(err, actor.ErrUnavailable) {
				next = append(next, again[j])
			}
		}
		again = next
	}
	return errs
}

func (r retrying) LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (c *actor.Commit, err error) {
	err = retry(func() error {
		c, err = r.Store.LockedTurn(ctx, key, fn)
		return err
	})
	return c, err
}

func (r retrying) Settle(ctx context.Context, c actor.Commit) error {
	return retry(func() error { return r.Store.Settle(ctx, c) })
}

func (r retrying) PutModule(ctx context.Context, m actor.Module, wasm actor.Code, most int64) error {
	return retry(func() error { return r.Store.PutModule(ctx, m, wasm, most) })
}

func (r retrying) DeleteModule(ctx context.Context, app string, d actor.Digest) error {
	return retry(func() error { return r.Store.DeleteModule(ctx, app, d) })
}

func (r retrying) Deploy(ctx context.Context, ds []actor.Deployment, revision uint64) error {
	return retry(func() error { return r.Store.Deploy(ctx, ds, revision) })
}

func (r retrying) PutSetting(ctx context.Context, set actor.Setting) error {
	return retry(func() error { return r.Store.PutSetting(ctx, set) })
}

func (r retrying) ReplaceSetting(ctx context.Context, set actor.Setting, was []byte) (replaced bool, err error) {
	err = retry(func() error {
		replaced, err = r.Store.ReplaceSetting(ctx, set, was)
		return err
	})
	return replaced, err
}

func (r retrying) SettingApps(ctx context.Context, after string, limit int) (apps []string, err error) {
	err = retry(func() error {
		apps, err = r.Store.SettingApps(ctx, after, limit)
		return err
	})
	return apps, err
}

func (r retrying) DeleteSetting(ctx context.Context, app string, kind actor.SettingKind, name string) error {
	return retry(func() error { return r.Store.DeleteSetting(ctx, app, kind, name) })
}

func (r retrying) Settings(ctx context.Context, app string) (list []actor.Setting, err error) {
	err = retry(func() error {
		list, err = r.Store.Settings(ctx, app)
		return err
	})
	return list, err
}

func (r retrying) LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) (found []actor.Recorded, err error) {
	err = retry(func() error {
		found, err = r.Store.LoadIdempotency(ctx, calls)
		return err
	})
	return found, err
}

func (r retrying) AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (row actor.BucketRow, err error) {
	err = retry(func() error {
		row, err = r.Store.AllocateBucket(ctx, app, creator, fresh)
		return err
	})
	return row, err
}

func (r retrying) AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (row actor.BucketRow, done bool, err error) {
	err = retry(func() error {
		row, done, err = r.Store.AssignBucket(ctx, b, epoch, owner)
		return err
	})
	return row, done, err
}

func (r retrying) CloseBucket(ctx context.Context, b actor.Bucket) error {
	return retry(func() error { return r.Store.CloseBucket(ctx, b) })
}

func (r retrying) SaveBuckets(ctx context.Context, progress []store.BucketProgress) error {
	return retry(func() error { return r.Store.SaveBuckets(ctx, progress) })
}

func (r retrying) RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (gone bool, err error) {
	err = retry(func() error {
		gone, err = r.Store.RemoveBucket(ctx, b, closedBefore)
		return err
	})
	return gone, err
}

func (r retrying) Buckets(ctx context.Context, after actor.Bucket, limit int) (rows []actor.BucketRow, err error) {
	err = retry(func() error {
		rows, err = r.Store.Buckets(ctx, after, limit)
		return err
	})
	return rows, err
}

func (r retrying) DueReminders(ctx context.Context, q store.DueQuery) (heads []store.ReminderHead, err error) {
	err = retry(func() error {
		heads, err = r.Store.DueReminders(ctx, q)
		return err
	})
	return heads, err
}

func (r retrying) RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) (heads []store.ReminderHead, err error) {
	err = retry(func() error {
		heads, err = r.Store.RecentReminders(ctx, b, ranges, limit)
		return err
	})
	return heads, err
}

func (r retrying) LoadReminders(ctx context.Context, ids []actor.ReminderID) (found []actor.Reminder, err error) {
	err = retry(func() error {
		found, err = r.Store.LoadReminders(ctx, ids)
		return err
	})
	return found, err
}

func (r retrying) FindReminders(ctx context.Context, names []actor.ReminderName) (found []actor.Reminder, err error) {
	err = retry(func() error {
		found, err = r.Store.FindReminders(ctx, names)
		return err
	})
	return found, err
}

func (r retrying) ListReminders(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	err = retry(func() error {
		list, next, err = r.Store.ListReminders(ctx, q)
		return err
	})
	return list, next, err
}

func (r retrying) ReminderNames(ctx context.Context, q store.ReminderNameQuery) (names []string, err error) {
	err = retry(func() error {
		names, err = r.Store.ReminderNames(ctx, q)
		return err
	})
	return names, err
}

func (r retrying) ListMessages(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	err = retry(func() error {
		list, next, err = r.Store.ListMessages(ctx, q)
		return err
	})
	return list, next, err
}

func (r retrying) CountReminders(ctx context.Context, app string, after actor.ReminderName, limit int) (count store.ReminderCount, next actor.ReminderName, err error) {
	err = retry(func() error {
		count, next, err = r.Store.CountReminders(ctx, app, after, limit)
		return err
	})
	return count, next, err
}

func (r retrying) Inbox(ctx context.Context, key actor.Key, limit int) (size store.InboxSize, err error) {
	err = retry(func() error {
		size, err = r.Store.Inbox(ctx, key, limit)
		return err
	})
	return size, err
}

func (r retrying) ReadEvents(ctx context.Context, q actor.EventQuery) (page actor.EventPage, err error) {
	err = retry(func() error {
		page, err = r.Store.ReadEvents(ctx, q)
		return err
	})
	return page, err
}

func (r retrying) ListDeadLetters(ctx context.Context, q store.DeadLetterQuery) (letters []actor.DeadLetter, err error) {
	err = retry(func() error {
		letters, err = r.Store.ListDeadLetters(ctx, q)
		return err
	})
	return letters, err
}

func (r retrying) RemoveDeadLetter(ctx context.Context, id actor.ReminderID, due time.Time) (was bool, err error) {
	err = retry(func() error {
		was, err = r.Store.RemoveDeadLetter(ctx, id, due)
		return err
	})
	return was, err
}

package faultstore

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// reminders is the part of a store that keeps buckets and reads reminders, with faults.
type reminders struct {
	inner store.Reminders
	plan  *plan
}

// buckets runs an operation on buckets or dead letters with its faults.
func (s *reminders) buckets(do func() error) error {
	return s.plan.around(BucketFails, BucketReplyLost, do)
}

// readReminders runs a read with its fault.
func readReminders[T any](s *reminders, read func() ([]T, error)) ([]T, error) {
	if f := s.plan.first(ReminderReadFails); f != "" {
		return nil, f.unavailable()
	}
	return read()
}

func (s *reminders) AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (row actor.BucketRow, err error) {
	err = s.buckets(func() error {
		row, err = s.inner.AllocateBucket(ctx, app, creator, fresh)
		return err
	})
	if err != nil {
		return actor.BucketRow{}, err
	}
	return row, nil
}

func (s *reminders) AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (row actor.BucketRow, done bool, err error) {
	err = s.buckets(func() error {
		row, done, err = s.inner.AssignBucket(ctx, b, epoch, owner)
		return err
	})
	if err != nil {
		return actor.BucketRow{}, false, err
	}
	return row, done, nil
}

func (s *reminders) CloseBucket(ctx context.Context, b actor.Bucket) error {
	return s.buckets(func() error { return s.inner.CloseBucket(ctx, b) })
}

func (s *reminders) SaveBuckets(ctx context.Context, progress []store.BucketProgress) error {
	return s.buckets(func() error { return s.inner.SaveBuckets(ctx, progress) })
}

func (s *reminders) RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (gone bool, err error) {
	err = s.buckets(func() error {
		gone, err = s.inner.RemoveBucket(ctx, b, closedBefore)
		return err
	})
	return gone && err == nil, err
}

func (s *reminders) Buckets(ctx context.Context, after actor.Bucket, limit int) ([]actor.BucketRow, error) {
	return readReminders(s, func() ([]actor.BucketRow, error) { return s.inner.Buckets(ctx, after, limit) })
}

func (s *reminders) DueReminders(ctx context.Context, q store.DueQuery) ([]store.ReminderHead, error) {
	return readReminders(s, func() ([]store.ReminderHead, error) { return s.inner.DueReminders(ctx, q) })
}

func (s *reminders) RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) ([]store.ReminderHead, error) {
	return readReminders(s, func() ([]store.ReminderHead, error) { return s.inner.RecentReminders(ctx, b, ranges, limit) })
}

func (s *reminders) LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	return readReminders(s, func() ([]actor.Reminder, error) { return s.inner.LoadReminders(ctx, ids) })
}

func (s *reminders) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	return readReminders(s, func() ([]actor.Reminder, error) { return s.inner.FindReminders(ctx, names) })
}

func (s *reminders) ListReminders(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	list, err = readReminders(s, func() (list []actor.Reminder, err error) {
		list, next, err = s.inner.ListReminders(ctx, q)
		return list, err
	})
	return list, next, err
}

func (s *reminders) ReminderNames(ctx context.Context, q store.ReminderNameQuery) ([]string, error) {
	return readReminders(s, func() ([]string, error) { return s.inner.ReminderNames(ctx, q) })
}

func (s *reminders) ListMessages(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	list, err = readReminders(s, func() (list []actor.Reminder, err error) {
		list, next, err = s.inner.ListMessages(ctx, q)
		return list, err
	})
	return list, next, err
}

func (s *reminders) CountReminders(ctx context.Context, app string, after actor.ReminderName, limit int) (count store.ReminderCount, next actor.ReminderName, err error) {
	counts, err := readReminders(s, func() ([]store.ReminderCount, error) {
		count, next, err = s.inner.CountReminders(ctx, app, after, limit)
		return []store.ReminderCount{count}, err
	})
	if err != nil {
		return store.ReminderCount{}, actor.ReminderName{}, err
	}
	return counts[0], next, nil
}

func (s *reminders) Inbox(ctx context.Context, key actor.Key, limit int) (store.InboxSize, error) {
	size, err := readReminders(s, func() ([]store.InboxSize, error) {
		size, err := s.inner.Inbox(ctx, key, limit)
		return []store.InboxSize{size}, err
	})
	if err != nil {
		return store.InboxSize{}, err
	}
	return size[0], nil
}

func (s *reminders) ListDeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	return readReminders(s, func() ([]actor.DeadLetter, error) { return s.inner.ListDeadLetters(ctx, q) })
}

func (s *reminders) RemoveDeadLetter(ctx context.Context, id actor.ReminderID, due time.Time) (was bool, err error) {
	err = s.buckets(func() error {
		was, err = s.inner.RemoveDeadLetter(ctx, id, due)
		return err
	})
	return was && err == nil, err
}

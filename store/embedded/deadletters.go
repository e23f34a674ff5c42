package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// deadLetters keeps the firings that failed as often as their reminders allow.
type deadLetters struct{ *writer }

func (s *deadLetters) ListDeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	if err := store.ValidateLimit(q.Limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	l, err := readLap(s.db, q.App)
	if err != nil || l == nil {
		return nil, err
	}
	prefix := binary.BigEndian.AppendUint32([]byte(deadSpace), uint32(l.Prefix))
	from := prefix
	if q.AfterID != (actor.ReminderID{}) {
		if above := append(deadKey(q.AfterID, q.AfterDue.UnixMicro()), 0); bytes.Compare(above, from) > 0 {
			from = above // and never below, where other apps' are
		}
	}
	to := prefixEnd(prefix)
	if bytes.Compare(from, to) >= 0 {
		return nil, nil
	}
	var list []actor.DeadLetter
	err = s.scan(ctx, from, to, func(key, value []byte) (more bool, err error) {
		var r deadRecord
		if err := decodeRecord(key, value, &r); err != nil {
			return true, nil //nolint:nilerr // one that cannot be read hides no other
		}
		if (q.Type == "" || q.Type == r.Reminder.Type) && q.Kind.Selects(r.Reminder.Message != nil) {
			list = append(list, actor.DeadLetter{Reminder: r.Reminder.reminder(), Reason: r.Reason, FailedAt: time.UnixMicro(r.FailedAt).UTC()})
		}
		return len(list) < q.Limit, nil
	})
	return list, err
}

func (s *deadLetters) RemoveDeadLetter(ctx context.Context, id actor.ReminderID, due time.Time) (was bool, err error) {
	key := deadKey(id, due.UnixMicro())
	err = s.update(ctx, writeOptions{frees: true}, func(tx *tx) error {
		value, err := tx.get(key)
		if err != nil {
			return unavailable(err)
		}
		if was = value != nil; was {
			tx.delete(key)
		}
		return nil
	})
	return was && err == nil, err
}

package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// reminders reads reminders. Commits write them.
type reminders struct{ *writer }

func (s *reminders) DueReminders(ctx context.Context, q store.DueQuery) ([]store.ReminderHead, error) {
	if err := store.ValidateDueQuery(&q); err != nil {
		return nil, err
	}
	first := int64(-1 << 63)
	if !q.AfterTime.IsZero() {
		first = q.AfterTime.UnixMicro()
	}
	from := dueKey(q.Bucket, first, 0)
	if q.AfterToken != nil {
		from = append(dueKey(q.Bucket, first, *q.AfterToken), 0)
	}
	to := dueKey(q.Bucket, q.Before.UnixMicro(), 0)
	var heads []store.ReminderHead
	err := s.list(ctx, from, to, func(key, _ []byte) (more bool, err error) {
		micros, token, err := parseDueKey(key)
		if err != nil {
			return false, fmt.Errorf("entry %q of the due reminders: %w", key, err)
		}
		heads = append(heads, store.ReminderHead{
			ID:     actor.ReminderID{Prefix: q.Bucket.Prefix, Vector: q.Bucket.Vector, Token: token},
			FireAt: time.UnixMicro(micros).UTC(),
		})
		return len(heads) < q.Limit, nil
	})
	return heads, err
}

func (s *reminders) RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) ([]store.ReminderHead, error) {
	if err := store.ValidateRanges(b, limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	f, err := s.find(&reminderKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	defer f.close()
	var heads []store.ReminderHead
	for _, r := range ranges {
		id := actor.ReminderID{Prefix: b.Prefix, Vector: b.Vector, Token: r.From}
		from := tokenKey(id)
		id.Token = r.To
		to := append(tokenKey(id), 0)
		if len(heads) == limit || bytes.Compare(from, to) >= 0 {
			continue
		}
		err := s.scan(ctx, from, to, func(key, at []byte) (more bool, err error) {
			found, err := readReminder(f, at)
			if err != nil {
				return false, err
			}
			if found.record != nil && !found.record.Paused && found.record.Token == binary.BigEndian.Uint32(key[len(key)-4:]) {
				heads = append(heads, store.ReminderHead{ID: found.record.id(), FireAt: time.UnixMicro(found.record.FireAt).UTC()})
			}
			return len(heads) < limit, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return heads, nil
}

func (s *reminders) LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	tokens, err := s.find(&tokenKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	defer tokens.close()
	return s.reminders(ctx, len(ids), func(i int) ([]byte, error) { return tokens.get(tokenKey(ids[i])) },
		func(i int, r *reminderRecord) bool { return r.id() == ids[i] },
		func(i int) actor.ReminderID { return ids[i] })
}

func (s *reminders) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	for _, n := range names {
		if err := n.Key.Validate(); err != nil {
			return nil, err
		}
		if err := actor.ValidateStoredName(n.Name); err != nil {
			return nil, err
		}
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.reminders(ctx, len(names), func(i int) ([]byte, error) { return reminderKey(names[i]), nil },
		func(int, *reminderRecord) bool { return true },
		func(int) actor.ReminderID { return actor.ReminderID{} })
}

// reminders reads n reminders and waits until what it read is durable.
func (s *reminders) reminders(ctx context.Context, n int, keyOf func(int) ([]byte, error), right func(int, *reminderRecord) bool, idOf func(int) actor.ReminderID) ([]actor.Reminder, error) {
	f, err := s.find(&reminderKeys)
	if err != nil {
		return nil, unavailable(err)
	}
	defer f.close()
	found := make([]actor.Reminder, n)
	var damaged []store.DamagedReminder
	missing := false // a reminder is missing, and it is unknown which commit removed it
	for i := range found {
		key, err := keyOf(i)
		if err != nil {
			return nil, unavailable(err)
		}
		if key == nil {
			missing = true
			continue
		}
		r, err := readReminder(f, key)
		switch {
		case err != nil:
			return nil, err
		case r.damage != "":
			damaged = append(damaged, store.DamagedReminder{ID: idOf(i), Reason: r.damage})
		case r.record != nil && right(i, r.record):
			found[i] = r.record.reminder()
			if err := s.await(ctx, s.syncs.covering(key)); err != nil {
				return nil, err
			}
			continue
		}
		missing = true
	}
	if missing {
		if err := s.await(ctx, s.syncs.latest.Load()); err != nil {
			return nil, err
		}
	}
	if damaged != nil {
		return found, &store.DamagedReminders{Reminders: damaged}
	}
	return found, nil
}

func (s *reminders) ListReminders(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	if err := store.ValidateReminderQuery(&q); err != nil {
		return nil, next, err
	}
	prefix := []byte(reminderSpace + q.App + "\x00")
	if q.Type != "" {
		prefix = append(prefix, q.Type+"\x00"...)
	}
	from := prefix
	first, before := q.Names()
	if q.ID != "" {
		of := append(prefix, q.ID+"\x00"...)
		prefix, from = append(bytes.Clone(of), q.Prefix...), append(bytes.Clone(of), cmp.Or(q.Prefix, first)...)
	}
	if q.After.Name != "" {
		after := q.After
		after.Key.App = q.App
		if above := append(reminderKey(after), 0); bytes.Compare(above, from) > 0 {
			from = above
		}
	}
	to := prefixEnd(prefix)
	if q.ID != "" && before != "" {
		to = append(bytes.Clone(prefix), before...)
	}
	examined, most := 0, q.Limit
	if q.Sifts() {
		most = store.MaxExamined
	}
	err = s.list(ctx, from, to, func(key, value []byte) (more bool, err error) {
		examined++
		var r reminderRecord
		// The list leaves out a damaged reminder; reading it by name reports the damage.
		if err := decodeReminder(key, value, &r); err == nil && (r.Message != nil) == q.Messages && (r.Cursor != nil) == q.Cursors && q.Due(time.UnixMicro(r.Due)) {
			list = append(list, r.reminder())
		}
		if more = len(list) < q.Limit && examined < most; !more {
			next, err = parseReminderKey(key)
		}
		return more, err
	})
	if err != nil {
		return nil, actor.ReminderName{}, err
	}
	return list, next, nil
}

func (s *reminders) ReminderNames(ctx context.Context, q store.ReminderNameQuery) ([]string, error) {
	if err := store.ValidateReminderNameQuery(&q); err != nil {
		return nil, err
	}
	of := remindersOf(q.Key)
	from, to := append(bytes.Clone(of), q.First()...), prefixEnd(append(bytes.Clone(of), q.Prefix...))
	if q.After != "" {
		if above := append(reminderKey(actor.ReminderName{Key: q.Key, Name: q.After}), 0); bytes.Compare(above, from) > 0 {
			from = above
		}
	}
	var names []string
	err := s.list(ctx, from, to, func(key, _ []byte) (more bool, err error) {
		names = append(names, string(key[len(of):]))
		return len(names) < q.Limit, nil
	})
	return names, err
}

// messagesTo returns the bounds of the keys of messages to an actor, from a name on, exclusive.
func messagesTo(key actor.Key, after string) (from, to []byte) {
	of := remindersOf(key)
	from, to = bytes.Clone(of), append(bytes.Clone(of), actor.MessageNamesEnd...)
	if after != "" {
		from = append(append(from, after...), 0)
	}
	return from, to
}

func (s *reminders) ListMessages(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	if err := store.ValidateMessageQuery(&q); err != nil {
		return nil, "", err
	}
	examined := 0
	from, to := messagesTo(q.Key, q.After)
	err = s.list(ctx, from, to, func(key, value []byte) (more bool, err error) {
		var r reminderRecord
		if err := decodeReminder(key, value, &r); err == nil {
			list = append(list, r.reminder())
		}
		if examined++; examined < q.Limit {
			return true, nil
		}
		n, err := parseReminderKey(key)
		next = n.Name
		return false, err
	})
	if err != nil {
		return nil, "", err
	}
	return list, next, nil
}

func (s *reminders) Inbox(ctx context.Context, key actor.Key, limit int) (size store.InboxSize, err error) {
	if err := store.ValidateInbox(key, limit); err != nil {
		return size, err
	}
	from, to := messagesTo(key, "")
	err = s.list(ctx, from, to, func(key, value []byte) (more bool, err error) {
		size.Messages++
		var r reminderRecord
		if err := decodeReminder(key, value, &r); err == nil {
			size.Bytes += int64(len(r.Payload))
		}
		return size.Messages < limit, nil
	})
	if err != nil {
		return store.InboxSize{}, err
	}
	return size, nil
}

func (s *reminders) CountReminders(ctx context.Context, app string, after actor.ReminderName, limit int) (count store.ReminderCount, next actor.ReminderName, err error) {
	if err := store.ValidateReminderCount(app, limit); err != nil {
		return count, next, err
	}
	from := []byte(reminderSpace + app + "\x00")
	to := prefixEnd(from)
	if after.Name != "" {
		after.Key.App = app
		from = append(reminderKey(after), 0)
	}
	n := 0
	err = s.list(ctx, from, to, func(key, _ []byte) (more bool, err error) {
		name, err := parseReminderKey(key)
		if err != nil {
			return false, err
		}
		count.Add(name.Name)
		if n++; n == limit {
			next = name
		}
		return n < limit, nil
	})
	if err != nil {
		return store.ReminderCount{}, actor.ReminderName{}, err
	}
	return count, next, nil
}

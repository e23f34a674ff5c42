package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// reminderRecord is a reminder as it is stored. Times are microseconds since 1970.
type reminderRecord struct {
	store.SpecRecord
	App         string       `json:"app"`
	Type        string       `json:"type"`
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Prefix      actor.Prefix `json:"prefix"`
	Vector      string       `json:"vector"`
	Token       uint32       `json:"token"`
	Version     uint64       `json:"version"`
	ContentType string       `json:"content_type,omitempty"`
	Payload     []byte       `json:"payload,omitempty"`
	Due         int64        `json:"due"`
	FireAt      int64        `json:"fire_at"`
	Left        uint32       `json:"left,omitempty"`
	Failures    uint32       `json:"failures,omitempty"`
	Paused      bool         `json:"paused,omitempty"`
	LastError   string       `json:"last_error,omitempty"`
	CreatedAt   int64        `json:"created_at"`
	UpdatedAt   int64        `json:"updated_at"`
}

func (r *reminderRecord) id() actor.ReminderID {
	id := actor.ReminderID{Prefix: r.Prefix, Token: r.Token}
	copy(id.Vector[:], r.Vector)
	return id
}

func (r *reminderRecord) name() actor.ReminderName {
	return actor.ReminderName{Key: actor.Key{App: r.App, Type: r.Type, ID: r.ID}, Name: r.Name}
}

func (r *reminderRecord) dueKey() []byte { return dueKey(r.id().Bucket(), r.FireAt, r.Token) }

func (r *reminderRecord) proceed(p *actor.ReminderProgress) {
	r.Due, r.FireAt = p.Due.UnixMicro(), p.FireAt.UnixMicro()
	r.Left, r.Failures, r.Paused, r.LastError = p.Left, p.Failures, p.Paused, p.LastError
}

func (r *reminderRecord) reminder() actor.Reminder {
	n := r.name()
	at := func(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
	return actor.Reminder{
		ID: r.id(), Version: r.Version,
		ReminderSpec: r.Spec(n.Key, n.Name, actor.Payload{ContentType: r.ContentType, Data: r.Payload}),
		ReminderProgress: actor.ReminderProgress{
			Due: at(r.Due), FireAt: at(r.FireAt), Left: r.Left, Failures: r.Failures, Paused: r.Paused, LastError: r.LastError,
		},
		CreatedAt: at(r.CreatedAt), UpdatedAt: at(r.UpdatedAt),
	}
}

func newReminderRecord(r *actor.Reminder, now int64) *reminderRecord {
	rec := &reminderRecord{
		SpecRecord: store.SpecRecordOf(&r.ReminderSpec),
		App:        r.Key.App, Type: r.Key.Type, ID: r.Key.ID, Name: r.Name,
		Prefix: r.ID.Prefix, Vector: r.ID.Vector.String(), Token: r.ID.Token, Version: 1,
		ContentType: r.Payload.ContentType, Payload: r.Payload.Data, CreatedAt: now,
	}
	rec.proceed(&r.ReminderProgress)
	return rec
}

// knownReminder is a reminder as a decision finds and leaves it.
type knownReminder struct {
	key   []byte
	found *reminderRecord // as stored; nil: none
	now   *reminderRecord // as the decision has it so far; nil: none
	// damage says why what is stored cannot be read. It is removed and replaced like
	// any other, and never stepped.
	damage string
}

// reminder returns the reminder of a name, as this decision has it so far.
func (t *tx) reminder(n actor.ReminderName) (*knownReminder, error) {
	key := reminderKey(n)
	if k := t.reminders[string(key)]; k != nil {
		return k, nil
	}
	k := &knownReminder{key: key}
	value, err := t.findReminder(k.key)
	switch {
	case pebble.IsCorruptionError(err):
		k.damage = "its block of the data file is damaged: " + err.Error()
	case err != nil:
		return nil, err
	case value != nil:
		var r reminderRecord
		if err := decodeReminder(k.key, value, &r); err != nil {
			k.damage = err.Error()
			break
		}
		k.found, k.now = &r, &r
	}
	if t.reminders == nil {
		t.reminders = make(map[string]*knownReminder)
	}
	t.reminders[string(key)] = k
	return k, nil
}

// findReminder returns a copy of what is stored under the key of a reminder, nil if nothing
// is: as this decision found it.
func (t *tx) findReminder(key []byte) ([]byte, error) {
	if t.finder == nil {
		f, err := t.s.find(&reminderKeys)
		if err != nil {
			return nil, err
		}
		t.finder = f
	}
	return t.finder.get(key)
}

// checkSteps says why a commit is refused for its steps.
func (t *tx) checkSteps(ops []store.ReminderOp) (refusal, err error) {
	for i := range ops {
		s := ops[i].Step
		if s == nil {
			continue
		}
		k, err := t.reminder(s.ReminderName)
		if err != nil {
			return nil, err
		}
		if k.now == nil || k.now.id() != s.ID || k.now.Version != s.Version {
			return fmt.Errorf("reminder %q of %s: %w", s.Name, s.Key, actor.ErrFiringTaken), nil
		}
	}
	return nil, nil
}

// remind does what a commit that held does to reminders. Everything that it needs was
// read before, or is read now: an error leaves the whole decision undone.
func (t *tx) remind(c *actor.Commit, ops []store.ReminderOp) error {
	for i := range c.Rows {
		if c.Rows[i].Delete {
			if err := t.removeReminders(c.Rows[i].Key); err != nil {
				return err
			}
		}
	}
	for i := range ops {
		op := &ops[i]
		k, err := t.reminder(op.ReminderName)
		if err != nil {
			return err
		}
		if op.Step != nil && op.Step.DeadLetter != nil && k.found != nil {
			if err := t.bury(k.found, op.Step.DeadLetter); err != nil {
				return err
			}
		}
		switch {
		case op.Deleted, op.IfAbsent && k.now != nil:
		case op.Set != nil:
			k.now = newReminderRecord(op.Set, t.now)
		case op.Then != nil:
			next := *k.now
			next.Version++
			next.proceed(op.Then)
			k.now = &next
		default:
			k.now = nil
		}
		if k.now != nil && k.now != k.found {
			k.now.UpdatedAt = t.now
		}
	}
	return nil
}

// removeReminders removes all reminders of an actor.
func (t *tx) removeReminders(key actor.Key) error {
	prefix := remindersOf(key)
	it, err := t.s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		k, err := t.reminder(actor.ReminderName{Key: key, Name: string(it.Key()[len(prefix):])})
		if err != nil {
			_ = it.Close()
			return err
		}
		k.now = nil
	}
	for _, k := range t.reminders { // those that the decision has set itself
		if bytes.HasPrefix(k.key, prefix) {
			k.now = nil
		}
	}
	return it.Close()
}

// bury writes a dead letter.
func (t *tx) bury(found *reminderRecord, d *actor.DeadFiring) error {
	r := *found
	r.Due, r.Failures = d.Due.UnixMicro(), d.Failures
	key := deadKey(r.id(), r.Due)
	value, err := encodeRecord(key, deadRecord{r, d.Reason, t.now})
	if err != nil {
		return err
	}
	t.set(key, value)
	t.stamp()
	return nil
}

// deadRecord is a dead letter as it is stored.
type deadRecord struct {
	Reminder reminderRecord `json:"reminder"`
	Reason   string         `json:"reason"`
	FailedAt int64          `json:"failed_at"`
}

// writeReminders writes what the decision has made of reminders, each once, and each kind of
// key in its order: beside the key before it one takes a fraction of the time to be put
// into the write buffer, and the tokens and times of what was set together are neighbors.
func (t *tx) writeReminders() {
	changed := make([]*knownReminder, 0, len(t.reminders))
	for _, k := range t.reminders {
		if k.now != k.found || k.damage != "" {
			changed = append(changed, k)
			t.wrote(k.key)
			t.stamp()
		}
	}
	t.reminders = nil
	slices.SortFunc(changed, func(a, b *knownReminder) int { return bytes.Compare(a.key, b.key) })
	for _, k := range changed {
		if k.now == nil {
			t.delete(k.key)
		} else {
			t.set(k.key, encodeReminder(k.key, k.now))
		}
	}
	for _, k := range changed {
		if k.found != nil && k.moves() {
			t.delete(tokenKey(k.found.id()))
		}
		if k.found != nil && !k.found.Paused && k.reschedules() {
			t.delete(k.found.dueKey())
		}
	}
	changed = slices.DeleteFunc(changed, func(k *knownReminder) bool { return k.now == nil })
	slices.SortFunc(changed, func(a, b *knownReminder) int { return cmp.Compare(a.now.Token, b.now.Token) })
	for _, k := range changed {
		if k.moves() {
			t.set(tokenKey(k.now.id()), k.key)
		}
	}
	for _, k := range changed {
		if !k.now.Paused && k.reschedules() {
			t.set(k.now.dueKey(), nil)
		}
	}
}

// moves reports whether the ID is not as it was found.
func (k *knownReminder) moves() bool {
	return k.found == nil || k.now == nil || k.now.id() != k.found.id()
}

// reschedules reports whether its place among those that are due is not as it was found.
func (k *knownReminder) reschedules() bool {
	return k.moves() || k.now.Paused != k.found.Paused || k.now.FireAt != k.found.FireAt
}

// DueReminders implements [store.Reminders].
func (s *Store) DueReminders(ctx context.Context, q store.DueQuery) ([]store.ReminderHead, error) {
	if err := store.ValidateDueQuery(&q); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	first := int64(-1 << 63)
	if !q.AfterTime.IsZero() {
		first = q.AfterTime.UnixMicro()
	}
	from := dueKey(q.Bucket, first, 0)
	if q.AfterToken != nil {
		from = append(dueKey(q.Bucket, first, *q.AfterToken), 0)
	}
	to := dueKey(q.Bucket, q.Before.UnixMicro(), 0)
	if bytes.Compare(from, to) >= 0 {
		return nil, nil
	}
	var heads []store.ReminderHead
	err := s.scan(ctx, from, to, func(key, _ []byte) (more bool, err error) {
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

// RecentReminders implements [store.Reminders].
func (s *Store) RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) ([]store.ReminderHead, error) {
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

// foundReminder is what is stored under a key: a record, damage or nothing.
type foundReminder struct {
	record *reminderRecord
	damage string
}

func readReminder(from reader, key []byte) (foundReminder, error) {
	value, err := from.get(key)
	switch {
	case pebble.IsCorruptionError(err):
		return foundReminder{damage: "its block of the data file is damaged: " + err.Error()}, nil
	case err != nil:
		return foundReminder{}, unavailable(err)
	case value == nil:
		return foundReminder{}, nil
	}
	var r reminderRecord
	if err := decodeReminder(key, value, &r); err != nil {
		return foundReminder{damage: err.Error()}, nil //nolint:nilerr // damage is an answer
	}
	return foundReminder{record: &r}, nil
}

// LoadReminders implements [store.Reminders].
func (s *Store) LoadReminders(ctx context.Context, ids []actor.ReminderID) ([]actor.Reminder, error) {
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

// FindReminders implements [store.Reminders].
func (s *Store) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	for _, n := range names {
		if err := n.Key.Validate(); err != nil {
			return nil, err
		}
		if err := actor.ValidateReminderName(n.Name); err != nil {
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
func (s *Store) reminders(ctx context.Context, n int, keyOf func(int) ([]byte, error), right func(int, *reminderRecord) bool, idOf func(int) actor.ReminderID) ([]actor.Reminder, error) {
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
			if err := s.await(ctx, s.flights.over(key)); err != nil {
				return nil, err
			}
			continue
		}
		missing = true
	}
	if missing {
		if err := s.await(ctx, s.flights.latest.Load()); err != nil {
			return nil, err
		}
	}
	if damaged != nil {
		return found, &store.DamagedReminders{Reminders: damaged}
	}
	return found, nil
}

// ListReminders implements [store.Reminders].
func (s *Store) ListReminders(ctx context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	if err := store.ValidateReminderQuery(&q); err != nil {
		return nil, next, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, next, err
	}
	defer s.leave()
	prefix := []byte(reminderSpace + q.App + "\x00")
	if q.Type != "" {
		prefix = append(prefix, q.Type+"\x00"...)
	}
	if q.ID != "" {
		prefix = append(append(prefix, q.ID+"\x00"...), q.Prefix...)
	}
	from := prefix
	if q.After.Name != "" {
		after := q.After
		after.Key.App = q.App
		if above := append(reminderKey(after), 0); bytes.Compare(above, from) > 0 {
			from = above
		}
	}
	to := prefixEnd(prefix)
	if bytes.Compare(from, to) >= 0 {
		return nil, next, nil
	}
	examined, most := 0, q.Limit
	if q.ByDue() {
		most = store.MaxExamined
	}
	err = s.scan(ctx, from, to, func(key, value []byte) (more bool, err error) {
		examined++
		var r reminderRecord
		// The list leaves out a damaged reminder; reading it by name reports the damage.
		if err := decodeReminder(key, value, &r); err == nil && q.Due(time.UnixMicro(r.Due)) {
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

// ReminderNames implements [store.Reminders].
func (s *Store) ReminderNames(ctx context.Context, q store.ReminderNameQuery) ([]string, error) {
	if err := store.ValidateReminderNameQuery(&q); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	of := remindersOf(q.Key)
	prefix := append(bytes.Clone(of), q.Prefix...)
	from, to := prefix, prefixEnd(prefix)
	if q.After != "" {
		if above := append(reminderKey(actor.ReminderName{Key: q.Key, Name: q.After}), 0); bytes.Compare(above, from) > 0 {
			from = above
		}
	}
	if bytes.Compare(from, to) >= 0 {
		return nil, nil
	}
	var names []string
	err := s.scan(ctx, from, to, func(key, _ []byte) (more bool, err error) {
		names = append(names, string(key[len(of):]))
		return len(names) < q.Limit, nil
	})
	return names, err
}

// ListDeadLetters implements [store.Reminders].
func (s *Store) ListDeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	if err := store.ValidateLimit(q.Limit); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	l, err := s.lap(q.App)
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
		if q.Type == "" || q.Type == r.Reminder.Type {
			list = append(list, actor.DeadLetter{Reminder: r.Reminder.reminder(), Reason: r.Reason, FailedAt: time.UnixMicro(r.FailedAt).UTC()})
		}
		return len(list) < q.Limit, nil
	})
	return list, err
}

// RemoveDeadLetter implements [store.Reminders].
func (s *Store) RemoveDeadLetter(ctx context.Context, id actor.ReminderID, due time.Time) (was bool, err error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.leave()
	key := deadKey(id, due.UnixMicro())
	err = s.write(ctx, writeOptions{frees: true}, func(tx *tx) error {
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

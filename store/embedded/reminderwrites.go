package embedded

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// reminderWrites are the reminders that a decision has looked at and written, by key.
type reminderWrites struct {
	*draft
	reminders map[string]*knownReminder
	finder    *finder // nil: none was looked for
	// order is what is known of ordered messages, and messages reads them; nil: none was
	// looked for.
	order    *store.Order
	messages *pebble.Iterator
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
func (t *reminderWrites) reminder(n actor.ReminderName) (*knownReminder, error) {
	key := reminderKey(n)
	if k := t.reminders[string(key)]; k != nil {
		return k, nil
	}
	k := &knownReminder{key: key}
	value, err := t.read(k.key)
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

// read returns a copy of what is stored under the key of a reminder, nil if nothing
// is: as this decision found it.
func (t *reminderWrites) read(key []byte) ([]byte, error) {
	if t.finder == nil {
		f, err := t.find(&reminderKeys)
		if err != nil {
			return nil, err
		}
		t.finder = f
	}
	return t.finder.get(key)
}

// checkSteps says why a commit is refused for its steps.
func (t *reminderWrites) checkSteps(ops []store.ReminderOp) (refusal, err error) {
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
	for _, r := range t.order.OrderRanges(ops) {
		if some, err := t.anyIn(&r); some || err != nil {
			return fmt.Errorf("message %q to %s: %w", r.To, r.Key, actor.ErrMessageOrder), err
		}
	}
	return nil, nil
}

// anyIn reports whether there is a message in a range, as this decision has it so far.
func (t *reminderWrites) anyIn(r *store.OrderRange) (bool, error) {
	from := reminderKey(actor.ReminderName{Key: r.Key, Name: r.From})
	to := reminderKey(actor.ReminderName{Key: r.Key, Name: r.To})
	if t.messages == nil {
		it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: []byte(reminderSpace), UpperBound: prefixEnd([]byte(reminderSpace))})
		if err != nil {
			return false, err
		}
		t.messages = it
	}
	for ok := t.messages.SeekGE(from); ok && bytes.Compare(t.messages.Key(), to) < 0; ok = t.messages.Next() {
		if k := t.reminders[string(t.messages.Key())]; k == nil || k.now != nil || k.damage != "" {
			return true, nil
		}
	}
	if err := t.messages.Error(); err != nil {
		return false, err
	}
	// A message that was stored was set after all earlier ones of its sender, so only one that
	// this decision has set can have earlier ones that it has set as well.
	if k := t.reminders[string(to)]; k == nil || k.found != nil {
		return false, nil
	}
	for _, k := range t.reminders {
		if k.found == nil && k.now != nil && bytes.Compare(k.key, from) >= 0 && bytes.Compare(k.key, to) < 0 {
			return true, nil
		}
	}
	return false, nil
}

// end releases what the decision has read with.
func (t *reminderWrites) end() {
	if t.finder != nil {
		t.finder.close()
		t.finder = nil
	}
	if t.messages != nil {
		_ = t.messages.Close() // what it could not read was reported
		t.messages = nil
	}
}

// remind does what a commit that held does to reminders. Everything that it needs was
// read before, or is read now: an error leaves the whole decision undone.
func (t *reminderWrites) remind(c *actor.Commit, ops []store.ReminderOp) error {
	for i := range c.Rows {
		if c.Rows[i].Delete {
			if err := t.removeAll(c.Rows[i].Key, c.Rows[i].NewLife); err != nil {
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

// removeAll removes all reminders of an actor, and its messages unless those stay.
func (t *reminderWrites) removeAll(key actor.Key, messagesStay bool) error {
	prefix := remindersOf(key)
	from := prefix
	if messagesStay {
		from = append(bytes.Clone(prefix), actor.MessageNamesEnd...)
	}
	it, err := t.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: prefixEnd(prefix)})
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
		if bytes.HasPrefix(k.key, prefix) && bytes.Compare(k.key, from) >= 0 {
			k.now = nil
		}
	}
	return it.Close()
}

// bury writes a dead letter.
func (t *reminderWrites) bury(found *reminderRecord, d *actor.DeadFiring) error {
	r := *found
	r.Due, r.Failures = d.Due.UnixMicro(), d.Failures
	key := deadKey(r.id(), r.Due)
	return t.setRecord(key, deadRecord{r, d.Reason, t.now})
}

// deadRecord is a dead letter as it is stored.
type deadRecord struct {
	Reminder reminderRecord `json:"reminder"`
	Reason   string         `json:"reason"`
	FailedAt int64          `json:"failed_at"`
}

// write writes what the decision has made of reminders, each once, and each kind of
// key in its order: beside the key before it one takes a fraction of the time to be put
// into the write buffer, and the tokens and times of what was set together are neighbors.
func (t *reminderWrites) write() {
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

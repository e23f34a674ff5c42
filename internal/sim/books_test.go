package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// books are the committed states of all ledgers, and what was wrong after a commit.
type books struct {
	of         map[actor.Key]ledger
	told       map[int64]bool
	noted      map[int64]int
	violations []string
}

func newBooks() *books {
	return &books{of: map[actor.Key]ledger{}, told: map[int64]bool{}, noted: map[int64]int{}}
}

func isLedger(key actor.Key) bool { return key.Type == "Account" || key.Type == "Vault" }

// reminderName is that of the reminder that a ledger has.
const reminderName = "reminder"

// check checks the state of all ledgers after a commit. The database is locked.
func (b *books) check(d *database, c *actor.Commit) {
	touched := false
	for i := range c.Rows {
		if key := c.Rows[i].Key; isLedger(key) {
			b.read(d, key)
			touched = true
		}
	}
	if !touched {
		return
	}
	sum := int64(0)
	for _, l := range b.of {
		sum += l.Balance
		for _, number := range l.Told {
			b.told[number] = true
			if b.noted[number] == 0 {
				b.fail("notice %d was sent, and is nowhere", number)
			}
			heard := 0
			for _, h := range l.Heard {
				if h == number {
					heard++
				}
			}
			if heard != 1 {
				b.fail("notice %d was sent, and its sender was called back %d times", number, heard)
			}
		}
	}
	if sum != 0 {
		b.fail("the balances are %d together: %v", sum, b.of)
	}
	for i := range c.Rows {
		key := c.Rows[i].Key
		if !isLedger(key) {
			continue
		}
		set := int64(0)
		if r, ok := d.reminders[actor.ReminderName{Key: key, Name: reminderName}]; ok {
			var s script
			if err := json.Unmarshal(r.Payload.Data, &s); err != nil {
				panic(err)
			}
			set = s.Chain
		}
		if set != b.of[key].Reminder {
			b.fail("%s waits for reminder %d, and has %d", nameOfLedger(key), b.of[key].Reminder, set)
		}
	}
}

// read reads a ledger.
func (b *books) read(d *database, key actor.Key) {
	var l ledger
	if data := d.rows[key].State.Data; len(data) > 0 {
		if err := json.Unmarshal(data, &l); err != nil {
			panic(err)
		}
	}
	before := b.of[key].Noted
	if n := min(len(before), len(l.Noted)); n < len(before) || !slices.Equal(before, l.Noted[:n]) {
		b.fail("%s has noted %v, and then %v", nameOfLedger(key), before, l.Noted)
		before = before[:n]
	}
	for _, number := range l.Noted[len(before):] {
		if b.noted[number]++; b.noted[number] > 1 {
			b.fail("notice %d is noted %d times", number, b.noted[number])
		}
	}
	b.of[key] = l
}

func (b *books) fail(format string, args ...any) {
	if len(b.violations) < 4 {
		b.violations = append(b.violations, fmt.Sprintf(format, args...))
	}
}

// committed returns the runs of chains that are committed.
func (b *books) committed() map[int64]bool {
	runs := map[int64]bool{}
	for _, l := range b.of {
		for _, run := range l.Runs {
			runs[run] = true
		}
	}
	return runs
}

// applyReminders applies the effects of a commit on reminders. It reports false, and changes
// nothing, if one of its firings was committed before.
func (d *database) applyReminders(e *actor.ReminderEffects) bool {
	for i := range e.Steps {
		if s := &e.Steps[i]; d.reminders[s.ReminderName].ID != s.ID || d.reminders[s.ReminderName].Version != s.Version {
			return false
		}
	}
	for i := range e.Steps {
		delete(d.reminders, e.Steps[i].ReminderName)
	}
	for _, name := range e.Cancel {
		delete(d.reminders, name)
	}
	for _, r := range e.Set {
		r.Version = 1
		d.reminders[actor.ReminderName{Key: r.Key, Name: r.Name}] = r
	}
	return true
}

// due returns the reminders that are due.
func (d *database) due() []actor.Reminder {
	d.mu.Lock()
	defer d.mu.Unlock()
	var due []actor.Reminder
	for _, r := range d.reminders {
		if !r.FireAt.After(time.Now()) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b actor.Reminder) int { return cmp.Compare(a.ID.Token, b.ID.Token) })
	return due
}

// reminders are those of a process's host.
type reminders struct{ p *process }

// tokens are never used twice.
var tokens atomic.Uint32

// Prepare implements [host.Reminders].
func (r reminders) Prepare(_ context.Context, spec actor.ReminderSpec) (actor.Reminder, error) {
	due := time.Now().Add(spec.Schedule.After)
	return actor.Reminder{
		ID: actor.ReminderID{Prefix: 1, Vector: actor.Vector([]byte("simulate")), Token: tokens.Add(1)}, Version: 1, ReminderSpec: spec,
		ReminderProgress: actor.ReminderProgress{Due: due, FireAt: due, Left: 1},
	}, spec.Validate()
}

// Unused implements [host.Reminders].
func (reminders) Unused(string, []actor.ReminderID) {}

// Accepted implements [host.Reminders].
func (reminders) Accepted([]actor.ReminderID) {}

// Committed implements [host.Reminders].
func (reminders) Committed(*actor.ReminderEffects) {}

// FindReminders implements [host.Reminders].
func (r reminders) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	return ask(ctx, &access{p: r.p}, "FindReminders", func(ctx context.Context) ([]actor.Reminder, error) {
		return r.p.w.db.findReminders(names), nil
	})
}

func (d *database) findReminders(names []actor.ReminderName) []actor.Reminder {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := make([]actor.Reminder, len(names))
	for i, name := range names {
		found[i] = d.reminders[name]
	}
	return found
}

// ReminderNames implements [host.Reminders]: ledgers ask for none, and others have none.
func (reminders) ReminderNames(context.Context, actor.Key, string, int) ([]string, error) {
	return nil, nil
}

// Inbox implements [host.Reminders]: nobody sends messages.
func (reminders) Inbox(context.Context, actor.Key) (messages int, bytes int64, err error) {
	return 0, 0, nil
}

// EarlierMessage implements [host.Reminders].
func (reminders) EarlierMessage(context.Context, actor.ReminderName) (bool, error) { return false, nil }

// ThinReminders implements [host.Reminders].
func (reminders) ThinReminders(context.Context, actor.RowFence, bool) error { return nil }

// NewestEvent implements [host.Reminders]. No actor of the simulation subscribes to events.
func (reminders) NewestEvent(context.Context, actor.Key) (actor.EventPosition, error) {
	return actor.EventPosition{}, nil
}

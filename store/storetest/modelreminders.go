package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// letter names a dead letter.
type letter struct {
	id  actor.ReminderID
	due time.Time
}

// reminderModel compares a store with maps after random commits.
func reminderModel(f *fixture) {
	rng := rand.New(rand.NewPCG(13, uint64(len(f.app))))
	b := f.bucket()
	model := map[actor.ReminderName]actor.Reminder{}
	dead := map[letter]actor.DeadLetter{}
	rows := map[string]actor.Row{}
	token := uint32(0)
	deleted := 0
	for i := range 150 {
		if rng.IntN(8) == 0 {
			id := fmt.Sprint(rng.IntN(3))
			if toggle(f, rows, id, model, rng.IntN(2) == 0) {
				deleted++
			}
			compare(f, b, model, dead, token)
			continue
		}
		c := actor.CommitOf()
		next, letters := maps.Clone(model), maps.Clone(dead)
		named := map[actor.ReminderName]bool{}
		taken := false
		for range 1 + rng.IntN(3) {
			n := actor.ReminderName{Key: f.key(fmt.Sprint(rng.IntN(3))), Name: fmt.Sprint(rng.IntN(3))}
			there, found := model[n]
			if named[n] {
				continue
			}
			named[n] = true
			if found && rng.IntN(2) == 0 { // a step, perhaps with another change of the name
				stale := rng.IntN(5) == 0
				if stale {
					there.Version++
				}
				taken = taken || stale
				var then *actor.ReminderProgress
				reason := ""
				if rng.IntN(3) == 0 && !there.Paused { // one that is paused does not fire, and cannot fail
					reason = fmt.Sprint("failed in round ", i)
					letters[letter{there.ID, there.Due}] = actor.DeadLetter{Reminder: there, Reason: reason}
				}
				delete(next, n)
				if rng.IntN(2) == 0 {
					p := there.ReminderProgress
					if reason != "" {
						p.Due = p.Due.Add(time.Second) // the next occurrence
					}
					p.FireAt, p.Paused = p.FireAt.Add(time.Duration(rng.IntN(1000))*time.Millisecond), rng.IntN(3) == 0
					then = &p
					moved := there
					moved.ReminderProgress = p
					next[n] = moved
				}
				c = stepping(c, there, then)
				if reason != "" {
					c.Reminders.Steps[len(c.Reminders.Steps)-1].DeadLetter = &actor.DeadFiring{Due: there.Due, Failures: there.Failures, Reason: reason}
				}
			}
			switch rng.IntN(4) {
			case 0:
				c.Reminders.Cancel = append(c.Reminders.Cancel, n)
				delete(next, n)
			case 1, 2:
				r := f.reminder(b, token, n.Key.ID, n.Name)
				token++
				r.Keep = rng.IntN(3) == 0
				c = setting(c, r)
				if _, there := next[n]; !there || !r.Keep {
					next[n] = r
				}
			}
		}
		if c.Reminders.Empty() {
			continue
		}
		err := f.commit(c)
		if taken {
			f.is(err, actor.ErrFiringTaken)
		} else {
			f.ok(err)
			model, dead = next, letters
		}
		compare(f, b, model, dead, token)
	}
	if deleted == 0 || len(dead) == 0 {
		f.Errorf("%d actors were deleted, %d firings were given up: the seed is a bad one", deleted, len(dead))
	}
}

// toggle deletes an actor that is there, with its reminders, perhaps in the commit that
// takes a firing of one of them; or gives it a state. It reports whether it deleted
// reminders.
func toggle(f *fixture, rows map[string]actor.Row, id string, model map[actor.ReminderName]actor.Reminder, fires bool) (some bool) {
	f.Helper()
	key, row := f.key(id), rows[id]
	if row.Version == 0 || row.Deleted {
		rows[id] = f.apply(write(key, row, `{}`))
		return false
	}
	c := remove(key, row)
	for n, r := range model {
		if n.Key != key {
			continue
		}
		if some = true; fires {
			c, fires = stepping(c, r, &r.ReminderProgress), false
		}
		delete(model, n)
	}
	rows[id] = f.apply(c)
	return some
}

// compare compares what the store has with a model, whose reminders get the versions that
// the store gave them.
func compare(f *fixture, b actor.Bucket, model map[actor.ReminderName]actor.Reminder, dead map[letter]actor.DeadLetter, token uint32) {
	f.Helper()
	var waiting []actor.Reminder
	for n := range model {
		got := f.found(n.Key.ID, n.Name)
		f.sameReminder(got, model[n])
		model[n] = got
		if !got.Paused {
			waiting = append(waiting, got)
		}
	}
	if all := f.listReminders(store.ReminderQuery{}); len(all) != len(model) {
		f.Fatalf("%d reminders, want %d", len(all), len(model))
	}
	slices.SortFunc(waiting, func(a, b actor.Reminder) int {
		if c := a.FireAt.Compare(b.FireAt); c != 0 {
			return c
		}
		return int(a.ID.Token) - int(b.ID.Token)
	})
	f.heads(f.due(b, f.far()), waiting...)
	slices.SortFunc(waiting, func(a, b actor.Reminder) int { return int(a.ID.Token) - int(b.ID.Token) })
	f.heads(f.recent(b, 0, token), waiting...)
	letters := f.deadLetters(store.DeadLetterQuery{})
	if len(letters) != len(dead) {
		f.Fatalf("%d dead letters, want %d", len(letters), len(dead))
	}
	for _, l := range letters {
		want := dead[letter{l.Reminder.ID, l.Reminder.Due}]
		f.sameReminder(l.Reminder, want.Reminder)
		if l.Reason != want.Reason {
			f.Fatalf("given up for %q, want %q", l.Reason, want.Reason)
		}
	}
}

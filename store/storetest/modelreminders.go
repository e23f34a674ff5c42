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

// reminderModel compares a store with a map after random commits.
func (f *fixture) reminderModel() {
	rng := rand.New(rand.NewPCG(13, uint64(len(f.app))))
	b := f.bucket()
	model := map[actor.ReminderName]actor.Reminder{}
	token := uint32(0)
	for range 150 {
		c := actor.CommitOf()
		next := maps.Clone(model)
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
				delete(next, n)
				if rng.IntN(2) == 0 {
					p := there.ReminderProgress
					p.FireAt, p.Paused = p.FireAt.Add(time.Duration(rng.IntN(1000))*time.Millisecond), rng.IntN(3) == 0
					then = &p
					moved := there
					moved.ReminderProgress = p
					next[n] = moved
				}
				c = stepping(c, there, then)
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
			model = next
		}
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
	}
}

package reminder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// inAnHour delays a message.
func inAnHour(sp *actor.ReminderSpec) { sp.Schedule.After = time.Hour }

// A commit whose answer was lost is looked at again, and what it has removed is gone; a message that cannot be read any more
// is passed over; one that changes without end is an error, and stays.
func TestCancelMessagesLooksAgain(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		cancel := func() (removed int, err error) {
			removed, _, err = a.CancelMessages(w.Context(), CancelRequest{To: actorKey("bob")})
			return removed, err
		}
		w.send(a.service, "ann", "bob", 1, true, inAnHour)
		s.mu.Lock()
		s.lose = func() error { return actor.ErrAmbiguous }
		s.mu.Unlock()
		if _, err := cancel(); err != nil || s.left() != 0 {
			t.Errorf("a lost answer: %v; %d are left", err, s.left())
		}
		s.mu.Lock()
		s.lose = nil
		s.mu.Unlock()

		w.send(a.service, "ann", "bob", 2, true, inAnHour)
		s.fails(func(op string) error {
			switch {
			case op == "commit":
				return actor.ErrFiringTaken
			case len(op) > 5 && op[:5] == "find ":
				return actor.ErrStateDamaged
			}
			return nil
		})
		if n, err := cancel(); err != nil || n != 0 {
			t.Errorf("a damaged message: %d, %v", n, err)
		}
		tries := 0
		s.fails(func(op string) error {
			if op == "commit" {
				tries++
				return actor.ErrFiringTaken
			}
			return nil
		})
		if n, err := cancel(); !errors.Is(err, actor.ErrFiringTaken) || n != 0 || tries != maxPauseTries {
			t.Errorf("a message that changes: %d, %v, after %d tries", n, err, tries)
		}
		s.fails(nil)
		if n, err := cancel(); err != nil || n != 1 || s.left() != 0 {
			t.Errorf("%d, %v; %d are left", n, err, s.left())
		}
	})
}

// fullInbox has messages without end, as it seems, and removes all.
type fullInbox struct {
	*adminStore
	pages int
	step  actor.Reminder
	steps []actor.ReminderStep
}

func (f *fullInbox) ListReminders(_ context.Context, q store.ReminderQuery) (page []actor.Reminder, next actor.ReminderName, err error) {
	if f.pages++; f.pages > 2*MaxCancel/q.Limit {
		return nil, next, nil
	}
	for range q.Limit {
		page = append(page, f.step)
	}
	return page, nameOf(&f.step), nil
}

func (f *fullInbox) Commit(_ context.Context, commits []actor.Commit) []error {
	for i := range commits {
		f.steps = append(f.steps, commits[i].Reminders.Steps...)
	}
	return make([]error, len(commits))
}

// One request removes a bounded number of messages, and says that there may be more. None of them has to be the first of its
// sender: the first may be one that runs, and is left alone.
func TestCancelMessagesIsBounded(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		f := &fullInbox{adminStore: s, step: w.send(a.service, "ann", "bob", 1, false, nil)}
		f.step.Version = 1
		n, more, err := NewAdmin(a.service, f).CancelMessages(w.Context(), CancelRequest{To: actorKey("bob")})
		if err != nil || n != MaxCancel || !more {
			t.Errorf("%d, more: %v, %v", n, more, err)
		}
		for _, step := range f.steps {
			if step.Ordered {
				t.Fatalf("%+v waits for earlier messages", step)
			}
		}
	})
}

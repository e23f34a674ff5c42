package reminder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// CancelMessages removes the messages to an actor, or to all of a type, but for those that run; reminders and
// the messages to others stay, and nothing of what is removed is delivered.
func TestCancelMessages(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		delayed := func(sp *actor.ReminderSpec) { sp.Schedule.After = time.Hour }
		var runs actor.Reminder
		for i := range 250 {
			runs = w.send(a.service, "ann", "bob", uint64(i+1), true, delayed)
		}
		w.send(a.service, "ann", "carol", 1, true, delayed)
		if _, _, err := a.Set(w.Context(), asked("n", once(time.Hour))); err != nil {
			t.Fatal(err)
		}
		cancel := func(id string, except ...actor.ReminderID) int {
			t.Helper()
			n, more, err := a.CancelMessages(w.Context(), CancelRequest{To: actorKey(id), Except: except})
			if err != nil || more {
				t.Fatalf("%v, %v", more, err)
			}
			return n
		}
		if n := cancel("nobody"); n != 0 {
			t.Errorf("%d messages to nobody", n)
		}
		if n := cancel("bob", runs.ID); n != 249 || s.left() != 3 {
			t.Errorf("%d were removed, %d reminders and messages are left", n, s.left())
		}
		if n := cancel(""); n != 2 || s.left() != 1 {
			t.Errorf("of the type %d were removed, %d reminders are left", n, s.left())
		}
		after(2 * time.Hour)
		if got := names(w.host.list()); len(got) != 1 || got[0] != "n" {
			t.Errorf("delivered: %q", got)
		}
	})
}

// A message that changes meanwhile is removed as it is then, one that was consumed is not counted, and an
// error says how many were removed.
func TestCancelMessagesThatChange(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		delayed := func(sp *actor.ReminderSpec) { sp.Schedule.After = time.Hour }
		consumed := w.send(a.service, "ann", "bob", 1, true, delayed)
		failed := w.send(a.service, "zoe", "bob", 1, true, delayed)
		first := true
		s.before = func() {
			if !first {
				return
			}
			first = false
			for _, r := range []actor.Reminder{consumed, failed} {
				c := actor.CommitOf()
				step := messageStep(&r)
				if step.Version = 1; r.ID == failed.ID {
					then := r.ReminderProgress
					then.Failures = 1
					step.Then = &then
				}
				c.Reminders.Steps = []actor.ReminderStep{step}
				if err := s.memory.commit(&c); err != nil {
					t.Error(err)
				}
			}
		}
		n, _, err := a.CancelMessages(w.Context(), CancelRequest{To: actorKey("bob"), DeadLetter: true})
		if err != nil || n != 1 || s.left() != 0 {
			t.Errorf("%d, %v; %d are left", n, err, s.left())
		}
		if len(s.dead) != 1 || s.dead[0].Reminder.ID != failed.ID || s.dead[0].Reason != cancelledReason || s.dead[0].Reminder.Failures != 1 {
			t.Errorf("dead letters: %+v", s.dead)
		}
		w.send(a.service, "ann", "bob", 2, true, delayed)
		s.fails(func(op string) error {
			if op == "commit" {
				return actor.ErrUnavailable
			}
			return nil
		})
		if _, _, err := a.CancelMessages(w.Context(), CancelRequest{To: actorKey("bob")}); !errors.Is(err, actor.ErrUnavailable) || s.left() != 1 {
			t.Errorf("%v; %d are left", err, s.left())
		}
		s.fails(nil)
	})
}

// What an app may not store more of is neither set nor sent, and what is there may be replaced.
func TestAdminAsksForRoom(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		if _, _, err := a.Set(w.Context(), asked("there", once(time.Hour))); err != nil {
			t.Fatal(err)
		}
		var asks []actor.Stored
		a.Grow = func(_ context.Context, app string, by actor.Stored) error {
			if app != "default" {
				t.Errorf("asked for the app %q", app)
			}
			asks = append(asks, by)
			return &actor.LimitError{Condition: actor.ErrQuotaExceeded}
		}
		if _, _, err := a.Set(w.Context(), asked("n", once(time.Hour))); !errors.Is(err, actor.ErrQuotaExceeded) {
			t.Errorf("set: %v", err)
		}
		if _, _, err := a.Send(w.Context(), actor.ReminderSpec{Key: actorKey("bob"), Method: "M"}, "", nil); !errors.Is(err, actor.ErrQuotaExceeded) {
			t.Errorf("sent: %v", err)
		}
		if _, outcome, err := a.Set(w.Context(), asked("there", once(2*time.Hour))); err != nil || outcome != Replaced {
			t.Errorf("replaced: %v, %v", outcome, err)
		}
		if len(asks) != 2 || asks[0] != (actor.Stored{Reminders: 1}) || asks[1] != (actor.Stored{Messages: 1}) || s.left() != 1 {
			t.Errorf("asked for %+v; %d are there", asks, s.left())
		}
	})
}

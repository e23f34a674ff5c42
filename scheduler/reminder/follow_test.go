package reminder

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// follow runs a follower of the app default on an instance, until the test ends.
func (w *world) follow(s *Service, ids ...actor.ReminderID) *Follower {
	w.Helper()
	a := NewAdmin(s, &adminStore{memory: w.store})
	prefix, err := a.Prefix(w.Context(), "default")
	if err != nil {
		w.Fatal(err)
	}
	f := a.Follow("default", prefix)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	w.Cleanup(func() { cancel(); <-ended })
	if err := f.Add(ids); err != nil {
		w.Fatal(err)
	}
	return f
}

// news returns what a follower has found out within a few seconds.
func (w *world) news(f *Follower) []Followed {
	w.Helper()
	select {
	case list := <-f.News():
		return list
	case <-time.After(3 * pollEvery):
		return nil
	}
}

// TestFollowTakeOver: who follows a reminder, at whatever instance, hears of the ID that it has
// after each take-over, and who comes with an old one later learns the present one.
func TestFollowTakeOver(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, _ := w.startPair(nil)
		old := w.set(a, "a", true, forSubscribers(every(time.Hour, 0)))
		f := w.follow(a, old.ID)
		if list := w.news(f); len(list) != 1 || list[0].ID != old.ID || list[0].Reminder.ID != old.ID {
			t.Fatalf("%+v", list)
		}
		ids := []actor.ReminderID{old.ID}
		for i, s := range []*Service{b, a, b} {
			c := w.subscribe(s, 1, "jobs")
			after(time.Hour)
			list, _ := take(c)
			if len(list) != 1 {
				t.Fatalf("take-over %d: %+v", i, list)
			}
			now := list[0].Firing.Reminder
			if news := w.news(f); len(news) != 1 || news[0].ID != ids[i] || news[0].Reminder.ID != now {
				t.Fatalf("take-over %d, to %v: %+v", i, now, news)
			}
			answer(t, c, list[0].ID, nil)
			after(time.Second)
			c.Close()
			ids = append(ids, now)
		}
		late := w.follow(b, ids[0], ids[1], ids[3])
		list := w.news(late)
		for i, id := range []actor.ReminderID{ids[0], ids[1], ids[3]} {
			if len(list) != 3 || list[i].ID != id || list[i].Reminder.ID != ids[3] {
				t.Fatalf("%+v, want %v", list, ids[3])
			}
		}
	})
}

// TestFollowWhatChanges: a reminder that is paused, fires, is set anew or is over.
func TestFollowWhatChanges(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		a := NewAdmin(s, &adminStore{memory: w.store})
		after(5 * time.Second)
		set := func(name string, change func(*actor.ReminderSpec)) actor.ReminderID {
			r, _, err := a.Set(w.Context(), asked(name, change))
			if err != nil {
				t.Fatal(err)
			}
			return r.ID
		}
		often, last := set("often", every(time.Second, 0)), set("last", once(20*time.Second))
		unknown := often
		unknown.Token += 1000
		f := w.follow(s, often, last, unknown)
		if list := w.news(f); len(list) != 3 || list[0].Reminder.ID != often || list[1].Reminder.ID != last || list[2].Reminder.Version != 0 {
			t.Fatalf("%+v", list)
		}
		if _, _, err := a.SetPaused(w.Context(), []actor.ReminderName{named("often")}, true); err != nil {
			t.Fatal(err)
		}
		if list := w.news(f); len(list) != 0 {
			t.Errorf("it fired, and was paused: %+v", list)
		}
		again := set("often", once(time.Hour))
		var list []Followed
		for range pausedPolls { // what is paused is looked at less often
			list = append(list, w.news(f)...)
		}
		byID := map[actor.ReminderID]actor.Reminder{}
		for _, n := range list {
			byID[n.ID] = n.Reminder
		}
		if len(list) != 2 || byID[often].ID != again || byID[last].Version != 0 {
			t.Errorf("%+v", list)
		}
		var bad *actor.ArgumentError
		if err := f.Add(make([]actor.ReminderID, 1)); !errors.As(err, &bad) {
			t.Errorf("of another app: %v", err)
		}
		many := make([]actor.ReminderID, MaxFollowed)
		for i := range many {
			many[i] = again
		}
		if err := f.Add(many); !errors.As(err, &bad) {
			t.Errorf("%d: %v", len(many), err)
		}
		if err := f.Add(many[1:]); err != nil {
			t.Error(err)
		}
		idle := a.Follow("default", again.Prefix)
		if err := idle.Add(many); err != nil {
			t.Error(err)
		}
		if err := idle.Add(many[:1]); !errors.As(err, &bad) {
			t.Errorf("one more before the first look: %v", err)
		}
	})
}

// TestFollowWhileTheStoreIsAway: nothing is taken for gone that could not be read.
func TestFollowWhileTheStoreIsAway(t *testing.T) {
	for _, op := range []string{"load", "recent"} {
		t.Run(fmt.Sprint("no ", op), func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := w.start(w.config())
				r := w.set(s, "a", true, once(time.Hour))
				away := func(now string) error {
					if now == op {
						return actor.ErrUnavailable
					}
					return nil
				}
				if op == "load" {
					w.store.fails(away)
				}
				f := w.follow(s, r.ID)
				if op == "recent" {
					if list := w.news(f); len(list) != 1 {
						t.Fatalf("%+v", list)
					}
					w.store.fails(away)
				}
				if list := w.news(f); len(list) != 0 {
					t.Fatalf("away: %+v", list)
				}
				w.store.fails(nil)
				if list := w.news(f); op == "load" && (len(list) != 1 || list[0].Reminder.ID != r.ID) || op == "recent" && len(list) != 0 {
					t.Errorf("%+v", list)
				}
			})
		})
	}
}

// TestFollowAtOnce: what is added is looked at without delay, and what is added during a look
// is not lost.
func TestFollowAtOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		one, two := w.set(s, "one", true, once(time.Hour)), w.set(s, "two", true, once(time.Hour))
		begun := time.Now()
		var f *Follower
		made := make(chan struct{})
		w.store.fails(func(op string) error {
			if op == "load" {
				w.store.fails(nil)
				<-made
				return f.Add([]actor.ReminderID{two.ID})
			}
			return nil
		})
		f = w.follow(s, one.ID)
		close(made)
		for _, want := range []actor.ReminderID{one.ID, two.ID} {
			if list := w.news(f); len(list) != 1 || list[0].Reminder.ID != want || time.Since(begun) > 0 {
				t.Errorf("after %v: %+v", time.Since(begun), list)
			}
		}
	})
}

// TestFollowReadsLittle: of reminders that wait, or are paused, few are read whole; one that
// was resumed is followed as the others are.
func TestFollowReadsLittle(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		a := NewAdmin(s, &adminStore{memory: w.store})
		after(5 * time.Second)
		var ids []actor.ReminderID
		for _, name := range []string{"one", "two", "paused"} {
			r, _, err := a.Set(w.Context(), asked(name, func(sp *actor.ReminderSpec) {
				sp.Schedule.After, sp.Hold = 100*time.Hour, name == "paused"
			}))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		f := w.follow(s, ids...)
		if list := w.news(f); len(list) != 3 {
			t.Fatalf("%+v", list)
		}
		before := w.store.loads()
		after(2 * pausedPolls * pollEvery)
		if n := w.store.loads() - before; n > 3 {
			t.Errorf("%d were read", n)
		}
		if _, _, err := a.SetPaused(w.Context(), []actor.ReminderName{named("paused")}, false); err != nil {
			t.Fatal(err)
		}
		after(pausedPolls * pollEvery)
		again, _, err := a.Set(w.Context(), asked("paused", once(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		if list := w.news(f); len(list) != 1 || list[0].ID != ids[2] || list[0].Reminder.ID != again.ID {
			t.Errorf("%+v", list)
		}
	})
}

// TestFollowWhatIsDamaged: a reminder that cannot be read is over, and the others are followed.
func TestFollowWhatIsDamaged(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.start(w.config())
		good, bad := w.set(s, "good", true, once(time.Hour)), w.set(s, "bad", true, once(time.Hour))
		f := w.follow(s, good.ID, bad.ID)
		if list := w.news(f); len(list) != 2 {
			t.Fatalf("%+v", list)
		}
		w.store.fails(func(op string) error {
			switch op {
			case "load":
				return &store.DamagedReminders{Reminders: []store.DamagedReminder{{ID: bad.ID, Reason: "test"}}}
			case "find bad":
				return actor.ErrStateDamaged
			}
			return nil
		})
		w.store.mu.Lock()
		delete(w.store.reminders, nameOf(&bad))
		w.store.mu.Unlock()
		late := w.follow(s, good.ID, bad.ID)
		if list := w.news(late); len(list) != 2 || list[0].Reminder.ID != good.ID || list[1].ID != bad.ID || list[1].Reminder.Version != 0 {
			t.Errorf("%+v", list)
		}
		if list := w.news(f); len(list) != 1 || list[0].ID != bad.ID || list[0].Reminder.Version != 0 {
			t.Errorf("%+v", list)
		}
	})
}

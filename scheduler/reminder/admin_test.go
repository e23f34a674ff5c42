package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
	"github.com/greenroom-run/greenroom/store"
)

// adminStore is a [memory] with what an Admin reads of it. before, if it is there, is
// called before each commit of the Admin.
type adminStore struct {
	*memory
	before func()
	// keepsDead, if it is there, fails the removal of dead letters.
	keepsDead error
}

func (m *adminStore) Commit(ctx context.Context, commits []actor.Commit) []error {
	if m.before != nil {
		m.before()
	}
	return m.memory.Commit(ctx, commits)
}

func (m *adminStore) FindReminders(_ context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	if err := m.enter("find " + names[0].Name); err != nil {
		return make([]actor.Reminder, len(names)), err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make([]actor.Reminder, len(names))
	for i, n := range names {
		found[i] = m.reminders[n]
	}
	return found, nil
}

func (m *adminStore) ListReminders(_ context.Context, q store.ReminderQuery) (list []actor.Reminder, next actor.ReminderName, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := func(n actor.ReminderName) string { return n.Key.ID + "\x00" + n.Name }
	for n, r := range m.reminders {
		if n.Key.Type == q.Type && (q.ID == "" || n.Key.ID == q.ID) && (r.Message != nil) == q.Messages && at(n) > at(q.After) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b actor.Reminder) int { return strings.Compare(at(nameOf(&a)), at(nameOf(&b))) })
	if len(list) > q.Limit {
		list = list[:q.Limit]
		next = nameOf(&list[q.Limit-1])
	}
	return list, next, nil
}

func (m *adminStore) ListMessages(_ context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, r := range m.reminders {
		if n.Key == q.Key && r.Message != nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b actor.Reminder) int { return strings.Compare(a.Name, b.Name) })
	return list, "", nil
}

// ListDeadLetters has them in the order of their failures, which is that of their IDs in
// these tests.
func (m *adminStore) ListDeadLetters(_ context.Context, q store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.dead {
		if d.Reminder.Key.App == q.App && d.Reminder.ID == q.AfterID && d.Reminder.Due.After(q.AfterDue) {
			return []actor.DeadLetter{d}, nil
		}
	}
	return nil, nil
}

func (m *adminStore) RemoveDeadLetter(_ context.Context, id actor.ReminderID, due time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keepsDead != nil {
		return false, m.keepsDead
	}
	for i, d := range m.dead {
		if d.Reminder.ID == id && d.Reminder.Due.Equal(due) {
			m.dead = append(m.dead[:i], m.dead[i+1:]...)
			return true, nil
		}
	}
	return false, nil
}

func (m *adminStore) LoadIdempotency(_ context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error) {
	err := m.enter("records")
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make([]actor.Recorded, len(calls))
	for i, c := range calls {
		if found[i].Err = err; err == nil {
			found[i].Record, found[i].Found = m.records[c]
		}
	}
	return found, nil
}

// withAdmin runs a test of an Admin whose service has started.
func withAdmin(t *testing.T, test func(w *world, a *Admin, s *adminStore)) {
	t.Helper()
	inBubble(t, func(w *world) {
		s := &adminStore{memory: w.store}
		a := NewAdmin(w.start(w.config()), s)
		after(5 * time.Second)
		test(w, a, s)
	})
}

func asked(name string, change func(*actor.ReminderSpec)) actor.ReminderSpec {
	s := actor.ReminderSpec{Key: actor.Key{App: "default", Type: "T", ID: "a"}, Name: name, Method: "M"}
	change(&s)
	return s
}

func named(name string) actor.ReminderName {
	return actor.ReminderName{Key: actor.Key{App: "default", Type: "T", ID: "a"}, Name: name}
}

// What an Admin sets is delivered at its time: it is not left to the next look at the
// store.
func TestAdminSets(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, _ *adminStore) {
		r, outcome, err := a.Set(w.Context(), asked("n", once(100*time.Millisecond)))
		if err != nil || outcome != Created {
			t.Fatalf("%v, %v", outcome, err)
		}
		after(150 * time.Millisecond)
		if got := w.host.list(); len(got) != 1 || !got[0].due.Equal(r.Due) || got[0].at.Sub(r.Due) > 10*time.Millisecond {
			t.Errorf("%v", got)
		}
		if _, err := a.Get(w.Context(), named("n")); !errors.Is(err, actor.ErrReminderNotFound) {
			t.Error(err)
		}
	})
}

// TestAdminLinks: the firing of a reminder and the delivery of a message that a sampled call from outside
// has set or sent have the link of that call; those of other calls have none.
func TestAdminLinks(t *testing.T) {
	for _, flags := range []string{"01", "00"} {
		withAdmin(t, func(w *world, a *Admin, _ *adminStore) {
			trace := actor.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-" + flags)
			var got []actor.SpanLink
			w.host.turn = func(f actor.Firing) error {
				got = append(got, f.Link)
				return nil
			}
			ctx := trace.Context(w.Context())
			if _, _, err := a.Set(ctx, asked("n", once(time.Millisecond))); err != nil {
				t.Fatal(err)
			}
			after(time.Second)
			if _, _, err := a.Send(ctx, actor.ReminderSpec{Key: actorKey("bob"), Method: "M"}, "", nil); err != nil {
				t.Fatal(err)
			}
			after(time.Second)
			if want := trace.Link(); len(got) != 2 || got[0] != want || got[1] != want {
				t.Errorf("with the flags %s: the links are %v, want %v twice", flags, got, want)
			}
		})
	}
}

func TestAdminRefusesBeforeItsServiceStarts(t *testing.T) {
	inBubble(t, func(w *world) {
		s, err := New(w.config())
		if err != nil {
			t.Fatal(err)
		}
		a := NewAdmin(s, &adminStore{memory: w.store})
		_, _, err = a.Set(w.Context(), asked("n", once(time.Second)))
		if ready := s.Ready(); !errors.Is(err, actor.ErrNoTokens) || !errors.Is(ready, actor.ErrNoTokens) {
			t.Error(err, ready)
		}
		if err := s.Start(w.Context()); err != nil {
			t.Fatal(err)
		}
		defer s.Stop(w.Context())
		_, _, err = a.Set(w.Context(), asked("n", once(time.Second)))
		if ready := s.Ready(); err != nil || ready != nil {
			t.Error(err, ready)
		}
	})
}

// A set whose answer is lost is looked up: it is there, or nobody knows.
func TestAdminSettlesASet(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		s.lose = func() error { return actor.ErrAmbiguous }
		if _, outcome, err := a.Set(w.Context(), asked("there", once(time.Hour))); err != nil || outcome != Created {
			t.Errorf("%v, %v", outcome, err)
		}
		s.lose, s.fail = nil, func(op string) error {
			if op == "commit" {
				return actor.ErrAmbiguous
			}
			return nil
		}
		if _, _, err := a.Set(w.Context(), asked("not there", once(time.Hour))); !errors.Is(err, actor.ErrAmbiguous) {
			t.Error(err)
		}
		s.fail = nil
	})
}

// Of two that set what is to be kept, the second keeps the first one's.
func TestAdminKeepsWhatAnotherSet(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		var rival actor.Reminder
		s.before = func() {
			s.before = nil
			var err error
			if rival, _, err = a.Set(w.Context(), asked("n", once(time.Minute))); err != nil {
				t.Error(err)
			}
		}
		spec := asked("n", once(time.Hour))
		spec.Keep = true
		if r, outcome, err := a.Set(w.Context(), spec); err != nil || outcome != Kept || r.ID != rival.ID {
			t.Errorf("%v %v, %v", r, outcome, err)
		}
	})
}

// A reminder that fires between the look at it and its pausing is paused all the same,
// at its next occurrence.
func TestAdminPausesWhatFires(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		if _, _, err := a.Set(w.Context(), asked("n", every(time.Second, 0))); err != nil {
			t.Fatal(err)
		}
		s.before = func() {
			s.before = nil
			after(1500 * time.Millisecond)
		}
		if found, changed, err := a.SetPaused(w.Context(), []actor.ReminderName{named("n"), named("nobody")}, true); found != 1 || changed != 1 || err != nil {
			t.Errorf("%d, %d, %v", found, changed, err)
		}
		fired := len(w.host.list())
		after(time.Minute)
		if got := len(w.host.list()); fired != 1 || got != fired {
			t.Errorf("%d fired, then %d", fired, got)
		}
		if found, changed, err := a.SetPaused(w.Context(), []actor.ReminderName{named("n")}, false); found != 1 || changed != 1 || err != nil {
			t.Errorf("%d, %d, %v", found, changed, err)
		}
		after(10 * time.Millisecond)
		// One firing in the place of those that were missed, at once.
		if got := w.host.list(); len(got) != fired+1 || got[fired].missed < 50 {
			t.Errorf("%v", got)
		}
	})
}

// A pause whose answer is lost has taken effect once.
func TestAdminSettlesAPause(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, s *adminStore) {
		if _, _, err := a.Set(w.Context(), asked("n", once(time.Hour))); err != nil {
			t.Fatal(err)
		}
		s.lose = func() error { return actor.ErrAmbiguous }
		if found, _, err := a.SetPaused(w.Context(), []actor.ReminderName{named("n")}, true); found != 1 || err != nil {
			t.Errorf("%d, %v", found, err)
		}
		if r, err := a.Get(w.Context(), named("n")); err != nil || !r.Paused || r.Version != 2 {
			t.Errorf("%v, %v", r, err)
		}
	})
}

func TestAdminCancels(t *testing.T) {
	withAdmin(t, func(w *world, a *Admin, _ *adminStore) {
		var names []actor.ReminderName
		for i := range 2*loadGroup + 1 {
			name := fmt.Sprint("n", i)
			names = append(names, named(name))
			if _, _, err := a.Set(w.Context(), asked(name, once(time.Minute))); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Cancel(w.Context(), append(names, named("nobody"))); err != nil {
			t.Error(err)
		}
		after(2 * time.Minute)
		if got := w.host.list(); len(got) > 0 || len(w.store.reminders) > 0 {
			t.Errorf("%d fired, %d left", len(got), len(w.store.reminders))
		}
	})
}

// What happens to reminders is counted, under the outcomes that it had.
func TestEvents(t *testing.T) {
	inBubble(t, func(w *world) {
		var mu sync.Mutex
		var set, missed int
		ends := map[DeliveryOutcome]int{}
		cfg := w.config()
		cfg.Events = Events{
			Set: func(_ string, n int) {
				mu.Lock()
				defer mu.Unlock()
				set += n
			},
			Delivered: func(e DeliveryEnd) {
				mu.Lock()
				defer mu.Unlock()
				ends[e.Outcome]++
				if e.Late < 0 || e.Late > time.Minute || e.Key.Type != "T" {
					t.Errorf("%+v", e)
				}
			},
			Missed: func(kind actor.MissedKind, n uint32) {
				mu.Lock()
				defer mu.Unlock()
				if kind != actor.MissedCollapse {
					t.Errorf("missed under %d", kind)
				}
				missed += int(n)
			},
		}
		fails := map[string]int{"once": 1, "ever": 100}
		cfg.Deliverer = remindertest.DeliverFunc(func(ctx context.Context, f actor.Firing) error {
			mu.Lock()
			fails[f.Name]--
			failed := fails[f.Name] >= 0
			mu.Unlock()
			if failed {
				return errors.New("no luck")
			}
			return w.host.deliver(ctx, f)
		})
		s := w.start(cfg)
		a := NewAdmin(s, &adminStore{memory: w.store})
		after(5 * time.Second)
		for _, name := range []string{"well", "once", "ever"} {
			if _, _, err := a.Set(w.Context(), asked(name, once(time.Second))); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := a.Set(w.Context(), asked("late", func(s *actor.ReminderSpec) {
			s.Schedule = actor.Schedule{At: time.Now().Add(-10 * time.Second), Every: 4 * time.Second, Times: 3} // all due
		})); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if set != 4 || missed != 2 || ends[DeliveryFired] != 3 || ends[DeliveryFailed] != 3 || ends[DeliveryDead] != 1 {
			t.Errorf("%d set, %d missed, %v", set, missed, ends)
		}
		if st := s.Stats(); st.Fired != 3 || st.Failed != 4 || st.Dead != 1 || st.Missed != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestParseDeadLetterID(t *testing.T) {
	for _, text := range []string{"", "A", "A-1-abcdefgh", "A-1-abcdefgh-", "A-1-abcdefgh-x", "a-1-abcdefgh-5", "A-01-abcdefgh-5", "A-1-abcdefg-5", "A-1-abcdefgh-05", "A-1-abcdefgh-5-6"} {
		var bad *actor.ArgumentError
		if id, err := ParseDeadLetterID(text); !errors.As(err, &bad) {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
	if id, err := ParseDeadLetterID("AE-77-abcdefgh--5"); err != nil || id.String() != "AE-77-abcdefgh--5" {
		t.Errorf("before 1970: %v, %v", id, err)
	}
}

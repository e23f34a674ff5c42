package reminder_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/sqlstore"
)

// committer runs turns that change a counter of their actor, in one commit with the step.
type committer struct {
	store store.Store
	fired chan actor.Firing // committed

	mu   sync.Mutex
	rows map[actor.Key]uint64 // versions
}

func (c *committer) deliver(ctx context.Context, f actor.Firing) error {
	c.mu.Lock()
	read := c.rows[f.Key]
	c.mu.Unlock()
	w := actor.RowWrite{Key: f.Key, ReadVersion: read, NewVersion: read + 1, Generation: 1,
		State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(`{}`)}}
	if read == 0 {
		w.NewVersion = actor.FirstVersion()
	}
	commit := actor.CommitOf(w)
	commit.Reminders.Steps = []actor.ReminderStep{f.Step}
	if err := c.store.Commit(ctx, []actor.Commit{commit})[0]; err != nil {
		return err
	}
	c.mu.Lock()
	c.rows[f.Key] = w.NewVersion
	c.mu.Unlock()
	c.fired <- f
	return nil
}

func openSQL(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// On each real store, with no more than what a process has: reminders are set, fire in
// their turns' commits, and those that are left fire from the next process.
func TestOnStores(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"embedded": func(t *testing.T) store.Store {
			s, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"postgresql": func(t *testing.T) store.Store { return openSQL(t, pgtest.URL(t)) },
		"cockroachdb": func(t *testing.T) store.Store {
			url, ok := pgtest.CockroachURL(t)
			if !ok {
				t.Skipf("%s is not set", pgtest.CockroachVariable)
			}
			return openSQL(t, url)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer s.Close()
			const n, times = 200, 3
			c := &committer{store: s, fired: make(chan actor.Firing, n*times), rows: map[actor.Key]uint64{}}
			start := func() *reminder.Service {
				cfg := reminder.Config{Store: s, Deliverer: remindertest.DeliverFunc(c.deliver), Host: actor.HostID(actor.NewCommitID().String())}
				if s.Shared() {
					cfg.Members = &remindertest.Leased{Rows: s, ID: cfg.Host}
				}
				svc, err := reminder.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := svc.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				return svc
			}
			stop := func(svc *reminder.Service) {
				if err := svc.Stop(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			svc := start()
			set := func(id string, schedule actor.Schedule) {
				r, err := svc.Prepare(t.Context(), actor.ReminderSpec{
					Key: actor.Key{App: "default", Type: "T", ID: id}, Name: "n", Method: "M", Schedule: schedule})
				if err != nil {
					t.Fatal(err)
				}
				commit := actor.CommitOf()
				commit.Reminders.Set = []actor.Reminder{r}
				if err := s.Commit(t.Context(), []actor.Commit{commit})[0]; err != nil {
					t.Fatal(err)
				}
				svc.Committed(&commit.Reminders)
			}
			for i := range n {
				set(fmt.Sprint(i), actor.Schedule{After: time.Duration(i) * time.Millisecond, Every: 150 * time.Millisecond, Times: times})
			}
			var worst time.Duration
			occurrences := 0
			for occurrences < n*times {
				f := <-c.fired
				now, err := s.Now(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if now.Before(f.Due) {
					t.Errorf("%s fired before %s", now, f.Due)
				}
				worst = max(worst, now.Sub(f.Due))
				occurrences += 1 + int(f.Missed)
			}
			t.Logf("at most %v late", worst)
			// Set as this process ends, which will hardly come to deliver it.
			set("later", actor.Schedule{After: 500 * time.Millisecond})
			stop(svc)
			svc = start()
			if f := <-c.fired; f.Key.ID != "later" || occurrences != n*times {
				t.Errorf("%+v after %d occurrences", f, occurrences)
			}
			stop(svc)
			if list, _, err := s.ListReminders(t.Context(), store.ReminderQuery{App: "default", Limit: 10}); err != nil || len(list) != 0 {
				t.Errorf("left: %v, %v", list, err)
			}
		})
	}
}

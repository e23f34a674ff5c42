package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/scheduler/reminder/remindertest"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// noActors runs no turns.
func noActors(context.Context, actor.Firing) error { return actor.ErrTypeNotFound }

// newReminders starts reminders on a store of their own.
func newReminders(t *testing.T) *reminder.Admin {
	t.Helper()
	st, err := embedded.Open(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	svc, err := reminder.New(reminder.Config{Store: st, Deliverer: remindertest.DeliverFunc(noActors), Host: "here"})
	if err == nil {
		err = svc.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = svc.Stop(context.Background()), st.Close() })
	return reminder.NewAdmin(svc, st)
}

func setForSubscribers(t *testing.T, a *reminder.Admin, name string) {
	t.Helper()
	_, _, err := a.Set(t.Context(), actor.ReminderSpec{
		Key: actor.SubscriptionKey("default", "jobs"), Name: name, Payload: actor.Payload{Data: []byte(name)},
		Failure: actor.FailurePolicy{Attempts: 2, Interval: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSubscribeReminders executes, fails and executes again, and goes on with another
// server when one stops.
func TestSubscribeReminders(t *testing.T) {
	reminders := newReminders(t)
	withReminders := func(c *server.Config) { c.Reminders = reminders }
	first, second := startServer(t, &fakeHost{}, "127.0.0.1:0", withReminders), startServer(t, &fakeHost{}, "127.0.0.1:0", withReminders)
	c := newClient(t, "http://"+first.Addr().String(), func(c *Config) { c.URLs = []string{"http://" + second.Addr().String()} })
	firings := make(chan Firing, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- c.SubscribeReminders(ctx, Subscription{Names: []string{"jobs"}, Do: func(_ context.Context, f Firing) error {
			firings <- f
			if f.Name == "bad" {
				return fmt.Errorf("pay: %w", &FiringError{"no_card", "none"})
			}
			return nil
		}})
	}()
	setForSubscribers(t, reminders, "good")
	if f := <-firings; f.Name != "good" || f.Subscription != "jobs" || string(f.Payload) != "good" || f.Attempt != 1 || f.Due.IsZero() || f.ReminderID == "" {
		t.Errorf("%+v", f)
	}
	setForSubscribers(t, reminders, "bad")
	for attempt := uint32(1); attempt <= 2; attempt++ {
		if f := <-firings; f.Name != "bad" || f.Attempt != attempt {
			t.Errorf("%+v", f)
		}
	}
	stopServer(t, first)
	setForSubscribers(t, reminders, "elsewhere")
	if f := <-firings; f.Name != "elsewhere" {
		t.Errorf("%+v", f)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFailureThatCannotBeSent is told all the same, as far as it can be: otherwise there was
// no answer, and the reminder would be executed for ever. The dead letter that it ends as
// can be delivered again, once.
func TestFailureThatCannotBeSent(t *testing.T) {
	reminders := newReminders(t)
	s := startServer(t, &fakeHost{}, "127.0.0.1:0", func(c *server.Config) { c.Reminders = reminders })
	c := newClient(t, "http://"+s.Addr().String(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	firings, ended := make(chan Firing, 10), make(chan error)
	var good atomic.Bool
	go func() {
		ended <- c.SubscribeReminders(ctx, Subscription{Names: []string{"jobs"}, Do: func(_ context.Context, f Firing) error {
			firings <- f
			if good.Load() {
				return nil
			}
			return errors.New("\xff" + strings.Repeat("no ", 100_000))
		}})
	}()
	setForSubscribers(t, reminders, "a")
	for attempt := uint32(1); attempt <= 2; attempt++ {
		if f := <-firings; f.Attempt != attempt {
			t.Errorf("%+v", f)
		}
	}
	var dead []actor.DeadLetter
	for len(dead) == 0 { // it is written after the answer
		var err error
		if dead, err = reminders.DeadLetters(t.Context(), store.DeadLetterQuery{App: "default", Limit: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(dead[0].Reason, "no no") {
		t.Errorf("%.40q", dead[0].Reason)
	}
	good.Store(true)
	if _, err := reminders.Retry(t.Context(), "default", reminder.DeadLetterIDOf(&dead[0])); err != nil {
		t.Error(err)
	}
	if f := <-firings; f.Name != "a" || f.Attempt != 1 {
		t.Errorf("%+v", f)
	}
	cancel()
	<-ended
}

// TestSubscribeRemindersRefused returns what will not pass.
func TestSubscribeRemindersRefused(t *testing.T) {
	reminders := newReminders(t)
	for name, tc := range map[string]struct {
		change func(*server.Config)
		names  []string
		code   connect.Code
	}{
		"bad name":     {func(c *server.Config) { c.Reminders = reminders }, []string{"a b"}, connect.CodeInvalidArgument},
		"no token":     {func(c *server.Config) { c.Reminders, c.Token = reminders, "secret-secret-secret" }, []string{"a"}, connect.CodeUnauthenticated},
		"no reminders": {nil, []string{"a"}, connect.CodeUnimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, &fakeHost{}, "127.0.0.1:0", tc.change)
			c := newClient(t, "http://"+s.Addr().String(), nil)
			var refused *Error
			if err := c.SubscribeReminders(t.Context(), Subscription{Names: tc.names}); !errors.As(err, &refused) || refused.Code != tc.code {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestSubscribeRemindersClosed ends with its client.
func TestSubscribeRemindersClosed(t *testing.T) {
	reminders := newReminders(t)
	s := startServer(t, &fakeHost{}, "127.0.0.1:0", func(c *server.Config) { c.Reminders = reminders })
	c := newClient(t, "http://"+s.Addr().String(), nil)
	setForSubscribers(t, reminders, "a")
	ended, begun := make(chan error), make(chan struct{})
	go func() {
		ended <- c.SubscribeReminders(t.Context(), Subscription{Names: []string{"jobs"}, Do: func(ctx context.Context, _ Firing) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}})
	}()
	<-begun
	_ = c.Close()
	var closed *Error
	if err := <-ended; !errors.As(err, &closed) || closed.Kind != KindClosed {
		t.Error(err)
	}
	if dead, err := reminders.DeadLetters(t.Context(), store.DeadLetterQuery{App: "default", Limit: 1}); err != nil || len(dead) != 0 {
		t.Errorf("a failure was made of it: %v, %v", dead, err)
	}
}

package actor_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actortest"
)

// reminded runs a body in a turn of the actor Probe p.
func reminded(t *testing.T, h *actortest.Harness, run func(ctx *actor.Context) error) error {
	t.Helper()
	body = run
	return h.Call("Probe", "p", "Run", nil, nil)
}

func TestReminderComesBackAsItWasSet(t *testing.T) {
	h := actortest.New(t)
	want := actor.Reminder{
		Name: "bill", Method: "Keep", In: actor.Payload{ContentType: "text/plain", Data: []byte("hi")}, At: h.Now().Add(time.Hour), Every: time.Minute, Times: 7,
		Until: h.Now().Add(48 * time.Hour), Jitter: time.Second, Missed: actor.CatchUp(5),
		Retry: actor.Retry{Attempts: 4, Interval: time.Second, Longest: time.Minute}, Metadata: map[string]string{"plan": "gold", "b": ""}, Keep: true,
	}
	check := func(ctx *actor.Context) error {
		got, found, err := actor.GetReminder(ctx, "bill")
		if err != nil || !found || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got %+v, %t, %w", got, found, err)
		}
		return nil
	}
	if err := reminded(t, h, func(ctx *actor.Context) error {
		return errors.Join(actor.SetReminder(ctx, want), check(ctx))
	}); err != nil {
		t.Fatal(err)
	}
	if err := reminded(t, h, check); err != nil {
		t.Fatal(err)
	}
	want = actor.Reminder{Name: "bill", Method: "Keep", At: h.Now().Add(time.Hour), Cron: "0 9 * * *", Zone: "Europe/Berlin", Missed: actor.SkipMissed(time.Second), Retry: actor.Retry{Drop: true}}
	if err := reminded(t, h, func(ctx *actor.Context) error { return actor.SetReminder(ctx, want) }); err != nil {
		t.Fatal(err)
	}
	want.At = time.Date(2025, 1, 2, 8, 0, 0, 0, time.UTC)
	if err := reminded(t, h, check); err != nil {
		t.Fatal(err)
	}
}

func TestReminderTellsItsCause(t *testing.T) {
	h := actortest.New(t)
	if err := reminded(t, h, func(ctx *actor.Context) error {
		if c := ctx.Cause(); !reflect.DeepEqual(c, actor.Cause{Kind: actor.CauseCall}) {
			return fmt.Errorf("a call has the cause %+v", c)
		}
		return actor.SetReminder(ctx, actor.Reminder{Name: "r", Method: "Run", After: time.Minute, Metadata: map[string]string{"a": "b"}})
	}); err != nil {
		t.Fatal(err)
	}
	var causes []actor.Cause
	body = func(ctx *actor.Context) error {
		causes = append(causes, ctx.Cause())
		if _, found, err := actor.GetReminder(ctx, "r"); found || err != nil {
			return fmt.Errorf("the reminder that fires for the last time is there: %w", err)
		}
		if len(causes) < 2 {
			return errors.New("not now")
		}
		return nil
	}
	h.Advance(time.Hour)
	due := actortest.Start.Add(time.Minute)
	want := []actor.Cause{
		{Kind: actor.CauseReminder, Name: "r", Due: due, Attempt: 1, Metadata: map[string]string{"a": "b"}},
		{Kind: actor.CauseReminder, Name: "r", Due: due, Attempt: 2, Metadata: map[string]string{"a": "b"}},
	}
	if !reflect.DeepEqual(causes, want) {
		t.Errorf("got %+v", causes)
	}
	if left := h.Reminders(); len(left) != 0 || len(h.DeadLetters()) != 0 || !h.Now().Equal(actortest.Start.Add(time.Hour)) {
		t.Errorf("left are %+v, dead letters %+v, and it is %v", left, h.DeadLetters(), h.Now())
	}
}

func TestRemindersAreAllOrNothing(t *testing.T) {
	h := actortest.New(t)
	set := func(name string) actor.Reminder { return actor.Reminder{Name: name, Method: "Run", After: time.Hour} }
	if err := reminded(t, h, func(ctx *actor.Context) error {
		return errors.Join(actor.SetReminder(ctx, set("a")), actor.SetReminder(ctx, set("ab")), actor.SetReminder(ctx, set("b")))
	}); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	err := reminded(t, h, func(ctx *actor.Context) error {
		if err := errors.Join(actor.CancelReminder(ctx, "a"), actor.CancelReminder(ctx, "never there"), actor.SetReminder(ctx, set("c"))); err != nil {
			return err
		}
		if names, err := actor.ReminderNames(ctx, ""); err != nil || !slices.Equal(names, []string{"ab", "b", "c"}) {
			return fmt.Errorf("the turn sees %q, %w", names, err)
		}
		return refused
	})
	wantError(t, err, actor.StatusUnknown, "", "refused")
	if err := reminded(t, h, func(ctx *actor.Context) error {
		if names, err := actor.ReminderNames(ctx, "a"); err != nil || !slices.Equal(names, []string{"a", "ab"}) {
			return fmt.Errorf("after it are %q, %w", names, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.Delete("Probe", "p")
	if left := h.Reminders(); len(left) != 0 {
		t.Errorf("the actor is deleted and has %+v", left)
	}
}

func TestReminderRefusals(t *testing.T) {
	h := actortest.New(t)
	for says, r := range map[string]actor.Reminder{
		"0 bytes":       {Method: "Run"},
		"10240 bytes":   {Name: strings.Repeat("n", 10<<10), Method: "Run"},
		"no method":     {Name: "r", Method: "Nope"},
		"is read-only":  {Name: "r", Method: "RunReadOnly"},
		"millisecond":   {Name: "r", Method: "Run", Every: 1},
		"never matches": {Name: "r", Method: "Run", Cron: "0 0 30 2 *"},
		"IANA":          {Name: "r", Method: "Run", Cron: "@daily", Zone: "Middle/Earth"},
		"65536":         {Name: "r", Method: "Run", In: make([]byte, 65537)},
		"Times is -1":   {Name: "r", Method: "Run", Times: -1},
		"before 2262":   {Name: "r", Method: "Run", At: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"the end at":    {Name: "r", Method: "Run", After: time.Hour, Until: h.Now()},
		"not UTF-8":     {Name: "\xff", Method: "Run"},
		"1000 missed":   {Name: "r", Method: "Run", Missed: actor.CatchUp(-1)},
	} {
		err := reminded(t, h, func(ctx *actor.Context) error {
			err := actor.SetReminder(ctx, r)
			if !errors.Is(err, actor.ErrInvalidReminder) {
				return fmt.Errorf("%s: got %v", says, err)
			}
			return err
		})
		wantError(t, err, actor.StatusInvalidArgument, "invalid_reminder", says)
	}
	if err := reminded(t, h, func(ctx *actor.Context) error {
		for n := range 256 {
			if err := actor.SetReminder(ctx, actor.Reminder{Name: fmt.Sprint(n), Method: "Run"}); err != nil {
				return err
			}
		}
		if err := actor.CancelReminder(ctx, "one more"); !errors.Is(err, actor.ErrTooMany) {
			return fmt.Errorf("got %v", err)
		}
		return errors.New("that was all")
	}); err == nil || !strings.Contains(err.Error(), "that was all") {
		t.Error(err)
	}
	body = func(ctx *actor.Context) error {
		return actor.SetReminder(ctx, actor.Reminder{Name: "r", Method: "Run"})
	}
	wantError(t, h.Call("Probe", "p", "RunReadOnly", nil, nil), actor.StatusFailedPrecondition, "read_only", "")
	wantError(t, h.Call("Pure", "p", "Run", nil, nil), actor.StatusFailedPrecondition, "no_state", "")
	if left := h.Reminders(); len(left) != 0 {
		t.Errorf("refused turns have set %+v", left)
	}
}

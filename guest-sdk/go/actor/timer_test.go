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

func TestTimerTellsItsCause(t *testing.T) {
	h := actortest.New(t)
	if err := reminded(t, h, func(ctx *actor.Context) error {
		return errors.Join(
			actor.SetTimer(ctx, actor.Timer{Name: "every", Method: "Run", After: time.Minute, Every: time.Hour, In: map[string]int{"a": 1}}),
			actor.SetReminder(ctx, actor.Reminder{Name: "r", Method: "Run", After: 90 * time.Minute}),
			actor.SetTimer(ctx, actor.Timer{Name: "once", Method: "Run", After: 90 * time.Minute}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	ref, start := actor.Ref{Type: "Probe", ID: "p"}, actortest.Start
	want := []actortest.Timer{
		{Actor: ref, Name: "every", Method: "Run", In: actor.Payload{Data: []byte(`{"a":1}`)}, Due: start.Add(time.Minute), Every: time.Hour},
		{Actor: ref, Name: "once", Method: "Run", Due: start.Add(90 * time.Minute)},
	}
	if got := h.Timers(); !reflect.DeepEqual(got, want) {
		t.Errorf("set are %+v", got)
	}
	var fired []string
	body = func(ctx *actor.Context) error {
		c := ctx.Cause()
		fired = append(fired, fmt.Sprintf("%s %s %v %d", c.Kind, c.Name, c.Due.Sub(start), c.Attempt))
		if c.Name == "every" {
			return errors.New("which ends no timer")
		}
		return nil
	}
	h.Advance(2*time.Hour + 2*time.Minute)
	if want := []string{"timer every 1m0s 1", "timer every 1h1m0s 1", "reminder r 1h30m0s 1", "timer once 1h30m0s 1", "timer every 2h1m0s 1"}; !slices.Equal(fired, want) {
		t.Errorf("fired %q, want %q", fired, want)
	}
	h.Deactivate("Probe", "p")
	if left := h.Timers(); len(left) != 0 {
		t.Errorf("an actor that left memory has %+v", left)
	}
	h.Advance(24 * time.Hour)
	if len(fired) != 5 {
		t.Errorf("fired %q", fired[5:])
	}
}

func TestTimersAreAllOrNothing(t *testing.T) {
	h := actortest.New(t)
	timer := func(name string) actor.Timer { return actor.Timer{Name: name, Method: "Run", After: time.Hour} }
	cancel := func(ctx *actor.Context, name string, want bool) error {
		if existed, err := actor.CancelTimer(ctx, name); err != nil || existed != want {
			return fmt.Errorf("cancel %s: %t, %w", name, existed, err)
		}
		return nil
	}
	if err := reminded(t, h, func(ctx *actor.Context) error {
		return errors.Join(actor.SetTimer(ctx, timer("a")), actor.SetTimer(ctx, timer("b")), cancel(ctx, "b", true), cancel(ctx, "b", false))
	}); err != nil {
		t.Fatal(err)
	}
	err := reminded(t, h, func(ctx *actor.Context) error {
		if err := errors.Join(cancel(ctx, "a", true), actor.SetTimer(ctx, timer("c"))); err != nil {
			return err
		}
		return errors.New("refused")
	})
	wantError(t, err, actor.StatusUnknown, "", "refused")
	if left := h.Timers(); len(left) != 1 || left[0].Name != "a" {
		t.Errorf("set are %+v", left)
	}
	h.Delete("Probe", "p")
	if left := h.Timers(); len(left) != 0 {
		t.Errorf("the actor is deleted and has %+v", left)
	}
	// Actors of types without state have timers as well.
	body = func(ctx *actor.Context) error { return actor.SetTimer(ctx, timer("s")) }
	if err := h.Call("Pure", "p", "Run", nil, nil); err != nil || len(h.Timers()) != 1 {
		t.Errorf("%v, %+v", err, h.Timers())
	}
}

func TestTimerRefusals(t *testing.T) {
	h := actortest.New(t)
	for says, timer := range map[string]actor.Timer{
		"0 bytes":      {Method: "Run"},
		"no method":    {Name: "r", Method: "Nope"},
		"is read-only": {Name: "r", Method: "RunReadOnly"},
		"millisecond":  {Name: "r", Method: "Run", Every: 1},
		"below 0":      {Name: "r", Method: "Run", After: -1},
		"65536":        {Name: "r", Method: "Run", In: make([]byte, 65537)},
		"not UTF-8":    {Name: "\xff", Method: "Run"},
	} {
		err := reminded(t, h, func(ctx *actor.Context) error {
			err := actor.SetTimer(ctx, timer)
			if !errors.Is(err, actor.ErrInvalidTimer) {
				return fmt.Errorf("%s: got %v", says, err)
			}
			return err
		})
		wantError(t, err, actor.StatusInvalidArgument, "invalid_timer", says)
	}
	if err := reminded(t, h, func(ctx *actor.Context) error {
		for n := range 100 {
			if err := actor.SetTimer(ctx, actor.Timer{Name: fmt.Sprint(n), Method: "Run"}); err != nil {
				return err
			}
		}
		if err := actor.SetTimer(ctx, actor.Timer{Name: "99", Method: "Run"}); err != nil {
			return err
		}
		if err := actor.SetTimer(ctx, actor.Timer{Name: "100", Method: "Run"}); !errors.Is(err, actor.ErrTooMany) {
			return fmt.Errorf("got %v", err)
		}
		for n := range 4 {
			if err := actor.SetTimer(ctx, actor.Timer{Name: fmt.Sprint(n), Method: "Run", In: make([]byte, 65000)}); err != nil {
				return err
			}
		}
		if err := actor.SetTimer(ctx, actor.Timer{Name: "4", Method: "Run", In: make([]byte, 5000)}); !errors.Is(err, actor.ErrTooLarge) {
			return fmt.Errorf("got %v", err)
		}
		return errors.New("that was all")
	}); err == nil || !strings.Contains(err.Error(), "that was all") {
		t.Error(err)
	}
	body = func(ctx *actor.Context) error {
		_, err := actor.CancelTimer(ctx, "r")
		return err
	}
	wantError(t, h.Call("Probe", "p", "RunReadOnly", nil, nil), actor.StatusFailedPrecondition, "read_only", "")
	if left := h.Timers(); len(left) != 0 {
		t.Errorf("refused turns have set %+v", left)
	}
}

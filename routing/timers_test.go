package routing_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/routing"
)

// Timers are set and cancelled at the host that holds the actor, with all that they say.
func TestTimersGoToTheHolder(t *testing.T) {
	tb, a, b := pair(t, setup{})
	key := call("b").Key
	for _, spec := range []actor.TimerSpec{
		{Key: key, Name: "t", Method: "Tick", Schedule: actor.Schedule{After: time.Second, Every: time.Minute, Times: 3}},
		{Key: key, Name: "t", Method: "Tick", Payload: actor.Payload{ContentType: "text/plain", Data: make([]byte, actor.MaxReminderPayload)},
			Schedule: actor.Schedule{At: time.Unix(1e9, 5).UTC(), Until: time.Unix(2e9, 7).UTC()}},
	} {
		if replaced, err := a.router.SetTimer(t.Context(), spec); err != nil || !replaced {
			t.Errorf("%t, %v", replaced, err)
		}
		if got := b.host.timer; got == nil || !reflect.DeepEqual(*got, spec) {
			t.Errorf("set: %+v, want %+v", got, spec)
		}
	}
	for _, there := range []bool{true, false} {
		if existed, err := a.router.CancelTimer(t.Context(), key, "t"); err != nil || existed != there {
			t.Errorf("%t, %v", existed, err)
		}
	}
	if b.host.turns.Load() != 4 || a.host.turns.Load() != 0 {
		t.Error("another host was asked")
	}
	c := tb.join(t, "host-c", setup{})
	tb.update(func() { tb.owners["c"] = c.id })
	a.view.believes("c", b.id)
	if _, err := a.router.SetTimer(t.Context(), actor.TimerSpec{Key: call("c").Key, Name: "t", Method: "Tick"}); err != nil || c.host.timer == nil {
		t.Errorf("at who does not hold it: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.router.CancelTimer(ctx, call("nobody's").Key, "t"); !errors.Is(err, actor.ErrCanceled) {
		t.Errorf("cancelled: %v", err)
	}
	without := tb.join(t, "host-d", setup{router: func(c *routing.Config) { c.Timers = nil }})
	tb.update(func() { tb.owners["d"] = without.id })
	if _, err := a.router.CancelTimer(t.Context(), call("d").Key, "t"); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("at a host without timers: %v", err)
	}
}

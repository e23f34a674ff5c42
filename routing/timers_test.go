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

// A forwarded timer has no times of its sender's clock, which may be hours off: it fires, and
// ends, as long after it arrives as it would have where it was set.
func TestForwardedTimersHaveDelays(t *testing.T) {
	here := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	there := here.Add(-3*time.Hour + 5)
	for _, c := range []struct{ set, want actor.Schedule }{
		{actor.Schedule{At: here.Add(time.Minute), Until: here.Add(time.Hour)}, actor.Schedule{After: time.Minute, Until: there.Add(time.Hour)}},
		{actor.Schedule{At: here.Add(-time.Minute), Every: time.Hour}, actor.Schedule{After: 1, Every: time.Hour}}, // at once, not after Every
		{actor.Schedule{After: time.Second, Every: time.Minute, Times: 3}, actor.Schedule{After: time.Second, Every: time.Minute, Times: 3}},
		{actor.Schedule{Every: time.Minute, Until: here.Add(-time.Second)}, actor.Schedule{Every: time.Minute, Until: there.Add(-time.Second)}},
	} {
		spec := actor.TimerSpec{Key: call("b").Key, Name: "t", Method: "Tick", Schedule: c.set}
		got := routing.DecodeTimer(spec.Key, spec.Name, routing.EncodeTimer(&spec, here), there)
		if spec.Schedule = c.want; !reflect.DeepEqual(*got, spec) {
			t.Errorf("%+v is %+v, want %+v", c.set, got.Schedule, c.want)
		}
	}
}

// Timers are set and cancelled at the host that holds the actor, with all that they say.
func TestTimersGoToTheHolder(t *testing.T) {
	tb, a, b := pair(t, setup{})
	key := call("b").Key
	for _, spec := range []actor.TimerSpec{
		{Key: key, Name: "t", Method: "Tick", Schedule: actor.Schedule{After: time.Second, Every: time.Minute, Times: 3}},
		{Key: key, Name: "t", Method: "Tick", Payload: actor.Payload{ContentType: "text/plain", Data: make([]byte, actor.MaxReminderPayload)},
			Schedule: actor.Schedule{After: 5, Every: time.Hour}},
	} {
		if replaced, err := a.router.SetTimer(t.Context(), spec); err != nil || !replaced {
			t.Errorf("%t, %v", replaced, err)
		}
		if got := b.host.timer; got == nil || !reflect.DeepEqual(*got, spec) {
			t.Errorf("set: %+v, want %+v", got, spec)
		}
		got, err := a.router.GetTimer(t.Context(), key, "t")
		if about := time.Unix(3e9, 11); err != nil || !reflect.DeepEqual(got.TimerSpec, spec) || got.Left != 2 || got.Due.Sub(about).Abs() > time.Hour {
			t.Errorf("read: %+v, %v, want %+v", got, err, spec)
		}
	}
	var remote *routing.RemoteError
	if _, err := a.router.GetTimer(t.Context(), key, "none"); !errors.As(err, &remote) || remote.Detail.GetKind() != string(actor.ErrTimerNotFound.Kind()) {
		t.Errorf("one that is not there: %v", err)
	}
	for _, there := range []bool{true, false} {
		if existed, err := a.router.CancelTimer(t.Context(), key, "t"); err != nil || existed != there {
			t.Errorf("%t, %v", existed, err)
		}
	}
	if b.host.turns.Load() != 7 || a.host.turns.Load() != 0 {
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

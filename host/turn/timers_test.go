package turn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// noTimers is an actor that has the timer "old", on a host with room.
type noTimers struct{}

func (noTimers) Held(actor.Key) map[string]int64 { return map[string]int64{"old": 10} }
func (noTimers) Room(string, int, int64) bool    { return true }
func (noTimers) Watched(actor.Key) map[actor.Key]struct{} {
	return map[actor.Key]struct{}{}
}

// fewTimers is a host with room for three more timers, of 100 bytes together.
type fewTimers struct{ noTimers }

func (fewTimers) Room(_ string, timers int, bytes int64) bool { return timers <= 3 && bytes <= 100 }

// TestTimersOfOneTurnFitTogether: what a turn has set before counts, though the host has none
// of it yet; what it cancels or replaces does not.
func TestTimersOfOneTurnFitTogether(t *testing.T) {
	var c TimerChanges
	key := actor.Key{App: "app", Type: "T", ID: "a"}
	spec := func(name string, payload int) *actor.TimerSpec {
		return &actor.TimerSpec{Key: key, Name: name, Method: "M", Payload: actor.Payload{Data: make([]byte, payload)}}
	}
	set := func(name string, payload int, fits bool) {
		t.Helper()
		_, err := c.Set(fewTimers{}, spec(name, payload))
		var refused *TimerRefusal
		if fits && err != nil || !fits && !errors.As(err, &refused) {
			t.Errorf("%s of %d bytes: %v", name, payload, err)
		}
	}
	set("a", 1, true)
	set("b", 1, true)
	set("c", 1, true)
	set("d", 1, false)
	if !c.Cancel(fewTimers{}, key, "a") {
		t.Error("a was not there")
	}
	set("d", 1, true)
	set("b", 100, false)
	set("old", 40, true)
	set("c", 60, false)
}

// TestTimerChangesDoNotAddUp: at most one effect for each timer that there was or is.
func TestTimerChangesDoNotAddUp(t *testing.T) {
	var c TimerChanges
	key := actor.Key{App: "app", Type: "T", ID: "a"}
	for i := range 10_000 {
		name := fmt.Sprint(i)
		if replaced, err := c.Set(noTimers{}, &actor.TimerSpec{Key: key, Name: name, Method: "M"}); replaced || err != nil {
			t.Fatal(replaced, err)
		}
		if !c.Cancel(noTimers{}, key, name) {
			t.Fatal("it was not there")
		}
	}
	if n := len(c.Effects()); n != 0 {
		t.Errorf("%d effects of timers that the turn has set and cancelled", n)
	}
	if !c.Cancel(noTimers{}, key, "old") || c.Cancel(noTimers{}, key, "old") {
		t.Error("the one that was there is cancelled once")
	}
	if e := c.Effects(); len(e) != 1 || e[0].Name != "old" || e[0].Set != nil {
		t.Errorf("%+v", e)
	}
}

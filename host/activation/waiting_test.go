package activation

import (
	"testing"

	"github.com/greenroom-run/greenroom/actor"
)

// TestWaitingMessagesAreWeighed: what an activation remembers of messages counts in the table's memory
// until they are taken, each message once, and no more than maxWaiting.
func TestWaitingMessagesAreWeighed(t *testing.T) {
	k := newKnown()
	k.Weigh()
	empty := k.States.Load()
	KeepWaiting(k.Activation, nil)
	for n := range 2 * maxWaiting {
		f := &actor.Firing{Reminder: actor.ReminderID{Token: uint32(n)}}
		for range 2 {
			KeepWaiting(k.Activation, f)
		}
		if got, want := k.States.Load(), empty+int64(min(n+1, maxWaiting))*waitingCost; got != want {
			t.Fatalf("after %d messages %d bytes count, want %d", n+1, got, want)
		}
	}
	if taken := TakeWaiting(k.Activation); len(taken) != maxWaiting || k.States.Load() != empty {
		t.Errorf("%d were taken, and %d bytes count, want %d", len(taken), k.States.Load(), empty)
	}
	if again := TakeWaiting(k.Activation); len(again) != 0 {
		t.Errorf("%d were taken twice", len(again))
	}
}

package call

import (
	"errors"
	"testing"
	"time"
)

// TestCancelledEntry: a call whose wait for its turn was cancelled is never taken for one that runs, also when
// the wait has ended and the call has not; one whose wait has ended otherwise is.
func TestCancelledEntry(t *testing.T) {
	c := &Call{Request: Request{Ctx: t.Context()}}
	c.Begin(time.Now(), time.Minute)
	end := c.Enter()
	if !c.NotBegun() {
		t.Error("a call that waits for its turn is taken for one that runs")
	}
	if err := end(); err != nil || c.NotBegun() {
		t.Errorf("its wait ends with %v; it waits after that: %t", err, c.NotBegun())
	}
	if c.CancelEntry(errors.ErrUnsupported) {
		t.Error("a wait was cancelled that had ended")
	}
	end = c.Enter()
	if !c.CancelEntry(errors.ErrUnsupported) || c.CancelEntry(errors.ErrUnsupported) {
		t.Error("a wait is cancelled once")
	}
	if err := end(); !errors.Is(err, errors.ErrUnsupported) || !c.NotBegun() {
		t.Errorf("a cancelled wait ends with %v; after that it has no turn to come: %t", err, c.NotBegun())
	}
	if c.CancelEntry(errors.ErrUnsupported) {
		t.Error("a wait was cancelled that had ended")
	}
}

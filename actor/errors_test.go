package actor

import (
	"errors"
	"fmt"
	"testing"
)

// Errors with a text of their own are found as the condition that they are: by who asks
// for that one, and by who asks which it is.
func TestErrorsAreConditions(t *testing.T) {
	for _, c := range []struct {
		err  error
		want *Condition
	}{
		{&SpaceError{Free: 1, Minimum: 2}, ErrUnavailable},
		{&UnwritableError{Reason: "it is read-only"}, ErrUnavailable},
		{&HostAwayError{Name: "till-1"}, ErrNoOwner},
	} {
		err := &TurnError{Err: fmt.Errorf("commit: %w", c.err)}
		if got := AsCondition(err); got != c.want || !errors.Is(err, c.want) {
			t.Errorf("%v is %v, want %v", err, got, c.want)
		}
	}
}

package turn

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// What a turn publishes is bounded, in number and in bytes.
func TestBoundsOfEvents(t *testing.T) {
	for _, c := range []struct {
		bytes, most int
		want        abi.Code
	}{{1, actor.MaxEvents, abi.CodeTooMany}, {actor.MaxEventPayload, actor.MaxEventBytes / actor.MaxEventPayload, abi.CodeTooLarge}} {
		var turn Turn
		turn.spec.Key = actor.Key{App: "app", Type: "T", ID: "a"}
		n := 0
		code := abi.Code(0)
		for ; code == 0; n++ {
			code = turn.Publish("n", "", make([]byte, c.bytes))
		}
		if n--; code != c.want || n > c.most || n < c.most-1 || len(turn.done.Events) != n {
			t.Errorf("%d events of %d bytes were published, and the next has the code %d", n, c.bytes, code)
		}
	}
}

// A message that cannot be sent since the turn has no time left ends the turn as late, and one of a turn
// that nobody waits for as canceled.
func TestUnsentAtTheDeadline(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, want := range map[context.Context]error{late: actor.ErrDeadline, canceled: actor.ErrCanceled} {
		turn := Turn{ctx: ctx}
		if code, err := turn.unsent(errors.New("the store does not answer")); code != 0 || !errors.Is(err, want) {
			t.Errorf("code %d, %v; want %v", code, err, want)
		}
	}
}

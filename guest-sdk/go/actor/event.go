package actor

import (
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// EventPolicy is what a host keeps of the events of an actor of the type; zero means the host's
// default. A subscriber that is further behind than that has to begin anew.
type EventPolicy struct {
	// Count is how many events are kept, at most 10000. 0: 1000.
	Count int
	// Bytes is what their names and payloads take together. 0: 4 MiB.
	Bytes int64
	// MaxAge is how long an event is kept. 0: 24 hours.
	MaxAge time.Duration
}

func (p EventPolicy) addTo(t *actorType) {
	t.spec.Events = abi.EventPolicy{Count: int(bounded(p.Count)), Bytes: p.Bytes, AgeMillis: milliseconds(p.MaxAge)}
}

// ErrInvalidEvent is an event that cannot be; its message says what to change.
var ErrInvalidEvent = NewError(StatusInvalidArgument, "invalid_event", "the event cannot be")

// Publish publishes an event of the actor. Like a change of the state it is part of the turn: it
// is published when the turn commits, and subscribers get the events of an actor in the order of
// its turns, each once. The event is encoded like the input of a reminder, at most 65536 bytes.
// Clients subscribe with ActorService.Subscribe, browsers with server-sent events.
//
//	actor.Publish(ctx, "paid", Paid{Order: id, Amount: 12})
func Publish(ctx *Context, name string, event any) error {
	contentType, data, err := ctx.live().values.input(event)
	if err != nil {
		return eventFault(name, err)
	}
	switch code := publish(ctx, name, contentType, data); code {
	case 0:
		return nil
	case abi.CodeInvalid:
		return eventFault(name, ErrInvalidEvent.Messagef("%s", or(problem(ctx), ErrInvalidEvent.Message)))
	default:
		return eventFault(name, effectError(ctx, code))
	}
}

func eventFault(name string, err error) error {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	return fmt.Errorf("publish %q: %w", name, err)
}

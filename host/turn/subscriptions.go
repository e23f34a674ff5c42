package turn

import (
	"context"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// Types are the actor types that are deployed. Its methods may be called concurrently.
type Types interface {
	// CheckPublisher reports why an actor publishes no events: [actor.ErrTypeNotFound], or an
	// [*actor.ArgumentError]. It looks in the store for a type that was deployed a moment ago.
	CheckPublisher(ctx context.Context, key actor.Key) error
}

// fillEvent fills in what a turn frame says of the event that a firing has read.
func fillEvent(frame *abi.Turn, f *actor.Firing) {
	p := f.Pull
	frame.Cause, frame.CallerType, frame.CallerID, frame.Attempt = abi.CauseEvent, p.Publisher.Type, p.Publisher.ID, f.Attempt
	if p.Gone {
		frame.Failed = abi.EventsGone
		return
	}
	frame.DueUnixNano = nano(p.Event.At)
	if p.Event.Name == actor.PassedAwayEvent {
		frame.Failed = abi.PublisherPassedAway
		return
	}
	frame.CauseName = p.Event.Name
}

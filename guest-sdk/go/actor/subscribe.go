package actor

import (
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
)

// ErrInvalidSubscription is a subscription that cannot be; its message says what to change.
var ErrInvalidSubscription = NewError(StatusInvalidArgument, "invalid_subscription", "the subscription cannot be")

// EventsGone is Failed of a [Cause] of the kind [CauseEvent] that reports that events were not kept
// until they could be delivered.
const EventsGone = abi.EventsGone

// PublisherPassedAway is Failed of a [Cause] of the kind [CauseEvent] that reports that the publisher has
// passed away.
const PublisherPassedAway = abi.PublisherPassedAway

// Subscribe has the actor subscribe to the events of another one: a method of the actor runs for each
// event that the other actor publishes from now on, one after the other in their order, with the
// event as input, until the turn has succeeded. Its [Cause] has the kind [CauseEvent], the other actor
// in From, and the event's name in Name. If the turn fails, the method runs again later, and later
// events wait, for as long as the event is kept ([EventPolicy]); if events are gone, the method runs
// once without input and with [EventsGone] in Failed, and goes on after those. When the other actor
// passes away and has published events, the method runs once without input and with
// [PublisherPassedAway] in Failed, after the last event of that life; the subscription goes on with
// the events of the next one. Without input, a method that takes a struct or a map gets its zero
// value. One that takes a text, a number or another type that needs an input is not run for the end of
// a life, and fails for [EventsGone], so that later events wait.
//
// Like a change of the state, a subscription is part of the turn. Subscribing again changes the
// method alone. It ends with [Unsubscribe], with [PassAway], and with the actor. An actor subscribes to
// at most 100 others ([ErrTooMany]). The type of the other actor must be deployed
// ([ErrInvalidSubscription]); the actor need not exist.
//
//	actor.Subscribe(ctx, actor.Ref{Type: "Order", ID: "17"}, "OnOrder")
func Subscribe(ctx *Context, to Ref, method string) error {
	_, err := subscription(to, ctx, eventSubscribe(ctx, to, method))
	return err
}

// Unsubscribe ends the subscription that [Subscribe] began, and reports whether there was one. No
// event is delivered after the turn.
func Unsubscribe(ctx *Context, to Ref) (subscribed bool, err error) {
	return subscription(to, ctx, eventUnsubscribe(ctx, to))
}

func subscription(to Ref, ctx *Context, result int32) (bool, error) {
	switch code := abi.Code(result); {
	case code >= 0:
		return code == 1, nil
	case code == abi.CodeInvalid:
		return false, subscriptionFault(to, ErrInvalidSubscription.Messagef("%s", or(problem(ctx), ErrInvalidSubscription.Message)))
	default:
		return false, subscriptionFault(to, effectError(ctx, code))
	}
}

func subscriptionFault(to Ref, err error) error { return fmt.Errorf("subscription to %s: %w", to, err) }

package client

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// Message is a durable message to an actor, from outside. Such messages have no order.
type Message struct {
	// Type, ID and Method say what the message runs.
	Type, ID, Method string
	// Payload is the input, of at most 64 KiB. It must not change before Send returns.
	Payload []byte
	// ContentType is the payload's media type; empty means application/json.
	ContentType string
	// IdempotencyKey names this message to this method of this actor: however often it is
	// sent, it is stored once. 1 to 255 printable ASCII characters. Empty: none, unless the
	// client makes one.
	IdempotencyKey string
	// At is when the message is delivered, or Delay how long after it was sent; neither: at
	// once.
	At    time.Time
	Delay time.Duration
	// ForwardType and ForwardID name the actor that gets the message if nobody consumes it;
	// empty: none.
	ForwardType, ForwardID string
	// Cookie is a number of the sender's own, which the receiver gets with the message.
	Cookie uint64
}

// Sent is the result of one message.
type Sent struct {
	// ID is unique for ever; empty if the message was not stored.
	ID string
	// Repeated reports whether an earlier request with the idempotency key stored it.
	Repeated bool
	// Err is why the message was not stored; nil if it was.
	Err *Error
}

// Send stores messages to actors of an app, 1 to 1000 with 4 MiB together, and returns before they
// are delivered. An empty app is the client's. Each message is stored on its own, and has a result
// of its own; the error of a single one is returned as the error. Requests are repeated as those
// of Do. An error is an [*Error].
func (c *Client) Send(ctx context.Context, app string, messages ...Message) ([]Sent, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	if app == "" {
		app = c.conf.App
	}
	msg := &greenroomv1.SendRequest{App: app}
	repeatable := true
	for _, m := range messages {
		out := &greenroomv1.OutgoingMessage{
			Type: m.Type, Id: m.ID, Method: m.Method, Payload: m.Payload, ContentType: m.ContentType, IdempotencyKey: m.IdempotencyKey,
			ForwardType: m.ForwardType, ForwardId: m.ForwardID, Cookie: m.Cookie,
		}
		if out.IdempotencyKey == "" && c.conf.IdempotencyKeys {
			out.IdempotencyKey = c.keyPrefix + strconv.FormatUint(c.keys.Add(1), 36)
		}
		repeatable = repeatable && out.IdempotencyKey != ""
		switch {
		case !m.At.IsZero():
			out.Due = &greenroomv1.OutgoingMessage_At{At: timestamppb.New(m.At)}
		case m.Delay != 0:
			out.Due = &greenroomv1.OutgoingMessage_After{After: durationpb.New(m.Delay)}
		}
		msg.Messages = append(msg.Messages, out)
	}
	key := actor.Key{App: app, Type: messages[0].Type, ID: messages[0].ID}
	unknown := false // an earlier attempt may have stored them
	for attempt := 1; ; attempt++ {
		s, _ := c.servers.choose(key)
		sent, err := s.send(ctx, msg)
		if err == nil {
			return sent, nil
		}
		if err.Kind == KindUnreachable || err.Kind == KindConnectionLost || err.Kind == kindStopping {
			c.servers.failed(key, s)
		}
		retry := err.Retryable || err.OutcomeUnknown && repeatable
		if !retry || attempt == c.conf.MaxAttempts || isTooLong(ctx, err.RetryAfter) {
			return nil, err.afterAttempts(unknown)
		}
		if cause := c.pause(ctx, max(c.backoff(attempt), err.RetryAfter)); cause != nil {
			err.cause = cause
			return nil, err.afterAttempts(unknown)
		}
		unknown = unknown || err.OutcomeUnknown
	}
}

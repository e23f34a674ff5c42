package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Outbox makes messages of what senders ask for; a nil one makes none, and its errors are [actor.ErrUnavailable]. Its
// methods may be called concurrently.
type Outbox struct {
	Types Types
	// Inboxes bounds what receivers have; nil: they have no bound.
	Inboxes *Account
}

// Types are the actor types that are deployed.
type Types interface {
	// Receiver returns the type of an actor, [actor.ErrTypeNotFound] if there is none. It looks
	// in the store for a type, or a method of it, that was deployed a moment ago.
	Receiver(ctx context.Context, key actor.Key, method string) (Receiver, error)
}

// Receiver is an actor type that takes messages.
type Receiver interface {
	// CheckMessage reports why a message cannot run a method: [actor.ErrMethodNotFound], an
	// [*actor.ArgumentError] for one that is read-only, and [actor.ErrMethodPrivate] for one that
	// takes nothing from outside, if the message comes from there.
	CheckMessage(method string, outside bool) error
	// Messages is how messages to the type's actors are delivered.
	Messages() Policy
}

// Policy is how the messages to the actors of a type are delivered.
type Policy struct {
	// Attempts is how often a message is delivered that fails; 0: [DefaultAttempts].
	Attempts uint32
	// Interval is how long to wait before the second attempt, and twice as long before each
	// further one, up to Max. Zero: [DefaultInterval], [DefaultMax].
	Interval, Max time.Duration
	// Age is how long after its time a message is given up; 0: [DefaultAge].
	Age time.Duration
}

// The policy of a type that says nothing.
const (
	DefaultAttempts = 25
	DefaultInterval = 200 * time.Millisecond
	DefaultMax      = 5 * time.Minute
	DefaultAge      = 72 * time.Hour
)

// WithDefaults returns the policy with the defaults for what is zero.
func (p Policy) WithDefaults() Policy {
	if p.Attempts == 0 {
		p.Attempts = DefaultAttempts
	}
	if p.Interval == 0 {
		p.Interval = DefaultInterval
	}
	if p.Max == 0 {
		p.Max = max(DefaultMax, p.Interval)
	}
	if p.Age == 0 {
		p.Age = DefaultAge
	}
	return p
}

// Request is a message that somebody asks for.
type Request struct {
	// To is the receiver, and Method what the message runs.
	To      actor.Key
	Method  string
	Payload actor.Payload
	// Written is the payload as its client wrote it, if Payload has another form of it.
	Written *actor.Payload
	// At is when it is due, or After from now on; neither: at once.
	At    time.Time
	After time.Duration
	// Message has the sender, and what happens if nobody consumes the message.
	actor.Message
}

// Delayed reports whether the message is not due at once. Such a message has no order.
func (r *Request) Delayed() bool { return !r.At.IsZero() || r.After != 0 }

// Message returns what a request asks for. The message has no name. Errors are
// [*actor.ArgumentError], [actor.ErrTypeNotFound], [actor.ErrMethodNotFound],
// [actor.ErrMethodPrivate], [actor.ErrInboxFull], [actor.ErrPayloadTooLarge], and those of the
// store, which is asked now and then.
func (o *Outbox) Message(ctx context.Context, r *Request) (actor.ReminderSpec, error) {
	if o == nil {
		return actor.ReminderSpec{}, errNoMessages()
	}
	outside := r.From.ID == ""
	policy, err := o.check(ctx, r, outside)
	if err != nil {
		return actor.ReminderSpec{}, err
	}
	message := r.Message
	s := actor.ReminderSpec{
		Key: r.To, Method: r.Method, Payload: r.Payload, Message: &message,
		Schedule: actor.Schedule{At: r.At, After: r.After},
		Failure:  actor.FailurePolicy{Kind: actor.FailureExponential, Attempts: policy.Attempts, Interval: policy.Interval, Max: policy.Max},
	}
	due := r.At
	if now := time.Now(); due.Before(now) {
		due = now.Add(r.After)
	}
	if until := due.Add(policy.Age); until.Before(actor.MaxReminderTime) {
		s.Schedule.Until = until.UTC()
	}
	if o.Inboxes != nil {
		if err := o.Inboxes.Admit(ctx, r.To, int64(len(r.Payload.Data))); err != nil {
			return actor.ReminderSpec{}, err
		}
	}
	return s, nil
}

// CheckReceiver reports why a message from outside cannot run a method of an actor. It looks in the store for a
// type, or a method of it, that was deployed a moment ago. Errors are those of Message.
func (o *Outbox) CheckReceiver(ctx context.Context, key actor.Key, method string) error {
	if o == nil {
		return errNoMessages()
	}
	_, err := o.receiver(ctx, key, method, true)
	return err
}

func errNoMessages() error { return fmt.Errorf("%w: this host has no messages", actor.ErrUnavailable) }

// check reports what keeps a message from being sent, and returns the policy of the receiver's type.
func (o *Outbox) check(ctx context.Context, r *Request, outside bool) (Policy, error) {
	if err := r.To.Validate(); err != nil {
		return Policy{}, err
	}
	if err := actor.ValidateName("method", r.Method); err != nil {
		return Policy{}, err
	}
	if n := len(r.Payload.Data); n > actor.MaxReminderPayload {
		return Policy{}, &actor.ReasonError{Condition: actor.ErrPayloadTooLarge, Reason: fmt.Sprintf(
			"a message has at most %d bytes, and this one %d; keep the data in the sender's state, and name it in the message", actor.MaxReminderPayload, n)}
	}
	to, err := o.receiver(ctx, r.To, r.Method, outside)
	if err != nil {
		return Policy{}, err
	}
	if r.Forward.ID != "" {
		if r.Forward == r.To {
			return Policy{}, &actor.ArgumentError{Field: "forward", Problem: "is the receiver itself; name another actor"}
		}
		if _, err := o.receiver(ctx, r.Forward, r.Method, outside); err != nil {
			return Policy{}, fmt.Errorf("forward: %w", err)
		}
	}
	if r.Undelivered != "" {
		if outside {
			return Policy{}, &actor.ArgumentError{Field: "undelivered", Problem: "names a method of the sender, and the message comes from outside; leave it out"}
		}
		if _, err := o.receiver(ctx, r.From, r.Undelivered, false); err != nil {
			return Policy{}, fmt.Errorf("undelivered: %w", err)
		}
	}
	return to.Messages().WithDefaults(), nil
}

// receiver returns the type of an actor, whose method takes messages.
func (o *Outbox) receiver(ctx context.Context, key actor.Key, method string, outside bool) (Receiver, error) {
	t, err := o.Types.Receiver(ctx, key, method)
	if err == nil {
		err = t.CheckMessage(method, outside)
	}
	return t, err
}

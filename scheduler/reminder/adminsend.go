package reminder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// sendsKnown is for how long a message that was sent with an idempotency key is known by it.
const sendsKnown = 24 * time.Hour

// Send sends a message from outside of turns, whose spec has no name, and returns its ID. With an
// idempotency key a repeated call sends nothing, for 24 hours: it returns the ID of the message that
// was sent, and true. The same key with another payload is [actor.ErrKeyReused]. written is the payload
// as the caller wrote it, if the spec has another form of it; else nil. A message that was sent in either
// form is the same, since its type may have got a Protobuf service in between. Errors are
// [*actor.ArgumentError], those of [Service.Prepare], and [actor.ErrAmbiguous] if the message may
// or may not be sent: with a key the call may be repeated.
func (a *Admin) Send(ctx context.Context, spec actor.ReminderSpec, idempotencyKey string, written *actor.Payload) (id actor.ReminderID, repeated bool, err error) {
	if spec.Message == nil {
		spec.Message = &actor.Message{}
	}
	spec.Name, spec.Link = "", actor.TraceOf(ctx).Link()
	call := actor.KeyedCall{Actor: spec.Key, Method: actor.SendMethod(spec.Method), Key: idempotencyKey}
	keyed := idempotencyKey != ""
	if keyed {
		if err := actor.ValidateIdempotencyKey(idempotencyKey); err != nil {
			return id, false, err
		}
	}
	if err := a.grow(ctx, spec.Key.App, actor.Stored{Messages: 1}); err != nil {
		return id, false, err
	}
	r, err := a.service.Prepare(ctx, spec)
	if err != nil {
		return id, false, err
	}
	if r.Name == "" { // it is from an actor, and no commit of that one sends it
		r.Name = actor.UnorderedMessageName(r.ID)
	}
	c := actor.CommitOf()
	c.Reminders.Set = []actor.Reminder{r}
	if keyed {
		c.Records = []actor.IdempotencyRecord{{
			Actor: call.Actor, Method: call.Method, Key: call.Key, Payload: actor.PayloadSum(spec.Payload), TTL: sendsKnown,
			Reply: actor.Payload{ContentType: "text/plain; charset=utf-8", Data: []byte(r.ID.String())},
		}}
	}
	err = a.store.Commit(ctx, []actor.Commit{c})[0]
	switch {
	case err == nil:
		a.service.Committed(&c.Reminders)
		return r.ID, false, nil
	case keyed && (errors.Is(err, actor.ErrKeyExists) || errors.Is(err, actor.ErrAmbiguous)):
		id, repeated, err = a.sent(ctx, call, &r, written, err)
	case errors.Is(err, actor.ErrAmbiguous):
		// It is there, or it was never set, or it was consumed already.
		if there, readErr := a.Get(ctx, actor.ReminderName{Key: r.Key, Name: r.Name}); readErr == nil && there.ID == r.ID {
			a.service.Committed(&c.Reminders)
			return r.ID, false, nil
		}
	}
	if err != nil {
		return actor.ReminderID{}, false, fmt.Errorf("send a message: %w", err)
	}
	if id == r.ID {
		a.service.Committed(&c.Reminders)
	} else {
		a.service.Unused(r.Key.App, []actor.ReminderID{r.ID})
	}
	return id, repeated, nil
}

// sent returns the message that was sent under a key, by this call of Send or by an earlier one.
// cause is why that is not known.
func (a *Admin) sent(ctx context.Context, call actor.KeyedCall, r *actor.Reminder, written *actor.Payload, cause error) (id actor.ReminderID, repeated bool, err error) {
	records, err := a.store.LoadIdempotency(ctx, []actor.KeyedCall{call})
	if err != nil {
		return id, false, err
	}
	switch found := &records[0]; {
	case found.Err != nil:
		return id, false, found.Err
	case !found.Found:
		return id, false, cause
	case found.Record.Payload != actor.PayloadSum(r.Payload) && (written == nil || found.Record.Payload != actor.PayloadSum(*written)):
		return id, false, actor.ErrKeyReused
	default:
		id, err = actor.ParseReminderID(string(found.Record.Reply.Data))
		return id, id != r.ID, err
	}
}

// Messages lists messages to an actor as the store does.
func (a *Admin) Messages(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	return a.store.ListMessages(ctx, q)
}

// Inbox is [Service.Inbox].
func (a *Admin) Inbox(ctx context.Context, key actor.Key) (messages int, bytes int64, err error) {
	return a.service.Inbox(ctx, key)
}

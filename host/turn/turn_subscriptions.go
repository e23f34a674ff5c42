package turn

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// EventSubscribe implements [engine.Calls].
func (t *Turn) EventSubscribe(typ, id, method string) (abi.Code, error) {
	publisher, code := publisherOf(t, typ, id)
	if code != 0 {
		return code, nil
	}
	if problem := t.spec.Methods.MethodProblem("subscription", method); problem != "" {
		return t.refuse(abi.CodeInvalid, problem), nil
	}
	cursor := actor.Cursor{Publisher: publisher}
	found, code, err := t.visibleReminder(actor.ReminderName{Key: t.spec.Key, Name: actor.CursorName(publisher)})
	switch {
	case code != 0 || err != nil:
		return code, err
	case found != nil && found.Method == method:
		return 0, nil
	case found != nil:
		cursor = *found.Cursor
	default:
		if code, err = mayPublish(t, publisher); code != 0 || err != nil {
			return code, err
		}
		if cursor.After, code, err = subscribeFrom(t, publisher); code != 0 || err != nil {
			return code, err
		}
	}
	return setReminder(t, actor.CursorSpec(t.spec.Key, method, cursor)), nil
}

// mayPublish says why no subscription to a publisher begins; 0 if one may.
func mayPublish(t *Turn, publisher actor.Key) (abi.Code, error) {
	if t.env.Types == nil {
		return 0, nil
	}
	err := t.env.Types.CheckPublisher(t.ctx, publisher)
	var invalid *actor.ArgumentError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &invalid), errors.Is(err, actor.ErrTypeNotFound):
		return t.refuse(abi.CodeInvalid, err.Error()), nil
	}
	return t.ask(func() error { return err })
}

// subscribeFrom returns the position after which a new subscription begins.
func subscribeFrom(t *Turn, publisher actor.Key) (at actor.EventPosition, code abi.Code, err error) {
	names, code, err := visibleNames(t, actor.CursorNames)
	switch {
	case code != 0 || err != nil:
		return at, code, err
	case len(names) >= actor.MaxSubscriptions:
		return at, t.refuse(abi.CodeTooMany, fmt.Sprintf("an actor subscribes to at most %d others; end a subscription, or have another actor subscribe", actor.MaxSubscriptions)), nil
	}
	code, err = t.ask(func() (err error) {
		at, err = t.env.Reminders.NewestEvent(t.ctx, publisher)
		return err
	})
	return at, code, err
}

// EventUnsubscribe implements [engine.Calls].
func (t *Turn) EventUnsubscribe(typ, id string) (subscribed bool, code abi.Code, err error) {
	publisher, code := publisherOf(t, typ, id)
	if code != 0 {
		return false, code, nil
	}
	n := actor.ReminderName{Key: t.spec.Key, Name: actor.CursorName(publisher)}
	found, code, err := t.visibleReminder(n)
	if code != 0 || err != nil || found == nil {
		return false, code, err
	}
	if code := t.mayChange(); code != 0 {
		return false, code, nil
	}
	t.reminders.changes++
	t.done.Reminders.Cancels(n)
	return true, 0, nil
}

// publisherOf returns the actor that a subscription names. The code says why the turn may not change
// subscriptions.
func publisherOf(t *Turn, typ, id string) (actor.Key, abi.Code) {
	t.reminders.problem = ""
	publisher := actor.Key{App: t.spec.Key.App, Type: typ, ID: id}
	if t.migrating {
		return publisher, abi.CodeReadOnly
	}
	if code := cmp.Or(t.mayWrite(), mayKeep(t)); code != 0 {
		return publisher, code
	}
	if t.env.Reminders == nil {
		return publisher, t.refuse(abi.CodeNotReady, "this host has no subscriptions")
	}
	if err := publisher.Validate(); err != nil {
		return publisher, t.refuse(abi.CodeInvalid, err.Error())
	}
	return publisher, 0
}

// moveCursor puts a cursor after the event that asks for the turn in the place of the one that has
// fired, before the guest runs: what the guest does to the subscription comes after that.
func moveCursor(t *Turn) error {
	f := t.spec.Firing
	if f == nil || f.Pull == nil || t.spec.From.ID != "" {
		return nil
	}
	next, err := t.env.Reminders.Prepare(t.ctx, f.Next())
	if err != nil {
		return fmt.Errorf("%w: cannot set the cursor after an event: %v", actor.ErrUnavailable, err)
	}
	t.tokens = append(t.tokens, next.ID)
	t.done.Reminders.Sets(&next)
	return nil
}

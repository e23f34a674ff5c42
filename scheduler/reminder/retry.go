package reminder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Retry sets a reminder that delivers a dead letter's firing at once, under its policy
// for failures, and removes the dead letter. The reminder has the name of the one that
// failed, or, if there still is one, that with "@" and the dead letter's ID. After an error
// the dead letter may be there as before, and the reminder too. Repeated then, it sets no
// second one, for 30 days, and returns the reminder as it was set. The firing of a message is
// delivered by a message without an order and without an end.
func (a *Admin) Retry(ctx context.Context, app string, id DeadLetterID) (actor.Reminder, error) {
	d, err := a.DeadLetter(ctx, app, id)
	if err != nil {
		return actor.Reminder{}, err
	}
	r, err := newRetry(a, d, id).run(ctx)
	if err != nil {
		return actor.Reminder{}, fmt.Errorf("retry a dead letter: %w", err)
	}
	if _, err := a.store.RemoveDeadLetter(ctx, id.Reminder, id.Due); err != nil {
		return actor.Reminder{}, fmt.Errorf("remove a dead letter: %w", err)
	}
	return r, nil
}

// retriesKnown is for how long a retry of a dead letter is known by its ID.
const retriesKnown = 30 * 24 * time.Hour

// The methods of the records of retries, which are kept as idempotency keys of calls are. A
// reminder that is for subscribers has no method, and keys that callers give to methods are
// theirs.
const (
	// reservedMethod records the ID of the reminder that was set, paused, under the name of the one
	// that failed. If another has that name by then, the commit records it all the same.
	reservedMethod = "greenroom.retry.held"
	// retryMethod records the name of the reminder that delivers the firing, in the commit
	// that makes it do so.
	retryMethod = "greenroom.retry"
)

// maxRetrySteps is how often a retry looks how far it has come; three times if nobody
// interferes.
const maxRetrySteps = 10

// retry is the retry of a dead letter.
//
// One commit makes a reminder deliver the firing and records that. It resumes a paused one
// that was set under the name of the one that failed, under its version; or, if that name
// is another's, it sets one whose name nobody else has. So whatever comes between two
// steps of a retry, or of several, the firing is delivered once.
type retry struct {
	*Admin
	dead  *actor.DeadLetter
	spec  actor.ReminderSpec // of the reminder that delivers the firing
	key   string             // of the records
	other string             // the name while the first one is another's
}

func newRetry(a *Admin, d *actor.DeadLetter, id DeadLetterID) *retry {
	t := &retry{Admin: a, dead: d, spec: d.Reminder.ReminderSpec, key: "dead letter " + id.String(), other: otherName(d.Reminder.Name, id)}
	t.spec.Schedule = actor.Schedule{At: id.Due}
	t.spec.Missed = actor.MissedPolicy{}
	t.spec.Keep, t.spec.Hold = false, false
	if t.spec.Message != nil {
		// No other message has that name: the one that failed is gone.
		t.other = actor.UnorderedMessageName(id.Reminder)
		t.spec.Name = t.other
	}
	return t
}

func (t *retry) run(ctx context.Context) (actor.Reminder, error) {
	var err error // of the last step
	for range maxRetrySteps {
		delivering, held, readErr := t.recorded(ctx)
		if readErr != nil {
			return actor.Reminder{}, readErr
		}
		if delivering != "" {
			return t.result(ctx, delivering, held)
		}
		var own actor.Reminder
		if t.spec.Message == nil {
			own, readErr = t.named(ctx, t.spec.Name)
		}
		switch free := errors.Is(readErr, actor.ErrReminderNotFound); {
		case t.spec.Message != nil:
			err = t.setOther(ctx)
		case readErr == nil && own.ID.String() == held:
			err = t.resume(ctx, &own)
		case free && held == "":
			err = t.reserve(ctx)
		case readErr == nil, free, errors.Is(readErr, actor.ErrStateDamaged):
			err = t.setOther(ctx)
		default:
			return actor.Reminder{}, readErr
		}
		// What another retry was quicker with, and what may have been done, is in the records.
		var taken *actor.ArgumentError
		if err != nil && !errors.Is(err, actor.ErrKeyExists) && !errors.Is(err, actor.ErrFiringTaken) &&
			!errors.Is(err, actor.ErrAmbiguous) && !errors.As(err, &taken) {
			return actor.Reminder{}, err
		}
	}
	return actor.Reminder{}, err
}

// recorded returns the name of the reminder that delivers the firing, and the ID of the one
// that was set paused; empty if none is recorded.
func (t *retry) recorded(ctx context.Context) (delivering, held string, err error) {
	records, err := t.store.LoadIdempotency(ctx, []actor.KeyedCall{
		{Actor: t.spec.Key, Method: retryMethod, Key: t.key}, {Actor: t.spec.Key, Method: reservedMethod, Key: t.key},
	})
	if err != nil {
		return "", "", err
	}
	return string(records[0].Record.Reply.Data), string(records[1].Record.Reply.Data), errors.Join(records[0].Err, records[1].Err)
}

func (t *retry) named(ctx context.Context, name string) (actor.Reminder, error) {
	return t.Get(ctx, actor.ReminderName{Key: t.spec.Key, Name: name})
}

// result returns the reminder that delivers the firing.
func (t *retry) result(ctx context.Context, name, held string) (actor.Reminder, error) {
	r, err := t.named(ctx, name)
	switch {
	case err == nil && (name == t.other || r.ID.String() == held):
		return r, nil
	case err != nil && !errors.Is(err, actor.ErrReminderNotFound):
		return r, err
	}
	// It has fired by now, or was deleted: answer with the dead letter's own reminder.
	r = t.dead.Reminder
	r.Name = name
	return r, nil
}

// reserve sets the reminder under the name of the one that failed, paused.
func (t *retry) reserve(ctx context.Context) error {
	spec := t.spec
	spec.Keep, spec.Hold = true, true
	r, err := t.service.Prepare(ctx, spec)
	if err != nil {
		return err
	}
	return t.commit(ctx, reservedMethod, r.ID.String(), actor.ReminderEffects{Set: []actor.Reminder{r}})
}

// resume has the reminder that reserve has set deliver the firing.
func (t *retry) resume(ctx context.Context, r *actor.Reminder) error {
	step := t.service.planner.Paused(r, false, t.Now())
	err := t.commit(ctx, retryMethod, r.Name, actor.ReminderEffects{Steps: []actor.ReminderStep{step}})
	if err == nil {
		t.service.takeovers.notify([]store.ReminderHead{{ID: r.ID, FireAt: step.Then.FireAt}})
	}
	return err
}

// setOther sets a reminder under the other name, which delivers the firing.
func (t *retry) setOther(ctx context.Context) error {
	switch _, err := t.named(ctx, t.other); {
	case err == nil, errors.Is(err, actor.ErrStateDamaged):
		// Another retry set it, as the records will show, or somebody else did.
		return &actor.ArgumentError{Field: "dead letter", Problem: fmt.Sprintf("needs the name %q, which another reminder has; delete that one first", t.other)}
	case !errors.Is(err, actor.ErrReminderNotFound):
		return err
	}
	spec := t.spec
	spec.Name = t.other
	r, err := t.service.Prepare(ctx, spec)
	if err != nil {
		return err
	}
	return t.commit(ctx, retryMethod, r.Name, actor.ReminderEffects{Set: []actor.Reminder{r}})
}

// commit commits one step of the retry, with its record.
func (t *retry) commit(ctx context.Context, method, text string, e actor.ReminderEffects) error {
	c := actor.CommitOf()
	c.Reminders = e
	c.Records = []actor.IdempotencyRecord{{
		Actor: t.spec.Key, Method: method, Key: t.key, TTL: retriesKnown,
		Reply: actor.Payload{ContentType: "text/plain; charset=utf-8", Data: []byte(text)},
	}}
	if err := t.store.Commit(ctx, []actor.Commit{c})[0]; err != nil {
		return err
	}
	t.service.Committed(&e)
	return nil
}

// otherName is the name of a dead letter's reminder while another has the one that failed:
// no other dead letter has it.
func otherName(name string, id DeadLetterID) string {
	suffix := "@" + id.String()
	return strings.ToValidUTF8(name[:min(len(name), actor.MaxReminderName-len(suffix))], "") + suffix
}

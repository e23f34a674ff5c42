package reminder

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// MaxCancel is how many messages [Admin.CancelMessages] removes at most.
const MaxCancel = 10_000

// cancelPage is how many messages are read at once, with their payloads.
const cancelPage = 100

// CancelRequest says which messages are cancelled.
type CancelRequest struct {
	// To is their receiver, or without an ID the type of all receivers.
	To actor.Key
	// DeadLetter makes them dead letters in the place of removing them.
	DeadLetter bool
	// Except are left alone: their turns run.
	Except []actor.ReminderID
}

// cancelledReason is why a message is a dead letter that was cancelled.
const cancelledReason = "the message was cancelled before it was consumed"

// CancelMessages removes the messages that wait, at most [MaxCancel] of them, and returns how many it
// has removed, and whether there may be more. Their senders hear nothing of it. A message whose turn
// is committed at the same moment is consumed, or its turn changes nothing.
func (a *Admin) CancelMessages(ctx context.Context, req CancelRequest) (removed int, more bool, err error) {
	except := make(map[actor.ReminderID]bool, len(req.Except))
	for _, id := range req.Except {
		except[id] = true
	}
	q := store.ReminderQuery{App: req.To.App, Type: req.To.Type, ID: req.To.ID, Messages: true, Limit: cancelPage}
	for removed < MaxCancel {
		page, next, err := a.store.ListReminders(ctx, q)
		if err != nil {
			return removed, false, fmt.Errorf("list messages: %w", err)
		}
		n, err := a.cancelMessages(ctx, page, except, req.DeadLetter)
		if removed += n; err != nil {
			return removed, false, fmt.Errorf("cancel messages, of which %d were removed: %w", removed, err)
		}
		if next.Name == "" {
			return removed, false, nil
		}
		q.After = next
	}
	return removed, true, nil
}

// cancelMessages removes the messages of a page, and returns how many it has removed.
func (a *Admin) cancelMessages(ctx context.Context, page []actor.Reminder, except map[actor.ReminderID]bool, dead bool) (removed int, err error) {
	for range maxPauseTries {
		var commits []actor.Commit
		for i := range page {
			r := &page[i]
			if r.Version == 0 || except[r.ID] {
				continue
			}
			step := messageStep(r)
			step.Ordered = false // all of them are removed, whichever is first
			if dead {
				step.DeadLetter = &actor.DeadFiring{Due: r.Due, Failures: r.Failures, Reason: cancelledReason}
			}
			c := actor.CommitOf()
			c.Reminders.Steps = []actor.ReminderStep{step}
			commits = append(commits, c)
		}
		if len(commits) == 0 {
			return removed, nil
		}
		var again []actor.ReminderName
		var failed error
		for i, commitErr := range a.store.Commit(ctx, commits) {
			switch {
			case commitErr == nil:
				removed++
				a.service.Committed(&commits[i].Reminders)
			case errors.Is(commitErr, actor.ErrFiringTaken), errors.Is(commitErr, actor.ErrAmbiguous):
				again = append(again, commits[i].Reminders.Steps[0].ReminderName)
				err = commitErr
			default:
				failed = errors.Join(failed, commitErr)
			}
		}
		if failed != nil || len(again) == 0 {
			return removed, failed
		}
		// The rows say what was consumed meanwhile, and what is to be delivered once more.
		if page, failed = a.store.FindReminders(ctx, again); failed != nil && !errors.Is(failed, actor.ErrStateDamaged) {
			return removed, failed
		}
	}
	return removed, err
}

// Package remindertest has what tests of reminders share. It imports nothing of
// [github.com/greenroom-run/greenroom/scheduler/reminder], whose own tests use it.
package remindertest

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// DeliverFunc is a reminder.Deliverer that waits: ended gets what it returns.
type DeliverFunc func(ctx context.Context, f actor.Firing) error

// Deliver implements reminder.Deliverer.
func (d DeliverFunc) Deliver(ctx context.Context, f actor.Firing, ended func(error)) (giveUp func()) {
	ended(d(ctx, f))
	return func() {}
}

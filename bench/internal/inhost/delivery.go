package inhost

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/store"
)

// reminderParts deliver reminders to a host in the same process.
type reminderParts struct {
	*reminder.Service
	store store.Store
	host  *host.Host // there before reminders start
	// delivered, if not nil, is called for each delivery, on the goroutine that the delivery
	// ends on.
	delivered func(f actor.Firing, began time.Time, err error)
	// messages, if not nil, makes messages of reminders.
	messages *outgoing
}

// Prepare implements [host.Reminders].
func (p *reminderParts) Prepare(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, error) {
	if p.messages != nil {
		spec = p.messages.message(spec)
	}
	return p.Service.Prepare(ctx, spec)
}

// renew makes a service that has not started; a window of 0 is the default.
func (p *reminderParts) renew(window time.Duration) {
	p.Service = must.Get(reminder.New(reminder.Config{
		Store: p.store, Deliverer: p, Logger: quiet, Window: window, Host: actor.HostID(actor.NewCommitID().String()),
	}))
}

// begin begins to deliver, if there is anything to.
func (p *reminderParts) begin(ctx context.Context) {
	if p != nil {
		must.Check(p.Start(ctx))
	}
}

// Deliver implements [reminder.Deliverer], as package node does.
func (p *reminderParts) Deliver(ctx context.Context, f actor.Firing, ended func(error)) (giveUp func()) {
	began := time.Now()
	inv := actor.Invocation{Key: f.Key, Method: f.Method, Payload: f.Payload, Firing: &f}
	return p.host.Begin(ctx, inv, receiver(func(err error) {
		if p.delivered != nil {
			p.delivered(f, began, err)
		}
		ended(err)
	})).GiveUp
}

// FindReminders implements [host.Reminders].
func (p *reminderParts) FindReminders(ctx context.Context, names []actor.ReminderName) ([]actor.Reminder, error) {
	return p.store.FindReminders(ctx, names)
}

func (p *reminderParts) ReminderNames(ctx context.Context, key actor.Key, prefix string, limit int) ([]string, error) {
	list, _, err := p.store.ListReminders(ctx, store.ReminderQuery{App: key.App, Type: key.Type, ID: key.ID, Prefix: prefix, Limit: min(limit, store.MaxList)})
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names, err
}

func (p *reminderParts) EarlierMessage(ctx context.Context, n actor.ReminderName) (bool, error) {
	return store.EarlierMessage(ctx, p.store, n)
}

func (p *reminderParts) ThinReminders(ctx context.Context, row actor.RowFence, damaged bool) error {
	return store.ThinReminders(ctx, p.store, row, damaged)
}

// receiver is called with the error of a call that ended, nil if it succeeded.
type receiver func(error)

func (r receiver) Answer(_ actor.Reply, err error) { r(err) }

func (p *reminderParts) NewestEvent(ctx context.Context, key actor.Key) (actor.EventPosition, error) {
	return p.store.NewestEvent(ctx, key)
}

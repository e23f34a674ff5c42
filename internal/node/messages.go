package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/scheduler/reminder"
	"github.com/greenroom-run/greenroom/store"
)

// messages stores the messages that callers from outside send. Its methods may be called
// concurrently.
type messages struct {
	host  outbox
	admin sender
	store store.Reminders
	hosts *hostCheck // nil: this process is alone
}

// outbox checks messages; [*inbox.Outbox] does.
type outbox interface {
	Message(ctx context.Context, r *inbox.Request) (actor.ReminderSpec, error)
	CheckReceiver(ctx context.Context, key actor.Key, method string) error
}

// sender stores messages; [*reminder.Admin] does.
type sender interface {
	Send(ctx context.Context, spec actor.ReminderSpec, idempotencyKey string, written *actor.Payload) (id actor.ReminderID, repeated bool, err error)
	CancelMessages(ctx context.Context, req reminder.CancelRequest) (removed int, more bool, err error)
}

// Send implements [rpc.Messages].
func (m *messages) Send(ctx context.Context, r *inbox.Request, idempotencyKey string) (id actor.ReminderID, repeated bool, err error) {
	if m.hosts != nil {
		if err := m.hosts.allKnowMessages(ctx); err != nil {
			return id, false, err
		}
	}
	spec, err := m.host.Message(ctx, r)
	if err != nil {
		return id, false, err
	}
	return m.admin.Send(ctx, spec, idempotencyKey, r.Written)
}

// CheckReceiver implements [rpc.Messages].
func (m *messages) CheckReceiver(ctx context.Context, key actor.Key, method string) error {
	return m.host.CheckReceiver(ctx, key, method)
}

// List implements [rpc.Messages].
func (m *messages) List(ctx context.Context, q store.MessageQuery) (list []actor.Reminder, next string, err error) {
	return m.store.ListMessages(ctx, q)
}

// Cancel implements [rpc.Messages].
func (m *messages) Cancel(ctx context.Context, req reminder.CancelRequest) (removed int, more bool, err error) {
	return m.admin.CancelMessages(ctx, req)
}

// hostCheck looks for hosts that would deliver a message as a reminder, and so out of order.
// Modules that send are not deployed while there is one; callers from outside need no module.
type hostCheck struct {
	store store.Cluster

	mu      sync.Mutex
	asking  bool
	checked time.Time
	refusal error // of the last check
}

const (
	// messageProtocol is the first protocol between hosts that knows messages.
	messageProtocol = 6
	// checkHostsEvery is how often the hosts are looked at, at most.
	checkHostsEvery = 5 * time.Second
)

// allKnowMessages returns [actor.ErrHostTooOld] if a host does not know messages. While one caller
// asks the store, others get the answer that was given before.
func (c *hostCheck) allKnowMessages(ctx context.Context) error {
	c.mu.Lock()
	if c.asking || time.Since(c.checked) < checkHostsEvery {
		defer c.mu.Unlock()
		return c.refusal
	}
	c.asking = true
	c.mu.Unlock()
	hosts, now, err := c.store.Hosts(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = false
	if err != nil {
		return fmt.Errorf("read the hosts of the cluster: %w", err)
	}
	c.checked, c.refusal = time.Now(), nil
	for _, h := range hosts {
		if h.ExpiresAt.After(now) && h.MaxProtocol < messageProtocol {
			c.refusal = &actor.ReasonError{Condition: actor.ErrHostTooOld, Reason: fmt.Sprintf(
				"the host %s at %s, which runs version %s, does not know messages; upgrade it first", h.Name, h.Address, h.Version)}
		}
	}
	return c.refusal
}

package host

import (
	"context"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/inbox"
)

// Message returns what a request for a message asks for, which the caller then has stored, if the
// receiver's type is deployed and has the method, and the receiver's inbox has room. Errors are
// those of [inbox.Outbox.Message].
func (h *Host) Message(ctx context.Context, r *inbox.Request) (actor.ReminderSpec, error) {
	if h.outbox == nil {
		return actor.ReminderSpec{}, fmt.Errorf("%w: this host has no messages", actor.ErrUnavailable)
	}
	return h.outbox.Message(ctx, r)
}

package host

import (
	"github.com/greenroom-run/greenroom/host/inbox"
)

// Outbox makes messages of what callers from outside ask for, who then have them stored. It is nil if the host has no
// messages, and refuses them then.
func (h *Host) Outbox() *inbox.Outbox { return h.outbox }

package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Begin is [Host.Invoke] for callers that have many calls under way and no
// goroutine for each: it does not wait for mailboxes and commits. It may still
// block, and takes the time of a turn: an actor that is idle runs its turn here.
//
// ctx bounds the call as it does for Invoke, but who ends it also calls GiveUp.
// Unless that happened, the host has no use for ctx and the receiver once that has
// its answer.
func (h *Host) Begin(ctx context.Context, inv actor.Invocation, to Receiver) Begun {
	b := &begun{by: &h.admission}
	b.request = h.invocation(ctx, inv)
	b.receiver = to
	if r := h.admission.admit(&b.call); !r.later {
		h.answering.respond(&b.call, r)
	}
	return b
}

// begun is a call whose caller does not wait.
type begun struct {
	call
	by *admission
}

// GiveUp implements [Begun].
func (b *begun) GiveUp() {
	c, answering := &b.call, b.by.answering
	if c.responded.Load() {
		return
	}
	s := b.by.table.shard(c.inv.Key)
	if s.endLookUp(c) || s.withdraw(c) {
		answering.respond(c, result{err: contextError(c.ctx), stats: turnStats{lane: c.lane}})
		return
	}
	// As in queued: the guest is being stopped, or the turn is sealed.
	t := time.AfterFunc(b.by.grace, func() {
		answering.respond(c, result{err: actor.ErrAmbiguous, stats: turnStats{lane: c.lane}})
	})
	if c.grace.Store(t); c.responded.Load() {
		t.Stop()
	}
}

package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
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
	b.Request = h.invocation(ctx, inv)
	b.Receiver = to
	if r := h.admission.admit(&b.Call); !r.Later {
		h.answering.Respond(&b.Call, r)
	}
	return b
}

// begun is a call whose caller does not wait.
type begun struct {
	call.Call
	by *admission
}

// GiveUp implements [Begun].
func (b *begun) GiveUp() {
	c, answering := &b.Call, b.by.answering
	if c.Responded.Load() {
		return
	}
	s := b.by.table.Shard(c.Inv.Key)
	if s.EndLookUp(c) || s.Withdraw(c) {
		answering.Respond(c, call.Result{Err: call.ContextError(c.Ctx), Stats: call.Stats{Lane: c.Lane}})
		return
	}
	// As in queued: the guest is being stopped, or the turn is sealed.
	t := time.AfterFunc(b.by.grace, func() {
		answering.Respond(c, call.Result{Err: actor.ErrAmbiguous, Stats: call.Stats{Lane: c.Lane}})
	})
	if c.Grace.Store(t); c.Responded.Load() {
		t.Stop()
	}
}

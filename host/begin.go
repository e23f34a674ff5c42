package host

import (
	"context"
	cryptorand "crypto/rand"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// Receiver gets the outcome of a call that was begun.
type Receiver interface {
	// Answer gets what [Host.Invoke] returns: once, on any goroutine, and perhaps
	// before Begin has returned. Others wait for their answers meanwhile: it must
	// not block.
	Answer(reply actor.Reply, err error)
}

// PlacedReceiver is a [Receiver] that has others begun in order, one after the other, and
// need not wait for turns to do so.
type PlacedReceiver interface {
	Receiver
	// Placed is called once a call that is begun later cannot come before this one: on the
	// goroutine that called Begin, before a turn runs there. It is not called where Begin
	// returns without that, and must not block.
	Placed()
}

// Begun is a call that was begun.
type Begun interface {
	// GiveUp tells the host that the call's context has ended, which nobody
	// watches: what Invoke does then is done, and the receiver gets the outcome.
	GiveUp()
}

// Begin is [Host.Invoke] for callers that have many calls under way and no
// goroutine for each: it does not wait for mailboxes and commits. It may still
// block, and takes the time of a turn: an actor that is idle runs its turn here.
//
// ctx bounds the call as it does for Invoke, but who ends it also calls GiveUp.
// Unless that happened, the host has no use for ctx and the receiver once that has
// its answer.
func (h *Host) Begin(ctx context.Context, inv actor.Invocation, to Receiver) Begun {
	arrived := time.Now()
	if inv.ID == "" {
		inv.ID = cryptorand.Text()
	}
	c := &call{ctx: ctx, op: opInvoke, inv: inv, arrived: arrived}
	c.to, c.receiver = &h.admission, to
	if r := h.admission.admit(c); !r.later {
		c.respond(r)
	}
	return c
}

// begun is what a call has whose caller does not wait.
type begun struct {
	to        *admission
	receiver  Receiver // nil: the caller waits
	responded atomic.Bool
	grace     atomic.Pointer[time.Timer] // set when it runs on after GiveUp
	// lane is set before the call is in a mailbox; at is guarded by the shard's lock.
	lane Lane
	at   *activation
}

// placed tells the receiver that the call has its place.
func (c *call) placed() {
	if p, ok := c.receiver.(PlacedReceiver); ok {
		p.Placed()
	}
}

// respond gives the receiver the answer, unless it has one.
func (c *call) respond(r result) {
	if !c.responded.CompareAndSwap(false, true) {
		return
	}
	if t := c.grace.Load(); t != nil {
		t.Stop()
	}
	c.to.memory.add(-c.charged)
	c.receiver.Answer(c.to.conclude(c, r))
}

// GiveUp implements [Begun].
func (c *call) GiveUp() {
	if c.responded.Load() {
		return
	}
	s := c.to.table.shard(c.inv.Key)
	if s.endLookUp(c) || s.withdraw(c) {
		c.respond(result{err: contextError(c.ctx), stats: turnStats{lane: c.lane}})
		return
	}
	// As in queued: the guest is being stopped, or the turn is sealed.
	t := time.AfterFunc(c.to.grace, func() {
		c.respond(result{err: actor.ErrAmbiguous, stats: turnStats{lane: c.lane}})
	})
	if c.grace.Store(t); c.responded.Load() {
		t.Stop()
	}
}

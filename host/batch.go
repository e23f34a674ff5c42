package host

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/speculation"
)

// member and flight are an activation and a batch as package speculation sees them.
type (
	member = speculation.Member[*call, *batch]
	flight = speculation.Batch[*call, *batch]
	held   = speculation.Held[*call, *batch]
)

// batch is what a [flight] commits: of one actor, all turns that are folded into it.
// It is a [pipeline.Work].
type batch struct {
	host *Host
	a    *activation
	in   *flight

	// These do not change once the batch is a flight.
	commit  actor.Commit
	state   *overlay.State // what the commit carries, encoded when it is sent; nil: records alone
	encoded actor.EncodedState
	buffer  *[]byte // of Host.buffers, that encoded is in; nil: none
	records []actor.IdempotencyRecord
	replies int   // bytes of the records
	most    int   // how many of them there may be before the commit has to go
	heldFor int64 // what the replies of calls count for in Host.memory
	after   *loaded
	fence   bool // of a call with a key that has failed
}

// newBatch returns what commits the turns of a from its tip on.
func (h *Host) newBatch(a *activation) *batch {
	return &batch{host: h, a: a, commit: newCommit(a.key, a.tip), after: a.tip}
}

// newCheck returns a batch that commits nothing and confirms the tip.
func (h *Host) newCheck(a *activation) *batch {
	return &batch{host: h, a: a, commit: actor.Commit{Key: a.key, ReadVersion: a.tip.version}, after: a.tip}
}

// release gives back the memory of a batch that has landed with err. Whether
// somebody still reads what a commit of an unknown outcome carried is not known
// either: then its buffer is not used again.
func (h *Host) release(b *batch, err error) {
	h.memory.add(-b.heldFor)
	if b.buffer != nil && (err == nil || refusal(err)) {
		h.buffers.Put(b.buffer)
	}
	b.buffer = nil
}

// maxReplies is how many bytes of recorded replies a batch gathers at most before
// its actor waits for the flight. Where large states and payloads are allowed it
// is less: with one more reply and the state, a commit stays within
// actor.MaxCommitBytes.
const maxReplies = 2 << 20

// full reports whether no further turn may be folded for now. There is a flight
// then, whose landing sends the pending batch off. The caller has the shard's
// lock.
func (a *activation) full() bool {
	p := a.member.Pending()
	if p == nil {
		return false
	}
	b := p.Payload
	return b.replies > 0 && b.replies >= b.most || b.heldFor >= maxHeld
}

// maxHeld bounds the replies that wait for one commit, recorded or not, in the
// same way.
const maxHeld = 8 << 20

// recordCost is what a record takes beside its reply, roughly.
const recordCost = 256

// Size implements [pipeline.Work].
func (b *batch) Size() int64 {
	size := b.replies
	if b.state != nil {
		size += b.state.Size()
	}
	return int64(size)
}

// Commit implements [pipeline.Work].
func (b *batch) Commit() actor.Commit {
	if b.state != nil {
		b.buffer = b.host.buffers.Get().(*[]byte)
		*b.buffer = b.state.AppendEncoded((*b.buffer)[:0])
		b.encoded = actor.EncodedState{Format: b.state.Format(), Data: *b.buffer}
		b.commit.Effects.State = &b.encoded
	}
	b.commit.Fence = b.fence && b.state == nil
	b.commit.Effects.Idempotency = b.records
	return b.commit
}

// Done implements [pipeline.Work].
func (b *batch) Done(err error, now time.Time) {
	if errors.Is(err, actor.ErrAmbiguous) {
		b.host.settleFlight(b, err)
		return
	}
	b.host.landed(b, err, now)
}

package host

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/speculation"
)

// member and flight are an activation and a batch as package speculation sees them.
type (
	member    = speculation.Member[*call, *batch]
	flight    = speculation.Batch[*call, *batch]
	dependent = speculation.Dependent[*call, *batch]
)

// batch is what a [flight] commits: of one actor, all turns that are folded into it.
// It is a [pipeline.Work].
type batch struct {
	by *workers
	a  *activation
	in *flight

	// These do not change once the batch is a flight.
	rows        [1]actor.RowWrite // the actor's next version, if it is written
	state       *overlay.State    // what the row gets, encoded when the batch is sent; nil: it keeps its own
	encoded     actor.EncodedState
	buffer      *[]byte // of workers.buffers, that encoded is in; nil: none
	records     []actor.IdempotencyRecord
	reminders   actor.ReminderEffects
	replies     int   // bytes of the records and reminders
	most        int   // how many of them there may be before the commit has to go
	replyMemory int64 // what the replies of calls count for in Config.CallMemory
	after       *residency.Row
	bump        bool // the version moves on: a call with a key has failed

	commit actor.Commit // made when the batch is sent
}

// maxReplies is how many bytes of recorded replies and reminders a batch gathers at most before
// its actor waits for the flight. Where large states and payloads are allowed it
// is less: with one more turn's and the state, a commit stays within
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
	return b.replies > 0 && b.replies >= b.most || b.replyMemory >= maxReplyMemory
}

// maxReplyMemory bounds the replies that wait for one commit, recorded or not, in the
// same way.
const maxReplyMemory = 8 << 20

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

func (b *batch) row() *actor.RowWrite { return &b.rows[0] }

// writes reports whether the commit moves the row's version on.
func (b *batch) writes() bool { return b.state != nil || b.bump }

// Commit implements [pipeline.Work].
func (b *batch) Commit() actor.Commit {
	if b.state != nil {
		b.buffer = b.by.buffers.Get().(*[]byte)
		*b.buffer = b.state.AppendEncoded((*b.buffer)[:0])
		b.encoded = actor.EncodedState{Format: b.state.Format(), Data: *b.buffer}
		b.row().State = &b.encoded
	}
	b.row().Bump = b.bump && b.state == nil
	b.commit = actor.Commit{ID: actor.NewCommitID(), Records: b.records, Reminders: b.reminders}
	if b.writes() {
		b.commit.Rows = b.rows[:]
	} else { // records and steps of reminders alone
		b.commit.Fences = []actor.RowFence{b.row().Fence()}
	}
	return b.commit
}

// Done implements [pipeline.Work].
func (b *batch) Done(err error, now time.Time) {
	if errors.Is(err, actor.ErrAmbiguous) {
		b.by.settleFlight(b, err)
		return
	}
	b.by.landed(b, err, now)
}

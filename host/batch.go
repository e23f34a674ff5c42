package host

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// maxReplies is how many bytes of recorded replies and reminders a batch gathers at most before
// its actor waits for the flight. Where large states and payloads are allowed it
// is less: with one more turn's and the state, a commit stays within
// actor.MaxCommitBytes.
const maxReplies = 2 << 20

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
		b.buffer = b.buffers.Get().(*[]byte)
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
func (b *batch) Done(err error, now time.Time) { b.done(b, err, now) }

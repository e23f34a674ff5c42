package host

import (
	"context"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
)

// maxReplies is how many bytes of recorded replies and reminders a batch gathers at most before
// its actor waits for the flight. Where large states and payloads are allowed it
// is less: with one more turn's and the state, a commit stays within
// actor.MaxCommitBytes.
const maxReplies = 2 << 20

// Size implements [pipeline.Work].
func (b *batch) Size() int64 {
	size := b.replies
	for i := range b.parts {
		if state := b.parts[i].state; state != nil {
			size += state.Size()
		}
	}
	return int64(size)
}

// App implements [pipeline.Work].
func (b *batch) App() string { return b.parts[0].a.key.App }

// set gives the actor of a part a state, by a turn that ran under s, and moves its tip on.
func (b *batch) set(i int, state *overlay.State, s *serving.Type) {
	p, row := &b.parts[i], &b.rows[i]
	row.Generation, row.StateSchema = s.Deployment.Generation, s.StateSchema
	p.state, p.after = state, p.a.Tip.After(row, state)
	p.a.Tip = p.after
	p.a.weigh()
}

// fence moves the version of a part's row on, whatever else is done to it.
func (b *batch) fence(i int) {
	p := &b.parts[i]
	if p.bump {
		return
	}
	p.bump = true
	if p.state == nil {
		p.after = p.a.Tip.Bumped(&b.rows[i])
		p.a.Tip = p.after
		p.a.weigh()
	}
}

// maxJointRows is how many actors one commit has at most, beside those of one chain.
const maxJointRows = 128

// fits reports whether the pending batches of activations are within the bounds of one
// commit together, with so many bytes more. The caller has the locks.
func fits(of []*activation, adds int64) bool {
	var seen []*flight
	rows := 0
	for _, a := range of {
		p := a.member.Pending()
		switch {
		case p == nil:
			rows++
		case !slices.Contains(seen, p):
			seen = append(seen, p)
			rows += len(p.Payload.parts)
			adds += p.Payload.Size()
		}
	}
	return len(seen) == 0 || rows <= maxJointRows && adds <= actor.MaxCommitBytes
}

// lockToFold is lockAll for a turn of all these activations that joins their batches, if joins,
// and adds so many bytes: where the batches would become too large by that, they are
// committed first.
func lockToFold(of []*activation, joins bool, adds int64) (locked []*shard) {
	for {
		locked = lockAll(of)
		if !joins || fits(of, adds) {
			return locked
		}
		unlockAll(locked)
		for _, a := range of {
			_, _ = a.awaitCommits(context.Background()) // it never ends; what was dropped is found out by the caller
		}
	}
}

// join adds what other commits: of other actors, in the same app.
func (b *batch) join(other *batch) {
	b.parts, b.rows = append(b.parts, other.parts...), append(b.rows, other.rows...)
	b.records, b.timers = append(b.records, other.records...), append(b.timers, other.timers...)
	b.reminders.Add(&other.reminders)
	b.replies += other.replies
	b.replyMemory += other.replyMemory
	b.most = min(b.most, other.most)
}

// countReply counts the reply of a call that is held.
func (b *batch) countReply(r *actor.Reply) {
	if cost := call.ReplyCost(r); cost > 0 {
		b.count(cost)
	}
}

// countTimers counts the timers that are set when the batch has landed.
func (b *batch) countTimers(c *timer.Changes) {
	if size := c.Size(); size > 0 {
		b.count(size)
	}
}

// count counts n bytes until the batch has landed.
func (b *batch) count(n int64) {
	b.replyMemory += n
	b.memory.Add(b.App(), n)
}

// remind adds what a turn does to reminders.
func (b *batch) remind(e *actor.ReminderEffects) {
	if e.Empty() {
		return
	}
	b.reminders.Add(e)
	size := e.Size()
	b.replies += size
	b.count(int64(size))
}

// settleTimers lets what called turns of the batch's calls have done to timers take effect, or
// drops it. The caller has the locks.
func (b *batch) settleTimers(apply bool, now time.Time) {
	settleTimers(b.timers, apply, now)
	b.timers = nil
}

// Commit implements [pipeline.Work].
func (b *batch) Commit() actor.Commit {
	b.commit = actor.Commit{ID: actor.NewCommitID(), Records: b.records, Reminders: b.reminders}
	for i := range b.parts {
		p, row := &b.parts[i], &b.rows[i]
		if p.state != nil {
			p.buffer = b.buffers.Get().(*[]byte)
			*p.buffer = p.state.AppendEncoded((*p.buffer)[:0])
			p.encoded = actor.EncodedState{Format: p.state.Format(), Data: *p.buffer}
			row.State = &p.encoded
		}
		row.Bump = p.bump && p.state == nil
		if !p.writes() {
			b.commit.Fences = append(b.commit.Fences, row.Fence())
		}
	}
	switch len(b.commit.Fences) {
	case 0:
		b.commit.Rows = b.rows
	case len(b.parts): // records and steps of reminders alone
	default:
		for i := range b.parts {
			if b.parts[i].writes() {
				b.commit.Rows = append(b.commit.Rows, b.rows[i])
			}
		}
	}
	return b.commit
}

// Done implements [pipeline.Work].
func (b *batch) Done(err error, now time.Time) { b.done(b, err, now) }

package activation

import (
	"context"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
	"github.com/greenroom-run/greenroom/host/turn"
)

// Forgo ends a batch that is never sent.
func (b *Batch) Forgo(now time.Time) {
	b.by.memory.Give(b.App(), b.replyMemory)
	b.DecideTimers(false, now)
}

// Release gives back the memory of a batch that has landed with err. Whether
// somebody still reads what a commit of an unknown outcome carried is not known
// either: then its buffers are not used again.
func (b *Batch) Release(err error) {
	b.by.memory.Give(b.App(), b.replyMemory)
	for i := range b.Parts {
		p := &b.Parts[i]
		if p.buffer != nil && (err == nil || call.Refused(err)) {
			b.by.buffers.Put(p.buffer)
		}
		p.buffer = nil
	}
}

// Size implements [pipeline.Work].
func (b *Batch) Size() int64 {
	size := b.Replies
	for i := range b.Parts {
		if state := b.Parts[i].state; state != nil {
			size += state.Size()
		}
	}
	return int64(size)
}

// App implements [pipeline.Work].
func (b *Batch) App() string { return b.Parts[0].Activation.Key.App }

// Set gives the actor of a part a state, by a turn that ran under s, and moves its tip on. life is
// what the turn has done to its life, and whom it has spawned.
func (b *Batch) Set(i int, state *overlay.State, s *serving.Type, life *turn.Life) {
	p, row := &b.Parts[i], &b.Rows[i]
	if row.Generation, row.StateSchema = s.Deployment.Generation, s.StateSchema; life.MethodSet != nil {
		row.MethodSet = life.MethodSet
	}
	b.Spawned = append(b.Spawned, life.Spawned...)
	b.serve(life.Services)
	if p.state = state; life.PassedAway {
		*row = p.Activation.Tip.PassAway(p.Activation.Key, s.Deployment.Generation)
		p.state, p.gone = nil, true
	}
	p.After = p.Activation.Tip.After(row, state)
	p.Activation.Tip = p.After
	p.Activation.Weigh()
}

// serve adds what a turn does to services. A later turn of the actor decides.
func (b *Batch) serve(changes []actor.ServiceChange) {
	for _, v := range changes {
		b.Services = slices.DeleteFunc(b.Services, func(w actor.ServiceChange) bool { return w.Name == v.Name && w.Actor == v.Actor })
		b.Services = append(b.Services, v)
	}
}

// Fence moves the version of a part's row on, whatever else is done to it.
func (b *Batch) Fence(i int) {
	p := &b.Parts[i]
	if p.bump {
		return
	}
	p.bump = true
	if p.state == nil {
		p.After = p.Activation.Tip.Bumped(&b.Rows[i])
		p.Activation.Tip = p.After
		p.Activation.Weigh()
	}
}

// maxJointRows is how many actors one commit has at most, beside those of one chain.
const maxJointRows = 128

// Fit reports whether the pending batches of activations are within the bounds of one
// commit together, with so many bytes more. The caller has the locks.
func Fit(of []*Activation, adds int64) bool {
	var seen []*Flight
	rows := 0
	for _, a := range of {
		p := a.Member.Pending()
		switch {
		case p == nil:
			rows++
		case !slices.Contains(seen, p):
			seen = append(seen, p)
			rows += len(p.Payload.Parts) + len(p.Payload.Spawned)
			adds += p.Payload.Size()
		}
	}
	return len(seen) == 0 || rows <= maxJointRows && adds <= actor.MaxCommitBytes
}

// LockToFold is lockAll for a turn of all these activations that joins their batches, if joins,
// and adds so many bytes and records of calls: where the batches would become too large by that, or have a
// mark where it has a reply or the other way round, they are committed first.
func LockToFold(of []*Activation, joins bool, adds int64, replies, marks []actor.KeyedCall) (locked []*Shard) {
	for {
		locked = lockAll(of)
		if !joins || Fit(of, adds) && !excluded(of, replies, marks) && !crossed(of) {
			return locked
		}
		UnlockAll(locked)
		for _, a := range of {
			_, _ = a.AwaitCommits(context.Background()) // it never ends; what was dropped is found out by the caller
		}
	}
}

// Marking reports whether a commit of a that has c may have a mark. The caller has the lock.
func Marking(a *Activation, c *call.Call) bool {
	p := a.Member.Pending()
	marks, _ := c.MarksToWrite()
	return p != nil && (p.Payload.marks || len(marks) > 0)
}

// excluded reports whether a pending batch of activations has a mark of one of the calls that get replies,
// or the reply to one that gets a mark: only one of the two may be committed. The caller has the locks.
func excluded(of []*Activation, replies, marks []actor.KeyedCall) bool {
	for _, a := range of {
		p := a.Member.Pending()
		if p == nil || len(marks) == 0 && !p.Payload.marks {
			continue
		}
		for i := range p.Payload.Records {
			r := &p.Payload.Records[i]
			with := marks
			if r.Mark != nil {
				with = replies
			}
			if slices.Contains(with, r.Call()) {
				return true
			}
		}
	}
	return false
}

// crossed reports whether a pending batch of activations has a mark of a call to which another one has the reply. The
// caller has the locks.
func crossed(of []*Activation) bool {
	var several []*Batch
	marks := false
	for _, a := range of {
		if p := a.Member.Pending(); p != nil && !slices.Contains(several, p.Payload) {
			several, marks = append(several, p.Payload), marks || p.Payload.marks
		}
	}
	if len(several) < 2 || !marks {
		return false
	}
	marked := make(map[actor.KeyedCall]bool)
	for _, b := range several {
		for i := range b.Records {
			r := &b.Records[i]
			k, is := r.Call(), r.Mark != nil
			if was, there := marked[k]; there && was != is {
				return true
			}
			marked[k] = is
		}
	}
	return false
}

// Join adds what other commits: of other actors, in the same app.
func (b *Batch) Join(other *Batch) {
	b.Parts, b.Rows = append(b.Parts, other.Parts...), append(b.Rows, other.Rows...)
	for i := range other.Records {
		b.Record(other.Records[i])
	}
	b.Timers = append(b.Timers, other.Timers...)
	b.Spawned = append(b.Spawned, other.Spawned...)
	b.Services = append(b.Services, other.Services...)
	b.Reminders.Add(&other.Reminders)
	b.Events = append(b.Events, other.Events...)
	b.Replies += other.Replies
	b.replyMemory += other.replyMemory
	b.Most = min(b.Most, other.Most)
}

// Record adds a record, unless it is a mark of a call that already has a record. It reports whether the
// batch has the record then.
func (b *Batch) Record(r actor.IdempotencyRecord) bool {
	if r.Mark != nil {
		b.marks = true
		for i := range b.Records {
			if there := &b.Records[i]; there.Call() == r.Call() {
				return there.Mark != nil && *there.Mark == *r.Mark
			}
		}
	}
	b.Records = append(b.Records, r)
	return true
}

// CountReply counts the reply of a call that is held.
func (b *Batch) CountReply(r *actor.Reply) {
	if cost := call.ReplyCost(r); cost > 0 {
		b.count(cost)
	}
}

// CountTimers counts the timers that are set when the batch has landed.
func (b *Batch) CountTimers(c *timer.Changes) {
	if size := c.Size(); size > 0 {
		b.count(size)
	}
}

// count counts n bytes until the batch has landed.
func (b *Batch) count(n int64) {
	b.replyMemory += n
	b.by.memory.Add(b.App(), n)
}

// Remind adds what a turn does to reminders.
func (b *Batch) Remind(e *actor.ReminderEffects) {
	if e.Empty() {
		return
	}
	b.Reminders.Add(e)
	size := e.Size()
	b.Replies += size
	b.count(int64(size))
}

// Publish adds the events that a turn publishes.
func (b *Batch) Publish(events []actor.EventWrite) {
	if len(events) == 0 {
		return
	}
	b.Events = append(b.Events, events...)
	size := actor.SizeOfEvents(events)
	b.Replies += size
	b.count(int64(size))
}

// Announce calls published with the actors that the batch publishes events of, and how many.
func (b *Batch) Announce(published func(key actor.Key, events int)) {
	for from := 0; from < len(b.Events); {
		to := from + 1
		for to < len(b.Events) && b.Events[to].Key == b.Events[from].Key {
			to++
		}
		published(b.Events[from].Key, to-from)
		from = to
	}
}

// DecideTimers lets what called turns of the batch's calls have done to timers take effect, or
// drops it. The caller has the locks.
func (b *Batch) DecideTimers(apply bool, now time.Time) {
	DecideTimers(b.Timers, apply, now)
	b.Timers = nil
}

// Commit implements [pipeline.Work].
func (b *Batch) Commit() actor.Commit {
	b.Sent = actor.Commit{ID: actor.NewCommitID(), Records: b.Records, Reminders: b.Reminders, Events: b.Events, Services: b.Services}
	for i := range b.Parts {
		p, row := &b.Parts[i], &b.Rows[i]
		if p.state != nil {
			p.buffer = b.by.buffers.Get().(*[]byte)
			*p.buffer = p.state.AppendEncoded((*p.buffer)[:0])
			p.encoded = actor.EncodedState{Format: p.state.Format(), Data: *p.buffer}
			row.State = &p.encoded
		}
		row.Bump = p.bump && p.state == nil && !p.gone
		if !p.Writes() {
			b.Sent.Fences = append(b.Sent.Fences, row.Fence())
		}
	}
	switch len(b.Sent.Fences) {
	case 0:
		b.Sent.Rows = b.Rows
	case len(b.Parts): // records and steps of reminders alone
	default:
		for i := range b.Parts {
			if b.Parts[i].Writes() {
				b.Sent.Rows = append(b.Sent.Rows, b.Rows[i])
			}
		}
	}
	if len(b.Spawned) > 0 {
		b.Sent.Rows = slices.Concat(b.Sent.Rows, b.Spawned)
	}
	inbox.Name(&b.Sent)
	return b.Sent
}

// Done implements [pipeline.Work].
func (b *Batch) Done(err error, now time.Time) { b.by.landed(b, err, now) }

// Lock locks what the end of the batch's flight may change.
func (b *Batch) Lock() (several []*Shard) {
	if len(b.Parts) == 1 {
		return b.Parts[0].Activation.Lock()
	}
	all := make([]*Activation, len(b.Parts))
	for i := range b.Parts {
		all[i] = b.Parts[i].Activation
	}
	return lockAll(all)
}

// Unlock unlocks what Lock has locked and returned.
func (b *Batch) Unlock(several []*Shard) { b.Parts[0].Activation.Unlock(several) }

// DecideTimers lets changes to timers take effect, or drops them. The caller has the locks.
func DecideTimers(all []Timing, apply bool, now time.Time) {
	for _, t := range all {
		t.Activation.Shard.Timers.Decide(t.Activation.Key, t.Changes, apply, now)
	}
}

package host

import (
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/speculation"
)

// What package speculation decides is performed here, under the lock of the
// activation's shard; what is left to be done without it is a [followUp].

// followUp is what a change of an activation leaves to be done when the lock of
// the shard is given back.
type followUp struct {
	launched *batch
	bring    bool // who does it only waits for the commit of launched
	answered answers
	doubtful answers // failures that are to be looked up; each has one of shard.work
	idle     bool    // the activation has no work any more
	gone     bool    // and has left the table
}

// workers see to it that calls with a mailbox are run and answered: they take calls
// to package speculation, and perform what it decides.
type workers struct {
	logger *slog.Logger
	events *Events
	// callersCommit is Config.Pipeline.CallersCommit.
	callersCommit bool
	answering     *answering
	memory        *callMemory
	table         *table
	store         *storage
	ownership     *ownership
	records       *recordings
	turns         *turns
	// done takes the outcomes of commits.
	done    func(b *batch, err error, now time.Time)
	buffers sync.Pool // of *[]byte, for encoded states on their way to the store
}

// hold keeps an answer until the batch f has landed.
func (w *workers) hold(f *flight, d dependent, r result) {
	d.Call.result = r
	f.Hold(d)
	w.countReply(f.Payload, &r.reply)
	w.countTimers(f.Payload, d.Call)
}

// countReply counts the reply of a call that is held.
func (w *workers) countReply(b *batch, r *actor.Reply) {
	if cost := replyCost(r); cost > 0 {
		w.count(b, cost)
	}
}

// count counts n bytes until the batch has landed.
func (w *workers) count(b *batch, n int64) {
	b.replyMemory += n
	w.memory.Add(b.a.key.App, n)
}

// countTimers counts the timers that a call sets which is held.
func (w *workers) countTimers(b *batch, c *call) {
	if size := c.timers.Size(); size > 0 {
		w.count(b, size)
	}
}

// join puts a call into the pending batch, with an answer for when it has landed.
func (w *workers) join(a *activation, c *call, r result, role speculation.Role) *batch {
	c.result = r
	f := speculation.Fold([]*member{&a.member}, dependent{Call: c, Home: &a.member, Role: role}, func() *batch { return w.newBatch(a) }, nil)
	b := f.Payload
	b.in = f
	w.countReply(b, &r.reply)
	w.countTimers(b, c)
	return b
}

// fold adds a sealed turn to the pending batch. The caller has the shard's lock.
func (w *workers) fold(a *activation, c *call, s *served, done *sealed) {
	b := w.join(a, c, result{}, speculation.Effect)
	if done.changed {
		b.state = done.state
		b.row().Generation, b.row().StateSchema = s.deployment.Generation, s.stateSchema
		b.after = a.Tip.After(b.row(), done.state)
		a.Tip = b.after
		a.weigh()
		done.reply.Version = b.row().NewVersion
	}
	if c.cause == actor.CauseKeyedCall {
		b.records = append(b.records, c.record(done.reply, s.limits.IdempotencyTTL))
		b.replies += len(done.reply.Payload.Data) + recordCost
	}
	if !done.reminders.Empty() {
		b.reminders.Add(&done.reminders)
		size := done.reminders.Size()
		b.replies += size
		w.count(b, int64(size))
	}
	b.most = int(min(maxReplies, MaxStateAndPayload-s.limits.StateBytes-s.limits.PayloadBytes-s.reminderBytes))
	c.result = result{reply: done.reply, stats: c.stats}
	w.countReply(b, &done.reply)
}

// foldFailure adds the failure of a call with a key to the pending batch: it is
// answered when the version has moved on, so that no earlier attempt of the call
// can be applied any more, and then only if none was. The caller has the shard's
// lock.
func (w *workers) foldFailure(a *activation, c *call, r result) {
	b := w.join(a, c, r, speculation.Failure)
	if b.bump {
		return
	}
	b.bump = true
	if b.state == nil {
		b.after = a.Tip.Bumped(b.row())
		a.Tip = b.after
		a.weigh()
	}
}

// ask puts a call that shows what no commit proves into a check. There is no batch.
// The caller has the shard's lock.
func (w *workers) ask(a *activation, c *call, r result) {
	w.join(a, c, r, speculation.Question)
}

// launch makes the pending batch the flight, if there is one and the last has
// landed. The caller has the shard's lock, and sends the result without it.
func (a *activation) launch(now time.Time) *batch {
	if f := a.member.Launch(now); f != nil {
		return f.Payload
	}
	return nil
}

// perform does what was decided, because of err if that is not nil. The caller has
// the shard's lock.
func (w *workers) perform(a *activation, did *speculation.Actions[*call, *batch], err error, now time.Time, then *followUp) {
	if len(did.Dropped) > 0 { // a itself
		a.forget()
	}
	for _, f := range did.Lost {
		w.memory.Give(f.Payload.a.key.App, f.Payload.replyMemory)
	}
	for _, c := range did.Fail {
		c.result = result{err: cutShort(err), stats: c.stats}
		a.shard.answer(&then.answered, c)
	}
	if len(did.Rerun) > 0 {
		var rerun list.List[*call]
		for _, d := range did.Rerun {
			a.runAgain(d.Call, err, &rerun, &then.answered)
		}
		a.calls.AgainAll(&rerun)
	}
	for _, c := range did.Answer {
		c.result.stats.ended = now
		a.shard.answer(&then.answered, c)
	}
	for _, c := range did.Confirm {
		a.shard.answer(&then.doubtful, c)
	}
	for _, f := range did.Launch {
		then.launched = f.Payload
	}
	switch next := a.member.Flight(); {
	case len(did.Later) == 0:
	case next == nil && a.Outdated():
		w.supersede(a, did.Later, now, then)
	case a.lost:
		for _, seen := range did.Later {
			seen.Call.result = result{err: actor.ErrNotOwner, stats: seen.Call.stats}
			a.shard.answer(&then.answered, seen.Call)
		}
	case !a.Outdated() && w.ownership.currentSince(a, now, now): // under the lease
		for _, seen := range did.Later {
			seen.Call.result.stats.ended = now
			a.shard.answer(&then.answered, seen.Call)
		}
	case next == nil:
		for _, seen := range did.Later {
			w.ask(a, seen.Call, seen.Call.result)
		}
		then.launched = a.launch(now)
	default:
		role := speculation.Observer
		if next.Check() {
			role = speculation.Question
		}
		for _, seen := range did.Later {
			seen.Role = role
			w.hold(next, seen, seen.Call.result)
		}
	}
}

// supersede drops the activation's state, since the store has a newer one, and
// lets the calls that ran on it go again. There is no batch. The caller has the
// shard's lock.
func (w *workers) supersede(a *activation, calls []dependent, now time.Time, then *followUp) {
	did := speculation.Drop([]*member{&a.member}, calls, actor.ErrStale)
	w.perform(a, &did, actor.ErrStale, now, then)
}

// runAgain puts a call that was run for nothing where it goes again, or answers it
// if something left the host with it. The caller has the shard's lock.
func (a *activation) runAgain(c *call, err error, rerun *list.List[*call], answered *answers) {
	if c.stats.sent {
		c.result = result{err: cutShort(err), stats: c.stats}
		a.shard.answer(answered, c)
		return
	}
	c.goAgain(&a.shard.timers, err)
	rerun.Push(&c.place, c)
}

// newBatch returns what commits the turns of a from its tip on; without any it confirms
// the tip.
func (w *workers) newBatch(a *activation) *batch {
	return &batch{done: w.done, buffers: &w.buffers, a: a, rows: [1]actor.RowWrite{a.Tip.Next(a.key)}, after: a.Tip}
}

// release gives back the memory of a batch that has landed with err. Whether
// somebody still reads what a commit of an unknown outcome carried is not known
// either: then its buffer is not used again.
func (w *workers) release(b *batch, err error) {
	w.memory.Give(b.a.key.App, b.replyMemory)
	if b.buffer != nil && (err == nil || refusal(err)) {
		w.buffers.Put(b.buffer)
	}
	b.buffer = nil
}

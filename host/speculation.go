package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/speculation"
)

// What package speculation decides is performed here, under the lock of the
// activation's shard; what is left to be done without it is a [followUp].

// hold keeps an answer until the batch f has landed.
func (w *workers) hold(f *flight, c *call, r result, role speculation.Role, since time.Time) {
	c.result = r
	f.Hold(dependent{Call: c, Home: &c.at.member, Role: role, Since: since})
	f.Payload.countReply(&r.reply)
	f.Payload.countTimers(c)
}

// countReply counts the reply of a call that is held.
func (b *batch) countReply(r *actor.Reply) {
	if cost := replyCost(r); cost > 0 {
		b.replyMemory += cost
		b.by.memory.add(cost)
	}
}

// countTimers counts the timers that a call sets which is held.
func (b *batch) countTimers(c *call) {
	if size := c.timers.Size(); size > 0 {
		b.replyMemory += size
		b.by.memory.add(size)
	}
}

// join puts a call into the pending batch, with an answer for when it has landed.
// payload makes a new one, if there is none.
func (a *activation) join(c *call, r result, role speculation.Role, payload func() *batch) *batch {
	c.result = r
	f := speculation.Fold([]*member{&a.member}, dependent{Call: c, Home: &a.member, Role: role}, payload, nil)
	b := f.Payload
	b.in = f
	b.countReply(&r.reply)
	b.countTimers(c)
	return b
}

// fold adds a sealed turn to the pending batch. The caller has the shard's lock.
func (a *activation) fold(w *workers, c *call, s *served, done *sealed) {
	b := a.join(c, result{}, speculation.Effect, func() *batch { return w.newBatch(a) })
	if done.changed {
		b.state = done.state
		b.row().Generation, b.row().StateSchema = s.deployment.Generation, s.stateSchema
		b.after = a.Tip.After(b.row(), done.state)
		a.Tip = b.after
		a.weigh()
		done.reply.Version = b.row().NewVersion
	}
	if c.keyed() {
		b.records = append(b.records, c.record(done.reply, s.limits.IdempotencyTTL))
		b.replies += len(done.reply.Payload.Data) + recordCost
	}
	if !done.reminders.Empty() {
		b.reminders.Add(&done.reminders)
		size := done.reminders.Size()
		b.replies += size
		b.replyMemory += int64(size)
		w.memory.add(int64(size))
	}
	b.most = int(min(maxReplies, MaxStateAndPayload-s.limits.StateBytes-s.limits.PayloadBytes-s.reminderBytes))
	c.result = result{reply: done.reply, stats: c.stats}
	b.countReply(&done.reply)
}

// foldFailure adds the failure of a call with a key to the pending batch: it is
// answered when the version has moved on, so that no earlier attempt of the call
// can be applied any more, and then only if none was. The caller has the shard's
// lock.
func (a *activation) foldFailure(w *workers, c *call, r result) {
	b := a.join(c, r, speculation.Failure, func() *batch { return w.newBatch(a) })
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
func (a *activation) ask(w *workers, c *call, r result) {
	a.join(c, r, speculation.Question, func() *batch { return w.newBatch(a) })
}

// launch makes the pending batch the flight, if there is one and the last has
// landed. The caller has the shard's lock, and sends the result without it.
func (a *activation) launch(now time.Time) *batch {
	if f := a.member.Launch(now); f != nil {
		return f.Payload
	}
	return nil
}

// landed ends a flight: err is the outcome of its commit, as that of
// [storage.commit]. What rests on it is answered, or goes again.
//
// now is when that was known.
func (w *workers) landed(b *batch, err error, now time.Time) {
	check := b.in.Check()
	if err != nil && !check {
		err = fmt.Errorf("commit turn: %w", err)
	}
	if !check {
		// Before anything that follows from it is done, and told.
		w.events.Commit(CommitEnd{
			Key: b.row().Key, Lane: LaneWarm, Duration: now.Sub(b.in.Began()), GroupSize: b.in.Effects(), Err: err,
		})
		if err == nil {
			w.turns.reminders.committed(&b.reminders)
		}
	}
	then := w.land(b, err, now)
	if errors.Is(err, actor.ErrKeyExists) {
		w.records.repeats.Note(&b.a.key, now)
	}
	w.followThrough(b.a.shard, b.a, &then)
}

// land is the part of landed under the shard's lock.
func (w *workers) land(b *batch, err error, now time.Time) (then followUp) {
	a, s := b.a, b.a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	outcome := speculation.Applied
	switch {
	case refusal(err):
		outcome = speculation.Refused
	case err != nil:
		outcome = speculation.Failed
	case !b.in.Check():
		a.Install(b.after)
		a.weigh()
		if b.writes() {
			a.advanced()
		}
	}
	if errors.Is(err, actor.ErrAmbiguous) {
		a.gaveUp(now)
	}
	if err == nil && !a.Outdated() {
		a.Confirmed(b.in.Began())
	}
	did := b.in.Landed(outcome, err, now)
	a.perform(w, s, &did, err, now, &then)
	if a.leaving {
		a.giveBackCalls(&then.answered)
	}
	w.release(b, err)
	doubtful, cost := then.doubtful.Sum()
	a.calls.Answered(then.answered.Sum())
	a.calls.Answered(doubtful, cost)
	s.work.Add(doubtful) // before the activation's own is done
	if a.member.Flight() == nil && a.drained != nil {
		close(a.drained)
		a.drained = nil
	}
	w.proceed(s, a, now, &then)
	return then
}

// perform does what was decided, because of err if that is not nil. The caller has
// the shard's lock.
func (a *activation) perform(w *workers, s *shard, did *speculation.Actions[*call, *batch], err error, now time.Time, then *followUp) {
	if len(did.Dropped) > 0 { // a itself
		a.forget()
	}
	for _, f := range did.Lost {
		w.memory.add(-f.Payload.replyMemory)
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
		a.supersede(w, s, did.Later, now, then)
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
			a.ask(w, seen.Call, seen.Call.result)
		}
		then.launched = a.launch(now)
	default:
		role := speculation.Observer
		if next.Check() {
			role = speculation.Question
		}
		for _, seen := range did.Later {
			w.hold(next, seen.Call, seen.Call.result, role, seen.Since)
		}
	}
}

// supersede drops the activation's state, since the store has a newer one, and
// lets the calls that ran on it go again. There is no batch. The caller has the
// shard's lock.
func (a *activation) supersede(w *workers, s *shard, calls []dependent, now time.Time, then *followUp) {
	did := speculation.Drop([]*member{&a.member}, calls, actor.ErrStale)
	a.perform(w, s, &did, actor.ErrStale, now, then)
}

// runAgain puts a call that was run for nothing where it goes again, or answers it
// if something left the host with it. The caller has the shard's lock.
func (a *activation) runAgain(c *call, err error, rerun *list.List[*call], answered *answers) {
	if c.stats.sent {
		c.result = result{err: cutShort(err), stats: c.stats}
		a.shard.answer(answered, c)
		return
	}
	c.goAgain(a.shard, err)
	rerun.Push(&c.place, c)
}

// settleFlight finds out the outcome of a commit, beside the lanes. No turn of
// the actor begins meanwhile: it would most likely have to run again.
func (w *workers) settleFlight(b *batch, cause error) {
	s := b.a.shard
	s.mu.Lock()
	b.in.Settle()
	s.mu.Unlock()
	// The flight keeps the activation busy, which Stop waits for.
	go func() {
		err := w.store.settle(b.commit, cause)
		w.landed(b, err, time.Now())
	}()
}

// sendCheck asks whether the version that a check rests on is still the row's.
func (w *workers) sendCheck(b *batch) {
	w.store.versions.Ask(b.row().Key, func(v actor.RowVersion, err error) {
		switch {
		case err != nil:
			err = fmt.Errorf("confirm version: %w", err)
		case v.Version != b.row().ReadVersion:
			err = actor.ErrStale
		}
		w.landed(b, err, time.Now())
	})
}

// sendDoubtful answers calls whose held failures are behind fences: with the record
// of an earlier attempt, if there is one.
func (w *workers) sendDoubtful(s *shard, l *answers) {
	for c, ok := l.Take(); ok; c, ok = l.Take() {
		w.store.records.Ask(c.keyedCall(), func(found actor.Recorded, err error) {
			if known, ok := w.records.asRecorded(c, found, err); ok {
				c.result = known
			}
			c.result.stats.ended = time.Now()
			w.answering.answer(c)
			s.work.Done()
		})
	}
}

// submitted sees to a flight that the pipeline may have refused.
func (w *workers) submitted(b *batch, err error) {
	if err != nil {
		w.landed(b, err, time.Now())
	}
}

// newBatch returns what commits the turns of a from its tip on; without any it confirms
// the tip.
func (w *workers) newBatch(a *activation) *batch {
	return &batch{by: w, a: a, rows: [1]actor.RowWrite{a.Tip.Next(a.key)}, after: a.Tip}
}

// release gives back the memory of a batch that has landed with err. Whether
// somebody still reads what a commit of an unknown outcome carried is not known
// either: then its buffer is not used again.
func (w *workers) release(b *batch, err error) {
	w.memory.add(-b.replyMemory)
	if b.buffer != nil && (err == nil || refusal(err)) {
		w.buffers.Put(b.buffer)
	}
	b.buffer = nil
}

package host

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/speculation"
	"github.com/greenroom-run/greenroom/host/storage"
)

// What package speculation decides is performed here, under the locks of the shards of
// all activations that it concerns; what is left to be done without them is a [followUp].

// followUp is what a change of activations leaves to be done when the locks of
// their shards are given back.
type followUp struct {
	launched *batch // and those that are next to it
	bring    bool   // who does it only waits for the commit of launched
	answered call.Answers
	doubtful call.Answers // failures that are to be looked up; each has one of shard.work
	retired
	others []retired     // others than retired
	also   []*activation // others that have changed, by what was done to batches that they share
}

// retired is an activation that has no work any more.
type retired struct {
	a    *activation // nil: none
	gone bool        // it has left the table
}

// launch adds a batch to those that are to be sent; nil adds none.
func (then *followUp) launch(b *batch) {
	if b != nil {
		b.next, then.launched = then.launched, b
	}
}

// changed adds the activations of a batch to those that have changed.
func (then *followUp) changed(b *batch) {
	for i := range b.parts {
		if len(b.parts) > 1 && !slices.Contains(then.also, b.parts[i].a) {
			then.also = append(then.also, b.parts[i].a)
		}
	}
}

// workers see to it that calls with a mailbox are run and answered: they take calls
// to package speculation, and perform what it decides.
type workers struct {
	logger *slog.Logger
	// callersCommit is Config.Pipeline.CallersCommit.
	callersCommit bool
	answering     *call.Answering
	memory        *call.Memory
	table         *table
	store         *storage.Store
	ownership     *ownership
	records       *recordings
	turns         *turns
	// done takes the outcomes of commits.
	done    func(b *batch, err error, now time.Time)
	buffers sync.Pool // of *[]byte, for encoded states on their way to the store
}

// hold keeps an answer until the batch f has landed.
func (w *workers) hold(f *flight, d dependent, r call.Result) {
	d.Call.Result = r
	f.Hold(d)
	f.Payload.countReply(&r.Reply)
	f.Payload.countTimers(d.Call.Timers)
}

// join puts a call into the pending batch of its actor, and of all that its chain has read, with
// an answer for when it has landed, and returns the part of a in that. ch is nil for a call that
// has called no actor.
func (w *workers) join(a *activation, ch *calls, c *call.Call, r call.Result, role speculation.Role) (b *batch, i int) {
	c.Result = r
	members := []*member{&a.member}
	if ch != nil {
		members = ch.read(members)
	}
	f := speculation.Fold(members, dependent{Call: c, Home: &a.member, Role: role}, w.newBatch, (*batch).join)
	b = f.Payload
	b.in = f
	i = b.part(a)
	for _, m := range members[1:] {
		b.part(m.Of)
	}
	b.countReply(&r.Reply)
	b.countTimers(c.Timers)
	if ch != nil && r.Err == nil {
		for _, t := range ch.timing() {
			t.a.shard.timers.Wait(t.a.key, t.changes)
			b.timers = append(b.timers, t)
			b.countTimers(t.changes)
		}
	}
	return b, i
}

// fold adds a sealed turn to the pending batch. The caller has the locks.
func (w *workers) fold(a *activation, ch *calls, c *call.Call, s *serving.Type, done *sealed) {
	b, i := w.join(a, ch, c, call.Result{}, speculation.Effect)
	if ch != nil {
		sealChain(ch, b)
	}
	if done.changed {
		b.set(i, done.state, s)
		done.reply.Version = b.rows[i].NewVersion
	}
	if c.Cause == actor.CauseKeyedCall {
		b.records = append(b.records, c.Record(done.reply, s.Limits.IdempotencyTTL))
		b.replies += len(done.reply.Payload.Data) + recordCost
	}
	b.remind(&done.reminders)
	b.most = min(b.most, int(min(maxReplies, MaxStateAndPayload-s.Limits.StateBytes-s.Limits.PayloadBytes-s.ReminderBytes)))
	c.Result = call.Result{Reply: done.reply, Stats: c.Stats}
	b.countReply(&done.reply)
}

// sealChain moves the actors that called turns have run on to what those have made of them, in the
// batch of the chain.
func sealChain(ch *calls, b *batch) {
	for _, m := range ch.members[1:] {
		if m.row == nil {
			continue
		}
		if m.a.rev = m.rev; m.changed {
			b.set(b.part(m.a), m.row.State, m.served)
		}
		b.remind(&m.effects.Reminders)
	}
	for _, r := range ch.records {
		reply := actor.Reply{Payload: r.reply, Version: b.rows[b.part(r.of.a)].NewVersion}
		b.records = append(b.records, r.call.Record(reply, r.of.served.Limits.IdempotencyTTL))
		b.replies += len(r.reply.Data) + recordCost
	}
}

// foldFailure adds the failure of a call with a key to the pending batch: it is
// answered when the version has moved on, so that no earlier attempt of the call
// can be applied any more, and then only if none was. The caller has the locks.
func (w *workers) foldFailure(a *activation, ch *calls, c *call.Call, r call.Result) {
	b, i := w.join(a, ch, c, r, speculation.Failure)
	b.fence(i)
}

// ask puts a call that shows what no commit proves into a check, or into a batch that
// carries effects by then. The caller has the locks.
func (w *workers) ask(a *activation, ch *calls, c *call.Call, r call.Result) {
	w.join(a, ch, c, r, speculation.Question)
}

// perform does what was decided, because of err if that is not nil. The caller has the
// locks.
func (w *workers) perform(did *actions, err error, now time.Time, then *followUp) {
	for _, m := range did.Dropped {
		m.Of.forget()
	}
	for _, m := range did.Rewound {
		a := m.Of
		a.Tip = m.Flight().Payload.after(a)
		if m.Dropped() == nil { // otherwise the worker does it, when the turn that runs has ended
			a.rev = w.table.revisions.Next()
		}
		a.weigh()
	}
	for _, f := range did.Lost {
		w.memory.Give(f.Payload.App(), f.Payload.replyMemory)
		f.Payload.settleTimers(false, now)
		then.changed(f.Payload)
	}
	for _, c := range did.Fail {
		c.Result = call.Result{Err: call.CutShort(err), Stats: c.Stats}
		c.Answer(&then.answered)
	}
	for _, d := range slices.Backward(did.Rerun) {
		d.Call.RunAgain(err, &then.answered)
	}
	for _, c := range did.Answer {
		c.Result.Stats.Ended = now
		c.Answer(&then.answered)
	}
	for _, c := range did.Confirm {
		c.Home.Work.Add(1) // before the activation's own is done
		c.Answer(&then.doubtful)
	}
	for _, f := range did.Launch {
		then.launch(f.Payload)
		then.changed(f.Payload)
	}
	for later := did.Later; len(later) > 0; {
		home, others := later[0].Home, later[:0:0]
		calls := later
		if slices.ContainsFunc(later, func(d dependent) bool { return d.Home != home }) {
			calls = nil
			for _, d := range later {
				if d.Home == home {
					calls = append(calls, d)
				} else {
					others = append(others, d)
				}
			}
		}
		w.holdOn(home.Of, calls, now, then)
		later = others
	}
}

// actions are what package speculation decides.
type actions = speculation.Actions[*activation, *call.Call, *batch]

// holdOn sees to calls of an activation that observed a batch which has landed, and proves
// nothing of what they show. The caller has the locks.
func (w *workers) holdOn(a *activation, calls []dependent, now time.Time, then *followUp) {
	switch next := a.member.Flight(); {
	case next == nil && a.Outdated():
		w.supersede(a, calls, now, then)
	case a.lost:
		for _, seen := range calls {
			seen.Call.Result = call.Result{Err: actor.ErrNotOwner, Stats: seen.Call.Stats}
			seen.Call.Answer(&then.answered)
		}
	case !a.Outdated() && w.ownership.currentSince(a, now, now): // under the lease
		for _, seen := range calls {
			seen.Call.Result.Stats.Ended = now
			seen.Call.Answer(&then.answered)
		}
	case next == nil:
		for _, seen := range calls {
			w.ask(a, nil, seen.Call, seen.Call.Result)
		}
		then.launch(a.launch(now))
	default:
		role := speculation.Observer
		if next.Check() {
			role = speculation.Question
		}
		for _, seen := range calls {
			seen.Role = role
			w.hold(next, seen, seen.Call.Result)
		}
	}
}

// supersede drops the activation's state, since the store has a newer one, and
// lets the calls that ran on it go again. The caller has the locks.
func (w *workers) supersede(a *activation, calls []dependent, now time.Time, then *followUp) {
	did := speculation.Drop([]*member{&a.member}, calls, actor.ErrStale)
	w.perform(&did, actor.ErrStale, now, then)
}

// newBatch returns what commits nothing yet.
func (w *workers) newBatch() *batch {
	b := &batch{done: w.done, buffers: &w.buffers, memory: w.memory, most: maxReplies}
	b.parts, b.rows = b.onePart[:0], b.oneRow[:0]
	return b
}

// release gives back the memory of a batch that has landed with err. Whether
// somebody still reads what a commit of an unknown outcome carried is not known
// either: then its buffers are not used again.
func (w *workers) release(b *batch, err error) {
	w.memory.Give(b.App(), b.replyMemory)
	for i := range b.parts {
		p := &b.parts[i]
		if p.buffer != nil && (err == nil || call.Refused(err)) {
			w.buffers.Put(p.buffer)
		}
		p.buffer = nil
	}
}

// retire ends what an activation without work has left to do: with answered, what is not
// done before the answers have gone out.
func (w *workers) retire(r retired, answered bool) {
	switch {
	case r.a == nil:
	case answered:
		r.a.shard.work.Done()
	case r.gone:
		reason := DeactivateDone
		if r.a.leaving { // out of the table: nobody changes it
			reason = DeactivateMoved
		}
		w.table.deactivated(r.a, reason)
	}
}

// sendDoubtful answers calls whose held failures are behind fences: with the record
// of an earlier attempt, if there is one.
func (w *workers) sendDoubtful(l *call.Answers) {
	for c, ok := l.Take(); ok; c, ok = l.Take() {
		w.store.Records.Ask(c.KeyedCall(), func(found actor.Recorded, err error) {
			if known, ok := w.records.asRecorded(c, found, err); ok {
				c.Result = known
			}
			c.Result.Stats.Ended = time.Now()
			work := c.Home.Work // before the call is its caller's
			w.answering.Answer(c)
			work.Done()
		})
	}
}

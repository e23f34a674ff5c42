package host

import (
	"log/slog"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
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
	launched *activation.Batch // and those that are next to it
	bring    bool              // who does it only waits for the commit of launched
	answered call.Answers
	doubtful call.Answers // failures that are to be looked up; each has one of shard.work
	retired
	others []retired                // others than retired
	also   []*activation.Activation // others that have changed, by what was done to batches that they share
}

// retired is an activation that has no work any more.
type retired struct {
	a    *activation.Activation // nil: none
	gone bool                   // it has left the table
}

// launch adds a batch to those that are to be sent; nil adds none.
func (then *followUp) launch(b *activation.Batch) {
	if b != nil {
		b.Next, then.launched = then.launched, b
	}
}

// changed adds the activations of a batch to those that have changed.
func (then *followUp) changed(b *activation.Batch) {
	for i := range b.Parts {
		if len(b.Parts) > 1 && !slices.Contains(then.also, b.Parts[i].Activation) {
			then.also = append(then.also, b.Parts[i].Activation)
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
	table         *activation.Table
	store         *storage.Store
	ownership     *activation.Ownership
	records       *recordings
	turns         *turns
	batches       *activation.Batches
}

// hold keeps an answer until the batch f has landed.
func (w *workers) hold(f *activation.Flight, d activation.Dependent, r call.Result) {
	d.Call.Result = r
	f.Hold(d)
	f.Payload.CountReply(&r.Reply)
	f.Payload.CountTimers(d.Call.Timers)
}

// join puts a call into the pending batch of its actor, and of all that its chain has read, with
// an answer for when it has landed, and returns the part of a in that. ch is nil for a call that
// has called no actor.
func (w *workers) join(a *activation.Activation, ch *activation.Chain, c *call.Call, r call.Result, role speculation.Role) (b *activation.Batch, i int) {
	c.Result = r
	members := []*activation.Member{&a.Member}
	if ch != nil {
		members = ch.Read(members)
	}
	f := speculation.Fold(members, activation.Dependent{Call: c, Home: &a.Member, Role: role}, w.batches.New, (*activation.Batch).Join)
	b = f.Payload
	b.In = f
	i = b.Part(a)
	for _, m := range members[1:] {
		b.Part(m.Of)
	}
	b.CountReply(&r.Reply)
	b.CountTimers(c.Timers)
	if ch != nil && r.Err == nil {
		for _, t := range ch.Timing() {
			t.Activation.Shard.Timers.Wait(t.Activation.Key, t.Changes)
			b.Timers = append(b.Timers, t)
			b.CountTimers(t.Changes)
		}
	}
	return b, i
}

// fold adds a sealed turn to the pending batch. The caller has the locks.
func (w *workers) fold(a *activation.Activation, ch *activation.Chain, c *call.Call, s *serving.Type, done *sealed) {
	b, i := w.join(a, ch, c, call.Result{}, speculation.Effect)
	if ch != nil {
		sealChain(ch, b)
	}
	if done.changed {
		b.Set(i, done.state, s)
		done.reply.Version = b.Rows[i].NewVersion
	}
	if c.Cause == actor.CauseKeyedCall {
		b.Records = append(b.Records, c.Record(done.reply, s.Limits.IdempotencyTTL))
		b.Replies += len(done.reply.Payload.Data) + activation.RecordCost
	}
	b.Remind(&done.reminders)
	b.Most = min(b.Most, int(min(activation.MaxReplies, MaxStateAndPayload-s.Limits.StateBytes-s.Limits.PayloadBytes-s.ReminderBytes)))
	c.Result = call.Result{Reply: done.reply, Stats: c.Stats}
	b.CountReply(&done.reply)
}

// sealChain moves the actors that called turns have run on to what those have made of them, in the
// batch of the chain.
func sealChain(ch *activation.Chain, b *activation.Batch) {
	for _, m := range ch.Members[1:] {
		if m.Row == nil {
			continue
		}
		if m.Activation.Rev = m.Rev; m.Changed {
			b.Set(b.Part(m.Activation), m.Row.State, m.Served)
		}
		b.Remind(&m.Effects.Reminders)
	}
	for _, r := range ch.Records {
		reply := actor.Reply{Payload: r.Reply, Version: b.Rows[b.Part(r.Of.Activation)].NewVersion}
		b.Records = append(b.Records, r.Call.Record(reply, r.Of.Served.Limits.IdempotencyTTL))
		b.Replies += len(r.Reply.Data) + activation.RecordCost
	}
}

// foldFailure adds the failure of a call with a key to the pending batch: it is
// answered when the version has moved on, so that no earlier attempt of the call
// can be applied any more, and then only if none was. The caller has the locks.
func (w *workers) foldFailure(a *activation.Activation, ch *activation.Chain, c *call.Call, r call.Result) {
	b, i := w.join(a, ch, c, r, speculation.Failure)
	b.Fence(i)
}

// ask puts a call that shows what no commit proves into a check, or into a batch that
// carries effects by then. The caller has the locks.
func (w *workers) ask(a *activation.Activation, ch *activation.Chain, c *call.Call, r call.Result) {
	w.join(a, ch, c, r, speculation.Question)
}

// perform does what was decided, because of err if that is not nil. The caller has the
// locks.
func (w *workers) perform(did *actions, err error, now time.Time, then *followUp) {
	for _, m := range did.Dropped {
		m.Of.Forget()
	}
	for _, m := range did.Rewound {
		a := m.Of
		a.Tip = m.Flight().Payload.After(a)
		if m.Dropped() == nil { // otherwise the worker does it, when the turn that runs has ended
			a.Rev = w.table.Revisions.Next()
		}
		a.Weigh()
	}
	for _, f := range did.Lost {
		f.Payload.Forgo(now)
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
		if slices.ContainsFunc(later, func(d activation.Dependent) bool { return d.Home != home }) {
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
type actions = speculation.Actions[*activation.Activation, *call.Call, *activation.Batch]

// holdOn sees to calls of an activation that observed a batch which has landed, and proves
// nothing of what they show. The caller has the locks.
func (w *workers) holdOn(a *activation.Activation, calls []activation.Dependent, now time.Time, then *followUp) {
	switch next := a.Member.Flight(); {
	case next == nil && a.Outdated():
		w.supersede(a, calls, now, then)
	case a.Lost:
		for _, seen := range calls {
			seen.Call.Result = call.Result{Err: actor.ErrNotOwner, Stats: seen.Call.Stats}
			seen.Call.Answer(&then.answered)
		}
	case !a.Outdated() && w.ownership.CurrentSince(a, now, now): // under the lease
		for _, seen := range calls {
			seen.Call.Result.Stats.Ended = now
			seen.Call.Answer(&then.answered)
		}
	case next == nil:
		for _, seen := range calls {
			w.ask(a, nil, seen.Call, seen.Call.Result)
		}
		then.launch(a.Launch(now))
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
func (w *workers) supersede(a *activation.Activation, calls []activation.Dependent, now time.Time, then *followUp) {
	did := speculation.Drop([]*activation.Member{&a.Member}, calls, actor.ErrStale)
	w.perform(&did, actor.ErrStale, now, then)
}

// retire ends what an activation without work has left to do: with answered, what is not
// done before the answers have gone out.
func (w *workers) retire(r retired, answered bool) {
	switch {
	case r.a == nil:
	case answered:
		r.a.Shard.Work.Done()
	case r.gone:
		reason := activation.DeactivateDone
		if r.a.Leaving { // out of the table: nobody changes it
			reason = activation.DeactivateMoved
		}
		w.table.Deactivated(r.a, reason)
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

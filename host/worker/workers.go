package worker

import (
	"log/slog"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/mailbox"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/speculation"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Config is what [Workers] are made of.
type Config struct {
	Logger        *slog.Logger
	CallersCommit bool // that of the pipeline
	Answering     *call.Answering
	Memory        *call.Memory
	Table         *activation.Table
	Store         *storage.Store
	Ownership     *activation.Ownership
	// Repeats gets the actors whose calls were recorded already, and Recorded returns the
	// answer to a call that a look-up gave, false if there is none.
	Repeats  *mailbox.Repeats
	Recorded func(c *call.Call, found actor.Recorded, err error) (r call.Result, ok bool)
	// Run runs one call of an activation, which is to begin now.
	Run func(a *activation.Activation, c *call.Call, now time.Time) call.Outcome
	// Committed gets the effects of applied commits on reminders, Refused those of refused ones,
	// and Unused the tokens of reminders that no commit sets.
	Committed, Refused func(e *actor.ReminderEffects)
	Unused             func(app string, tokens []actor.ReminderID)
	// Accepted gets the messages that waited for a method set of an actor that has another one now.
	Accepted func(messages []actor.ReminderID)
	// Published gets the actors that an applied commit has published events of, and how many.
	Published func(key actor.Key, events int)
}

// Workers run and answer the calls of a host's activations. All methods may be called
// concurrently.
type Workers struct {
	cfg     Config
	batches *activation.Batches
}

// holdAnswer keeps an answer until the batch f has landed.
func (w *Workers) holdAnswer(f *activation.Flight, d activation.Dependent, r call.Result) {
	d.Call.Result = r
	f.Add(d)
	f.Payload.CountReply(&r.Reply)
	f.Payload.CountTimers(d.Call.Timers)
}

// join puts a call into the pending batch of its actor, and of all that its chain has read, with
// an answer for when it has landed, and returns the part of a in that. ch is nil for a call that
// has called no actor.
func (w *Workers) join(a *activation.Activation, ch *activation.Chain, c *call.Call, r call.Result, role speculation.Role) (b *activation.Batch, i int) {
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
func (w *Workers) fold(a *activation.Activation, ch *activation.Chain, c *call.Call, s *serving.Type, done *call.Sealed) {
	b, i := w.join(a, ch, c, call.Result{}, speculation.Effect)
	if ch != nil {
		sealChain(ch, b)
	}
	if ch != nil && ch.Members[0].Failed {
		b.Fence(i)
	}
	a.Hooked = (a.Hooked || done.Life.Activated) && !done.Life.PassedAway
	if done.Changed {
		b.Set(i, done.State, s, &done.Life)
		done.Reply.Version = b.Rows[i].NewVersion
	}
	if c.Cause == actor.CauseKeyedCall {
		b.Record(c.Record(done.Reply, s.Limits.IdempotencyTTL))
		b.Replies += len(done.Reply.Payload.Data) + call.RecordCost
		marks, all := c.MarksToWrite()
		for _, mark := range marks {
			all = b.Record(mark) && all
			b.Replies += call.RecordCost
		}
		done.Reply.Marked = all
	}
	if ch != nil && len(ch.Callbacks) > 0 && c.Cause == actor.CauseKeyedCall {
		record := c.RecordCallbacks(ch.Callbacks, done.Reply.Version, s.Limits.IdempotencyTTL)
		b.Record(record)
		b.Replies += len(record.Reply.Data) + call.RecordCost
		done.Reply.Callbacks = true
	}
	b.Remind(&done.Reminders)
	b.Publish(done.Events)
	b.Most = min(b.Most, int(min(activation.MaxReplies, serving.MaxStateAndPayload-s.Limits.StateBytes-s.Limits.PayloadBytes-s.ReminderBytes)))
	c.Result = call.Result{Reply: done.Reply, Stats: c.Stats}
	b.CountReply(&done.Reply)
}

// sealChain moves the actors that called turns have run on to what those have made of them, in the
// batch of the chain.
func sealChain(ch *activation.Chain, b *activation.Batch) {
	for _, m := range ch.Members[1:] {
		if m.Row == nil {
			continue
		}
		m.Activation.Hooked = (m.Activation.Hooked || m.Effects.Life.Activated) && !m.Effects.Life.PassedAway
		if m.Activation.Rev = m.Rev; m.Changed {
			b.Set(b.Part(m.Activation), m.Row.State, m.Served, &m.Effects.Life)
		} else if m.Failed {
			b.Fence(b.Part(m.Activation))
		}
		b.Remind(&m.Effects.Reminders)
		b.Publish(m.Effects.Events)
	}
	for _, r := range ch.Records {
		reply := actor.Reply{Payload: r.Reply, Version: b.Rows[b.Part(r.Of.Activation)].NewVersion}
		b.Record(r.Call.Record(reply, r.Of.Served.Limits.IdempotencyTTL))
		b.Replies += len(r.Reply.Data) + call.RecordCost
	}
}

// foldFailure adds the failure of a call with a key to the pending batch: it is
// answered when the version has moved on, so that no earlier attempt of the call
// can be applied any more, and then only if none was. The caller has the locks.
func (w *Workers) foldFailure(a *activation.Activation, ch *activation.Chain, c *call.Call, r call.Result) {
	b, i := w.join(a, ch, c, r, speculation.Failure)
	b.Fence(i)
}

// ask puts a call that shows what no commit proves into a check, or into a batch that
// carries effects by then. The caller has the locks.
func (w *Workers) ask(a *activation.Activation, ch *activation.Chain, c *call.Call, r call.Result) {
	w.join(a, ch, c, r, speculation.Question)
}

// perform does what was decided, because of err if that is not nil. The caller has the
// locks.
func (w *Workers) perform(did *actions, err error, now time.Time, then *followUp) {
	for _, m := range did.Dropped {
		m.Of.Forget()
	}
	for _, m := range did.Rewound {
		a := m.Of
		a.Tip = m.Flight().Payload.After(a)
		if m.Dropped() == nil { // otherwise the worker does it, when the turn that runs has ended
			a.Rev, a.Hooked = w.cfg.Table.Revisions.Next(), false
		}
		a.Weigh()
	}
	for _, f := range did.Lost {
		w.cfg.Refused(&f.Payload.Reminders)
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
		c.Result.Stats.Commits(now)
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
		w.reconsider(home.Of, calls, now, then)
		later = others
	}
}

// actions are what package speculation decides.
type actions = speculation.Actions[*activation.Activation, *call.Call, *activation.Batch]

// reconsider sees to calls of an activation that observed a batch which has landed, and proves
// nothing of what they show. The caller has the locks.
func (w *Workers) reconsider(a *activation.Activation, calls []activation.Dependent, now time.Time, then *followUp) {
	switch next := a.Member.Flight(); {
	case next == nil && a.Outdated():
		w.supersede(a, calls, now, then)
	case a.Lost:
		for _, seen := range calls {
			seen.Call.Result = call.Result{Err: actor.ErrNotOwner, Stats: seen.Call.Stats}
			seen.Call.Answer(&then.answered)
		}
	case !a.Outdated() && w.cfg.Ownership.CurrentSince(a, now, now): // under the lease
		for _, seen := range calls {
			seen.Call.Result.Stats.Ended = now
			seen.Call.Result.Stats.Commits(now)
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
			w.holdAnswer(next, seen, seen.Call.Result)
		}
	}
}

// supersede drops the activation's state, since the store has a newer one, and
// lets the calls that ran on it go again. The caller has the locks.
func (w *Workers) supersede(a *activation.Activation, calls []activation.Dependent, now time.Time, then *followUp) {
	did := speculation.Drop([]*activation.Member{&a.Member}, calls, actor.ErrStale)
	w.perform(&did, actor.ErrStale, now, then)
}

// retire ends what an activation without work has left to do: with answered, what is not
// done before the answers have gone out.
func (w *Workers) retire(r retired, answered bool) {
	switch {
	case r.a == nil:
	case answered:
		r.a.Shard.Work.Done()
	case r.gone:
		reason := activation.DeactivateDone
		if r.a.Leaving { // out of the table: nobody changes it
			reason = activation.DeactivateMoved
		}
		w.cfg.Table.Deactivated(r.a, reason)
	}
}

// sendDoubtful answers calls whose held failures are behind fences: with the record
// of an earlier attempt, if there is one.
func (w *Workers) sendDoubtful(l *call.Answers) {
	for c, ok := l.Take(); ok; c, ok = l.Take() {
		w.cfg.Store.Records.Ask(c.KeyedCall(), func(found actor.Recorded, err error) {
			if known, ok := w.cfg.Recorded(c, found, err); ok {
				c.Result = known
			} else if err := call.CheckFailure(c, c.Result.Err); err != nil {
				c.Result = call.Result{Err: err, Stats: c.Stats}
			}
			c.Result.Stats.Ended = time.Now()
			c.Result.Stats.Commits(c.Result.Stats.Ended)
			work := c.Home.Work // before the call is its caller's
			w.cfg.Answering.Answer(c)
			work.Done()
		})
	}
}

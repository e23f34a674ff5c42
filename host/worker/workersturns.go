package worker

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/speculation"
	"github.com/greenroom-run/greenroom/host/storage"
	"github.com/greenroom-run/greenroom/host/turn"
)

// sliceTurns is after how many turns in a row a worker lets others have the
// processor: an actor with a full mailbox would keep it for as long as the
// scheduler lets it otherwise, turn after turn.
const sliceTurns = 32

// New returns the workers of a host's activations. A worker is a goroutine that
// exists while there is work: there is nothing to start or to stop.
func New(cfg Config) *Workers {
	w := &Workers{cfg: cfg}
	w.batches = activation.NewBatches(cfg.Memory, w.committed)
	return w
}

// work runs the turns of one actor, one after the other, until none can be run.
// A call is answered when the worker is already on to the next one or gone: who
// has an answer can rely on that.
func (w *Workers) work(s *activation.Shard, a *activation.Activation) {
	var then followUp
	s.Mu.Lock()
	c := s.Pick(a)
	now := time.Now()
	w.proceed(s, a, now, &then)
	s.Mu.Unlock()
	w.followThrough(&then)
	for turns := 1; c != nil; turns++ {
		if c.Op == call.OpEnlist { // who waits for it is the worker from now on
			w.cfg.Answering.Answer(c)
			return
		}
		o := w.run(a, c, now)
		c, now = w.dispose(s, a, c, &o, true)
		if turns%sliceTurns == 0 {
			runtime.Gosched()
		}
	}
}

// Reserve makes whoever calls Work next the worker of a, an idle activation. The caller has the
// shard's lock.
func (w *Workers) Reserve(a *activation.Activation) {
	a.Busy, a.Working = true, true
	a.Shard.Work.Add(1)
}

// Put puts a call into the mailbox of an activation that has work, whatever bounds mailboxes. The
// caller has the shard's lock.
func (w *Workers) Put(a *activation.Activation, c *call.Call) {
	a.Calls.Put(&c.Place, c, c.Cost())
	c.Home = &a.Home
}

// Work is the worker that Reserve has promised. It runs c, unless that is nil or the actor was lost
// meanwhile.
func (w *Workers) Work(a *activation.Activation, c *call.Call) {
	s := a.Shard
	s.Mu.Lock()
	if c != nil && !a.Lost {
		w.Put(a, c)
	}
	s.Mu.Unlock()
	w.work(s, a)
}

// RunHere runs a call that was just picked, on its caller's goroutine: an actor
// that was idle needs no other one. Calls that came meanwhile get a worker.
func (w *Workers) RunHere(a *activation.Activation, c *call.Call) {
	o := w.run(a, c, c.Arrived)
	w.dispose(a.Shard, a, c, &o, false)
}

// run is Config.Run; a panic is the call's error.
func (w *Workers) run(a *activation.Activation, c *call.Call, now time.Time) (o call.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = call.Failed(turn.Panicked(w.cfg.Logger, c.Inv.Key, c.Inv.Trace, v))
		}
	}()
	return w.cfg.Run(a, c, now)
}

// dispose puts a call that was run where it belongs by its outcome, and takes the
// next one if the worker goes on, which begins now.
func (w *Workers) dispose(s *activation.Shard, a *activation.Activation, c *call.Call, o *call.Outcome, goOn bool) (next *call.Call, now time.Time) {
	if now = o.Ended; now.IsZero() {
		now = time.Now()
	}
	o.Stats = c.Stats
	if a.Chain != nil {
		return w.disposeChain(s, a, c, o, goOn)
	}
	var then followUp
	then.bring = !goOn && c.Receiver == nil && w.cfg.CallersCommit
	several := lockHome(a, c, o)
	if several != nil { // it may have waited for commits
		now = time.Now()
	}
	defer func() {
		a.Unlock(several)
		w.followThrough(&then)
	}()
	s.Running.Remove(&c.Place)
	if c.Timers != nil && o.Err == nil {
		s.Timers.Wait(c.Inv.Key, c.Timers)
	}
	behind, dropped := a.Member.End()
	if dropped != nil { // the turn has changed what the revision names
		a.Rev, a.Hooked = w.cfg.Table.Revisions.Next(), false
	}
	switch {
	case dropped != nil && o.Resting: // what it ran on is gone
		w.cfg.Unused(a.Key.App, o.Sealed.Tokens)
		c.RunAgain(dropped, &then.answered)
	case o.Deadlock:
		a.Calls.AgainAfter(&c.Place, c, (*call.Call).Enlists)
	case o.Retry:
		a.Calls.Again(&c.Place, c)
	case o.Waits && s.Closed:
		c.Result = call.Result{Err: actor.ErrStopping, Stats: c.Stats}
		c.Answer(&then.answered)
	case o.Waits && !a.Lost:
		a.SetAside(c, now, w.notAccepted(a, c, o.Result))
	case o.Commits:
		w.fold(a, nil, c, o.Under, &o.Sealed)
		then.launch(a.Launch(now))
	case o.Fails:
		w.foldFailure(a, nil, c, o.Result)
		then.launch(a.Launch(now))
	case o.Resting && a.Lost && a.Member.Committed():
		c.Result = call.Result{Err: actor.ErrNotOwner, Stats: c.Stats}
		c.Answer(&then.answered)
	case o.Resting && !a.Member.Committed():
		w.holdAnswer(a.Member.Latest(), activation.Dependent{Call: c, Home: &a.Member, Role: speculation.Observer, Since: o.Since}, o.Result)
	case o.Resting && a.Outdated():
		w.supersede(a, []activation.Dependent{{Call: c, Home: &a.Member}}, now, &then)
	case o.Resting && !o.Since.IsZero() && !w.cfg.Ownership.CurrentSince(a, o.Since, now):
		w.ask(a, nil, c, o.Result)
		then.launch(a.Launch(now))
	default:
		c.Result = o.Result
		c.Result.Stats.Ended = now
		c.Answer(&then.answered)
	}
	if dropped == nil && o.Resting && !o.Commits && c.Result.Err == nil { // of a turn that changed nothing
		a.Hooked = a.Hooked || o.Sealed.Life.Activated
	}
	for _, earlier := range slices.Backward(behind) {
		earlier.RunAgain(dropped, &then.answered)
	}
	a.AcceptChanged()
	if a.Leaving {
		a.GiveBackCalls(&then.answered)
	}
	if goOn {
		if next = s.Pick(a); next != nil && now.Before(next.Arrived) { // which it was while the last one was cleared away
			now = next.Arrived
		}
	} else {
		a.Working = false
	}
	w.proceed(s, a, now, &then)
	w.proceedOthers(now, &then)
	return next, now
}

// notAccepted returns the function that answers a call which has waited too long for its method set.
func (w *Workers) notAccepted(a *activation.Activation, c *call.Call, r call.Result) func() {
	return func() {
		s := a.Shard
		s.Mu.Lock()
		over := a.Calls.GiveUp(&c.Place, c.Cost())
		s.Mu.Unlock()
		if over {
			c.Result = r
			w.cfg.Answering.Answer(c)
		}
	}
}

// lockHome locks what the end of a turn may change.
func lockHome(a *activation.Activation, c *call.Call, o *call.Outcome) (several []*activation.Shard) {
	several = a.Lock()
	if !o.Commits || several == nil && !activation.Marking(a, c) {
		return several
	}
	replies, marks := recordsOf(c, nil)
	a.Unlock(several)
	return activation.LockToFold([]*activation.Activation{a}, true, o.Sealed.Size(), replies, marks)
}

// recordsOf returns the calls of which a turn's commit records replies and marks. ch is its chain, if it has one.
func recordsOf(c *call.Call, ch *activation.Chain) (replies, marks []actor.KeyedCall) {
	if ch != nil {
		for _, r := range ch.Records {
			replies = append(replies, r.Call.KeyedCall())
		}
	}
	if c.Cause == actor.CauseKeyedCall {
		replies = append(replies, c.KeyedCall())
		written, _ := c.MarksToWrite()
		for i := range written {
			marks = append(marks, written[i].Call())
		}
	}
	return replies, marks
}

// disposeChain is dispose for a call that has called other actors: all of them are given back.
func (w *Workers) disposeChain(s *activation.Shard, a *activation.Activation, c *call.Call, o *call.Outcome, goOn bool) (next *call.Call, now time.Time) {
	ch := a.Chain
	c.Stats.Chain.Actors = len(ch.Members)
	if o.Under != nil && ch.Changed() { // the outermost turn was sealed
		o.Commits = true
	}
	of := ch.Activations()
	var adds int64
	if o.Commits {
		if adds = ch.Size() + o.Sealed.Size(); adds > actor.MaxCommitBytes {
			*o = call.Outcome{Result: call.Result{Err: fmt.Errorf("%w: %d bytes", actor.ErrChainTooLarge, adds), Stats: o.Stats}, Sealed: o.Sealed, Ended: o.Ended}
		}
	}
	var replies, marks []actor.KeyedCall
	if o.Commits {
		replies, marks = recordsOf(c, ch)
	}
	var then followUp
	then.bring = !goOn && c.Receiver == nil && w.cfg.CallersCommit
	several := activation.LockToFold(of, o.Commits || o.Fails || o.Resting, adds, replies, marks)
	now = time.Now() // it may have waited for commits
	defer func() {
		activation.UnlockAll(several)
		w.followThrough(&then)
	}()
	s.Running.Remove(&c.Place)
	if c.Timers != nil && o.Err == nil {
		s.Timers.Wait(c.Inv.Key, c.Timers)
	}
	ch.End()
	var dropped error
	committed, current, lost, folded := true, true, false, false
	behind := make([][]*call.Call, len(ch.Members))
	why := make([]error, len(ch.Members))
	for i, m := range ch.Members {
		if behind[i], why[i] = m.Activation.Member.End(); why[i] != nil {
			dropped = why[i]
		}
		if m.Row == nil && i > 0 { // the chain has not seen it
			continue
		}
		committed = committed && m.Activation.Member.Committed()
		// What the chain has seen of its actors must have been the newest at one moment.
		current = current && !m.Activation.Outdated() && (o.Since.IsZero() || w.cfg.Ownership.CurrentSince(m.Activation, now, now))
		lost = lost || m.Activation.Lost
	}
	switch {
	case dropped != nil && (o.Resting || o.Retry):
		c.RunAgain(dropped, &then.answered)
	case o.Retry && c.Stats.Sent:
		c.RunAgain(actor.ErrStale, &then.answered)
	case o.Deadlock:
		c.Stats.Chain.Deadlocks++
		a.Calls.AgainBehind(&c.Place, c, (*call.Call).Enlists)
	case o.Retry:
		a.Calls.Again(&c.Place, c)
	case o.Commits:
		folded = true
		w.fold(a, ch, c, o.Under, &o.Sealed)
		then.launch(a.Launch(now))
	case o.Fails:
		w.foldFailure(a, ch, c, o.Result)
		then.launch(a.Launch(now))
	case o.Resting && lost && committed:
		c.Result = call.Result{Err: actor.ErrNotOwner, Stats: c.Stats}
		c.Answer(&then.answered)
	case o.Resting && (!committed || !current):
		w.ask(a, ch, c, o.Result)
		then.launch(a.Launch(now))
	default:
		activation.DecideTimers(ch.Timing(), o.Err == nil, now)
		c.Result = o.Result
		c.Result.Stats.Ended = now
		c.Answer(&then.answered)
	}
	for i, m := range ch.Members {
		for _, earlier := range slices.Backward(behind[i]) {
			earlier.RunAgain(why[i], &then.answered)
		}
		if m.Activation.Leaving {
			m.Activation.GiveBackCalls(&then.answered)
		}
		if !folded { // what guests have cached of it is not so
			m.Activation.Rev = w.cfg.Table.Revisions.Next()
		}
		switch life := o.Sealed.Life; {
		case why[i] != nil:
			m.Activation.Hooked = false
		case dropped == nil && o.Resting && !folded && c.Result.Err == nil:
			if i > 0 {
				life = m.Effects.Life
			}
			m.Activation.Hooked = m.Activation.Hooked || life.Activated
		}
		if i == 0 {
			continue
		}
		m.Activation.Shard.Running.Remove(&m.Call.Place)
		m.Activation.Calls.Answered(m.Call.Cost())
		w.cfg.Memory.Answered(m.Call)
		m.Activation.Working = false
		w.proceed(m.Activation.Shard, m.Activation, now, &then)
	}
	if !folded {
		w.cfg.Unused(a.Key.App, append(ch.Tokens, o.Sealed.Tokens...))
	}
	a.Chain = nil
	a.AcceptChanged()
	if goOn {
		if next = s.Pick(a); next != nil && now.Before(next.Arrived) {
			now = next.Arrived
		}
	} else {
		a.Working = false
	}
	w.proceed(s, a, now, &then)
	w.proceedOthers(now, &then)
	return next, now
}

// proceed sees to it that an activation with calls to run has a worker, and that
// one without any work is idle. The caller has the shard's lock.
func (w *Workers) proceed(s *activation.Shard, a *activation.Activation, now time.Time, then *followUp) {
	if a.Drained != nil && a.Member.Committed() {
		close(a.Drained)
		a.Drained = nil
	}
	if a.Working || !a.Busy {
		return
	}
	a.AcceptChanged()
	if a.Member.MayBegin() && !a.Full() && a.Calls.Len() > 0 {
		a.Working = true
		go w.work(s, a)
		return
	}
	if !a.Member.Committed() {
		return
	}
	a.Busy = false
	if a.Called {
		a.Called, a.LastUsed = false, now
	}
	if a.Serving != nil && a.Serving.Lane == serving.LaneLocked && a.Loaded != nil { // its chain is over
		a.Forget()
	}
	gone := a.Leaving || a.Empty() && w.cfg.Table.Children.Count(a.Key) == 0
	if gone {
		w.cfg.Table.Remove(s, a)
		if a.Leaving {
			s.Timers.Moved(a.Key)
		}
	}
	if then.a == nil {
		then.retired = retired{a, gone}
	} else {
		then.others = append(then.others, retired{a, gone})
	}
}

// proceedOthers is proceed for the other activations that have changed.
func (w *Workers) proceedOthers(now time.Time, then *followUp) {
	for _, a := range then.also {
		if a.Leaving {
			a.GiveBackCalls(&then.answered)
		}
		w.proceed(a.Shard, a, now, then)
	}
}

// followThrough does what is left, without the locks.
func (w *Workers) followThrough(then *followUp) {
	var bring *activation.Batch
	for b := then.launched; b != nil; {
		next := b.Next
		b.Next = nil
		switch {
		case b.In.Check():
			w.sendCheck(b)
		case then.bring && bring == nil:
			bring = b
		default:
			w.submitted(b, w.cfg.Store.Commits.Submit(b))
		}
		b = next
	}
	w.retire(then.retired, false)
	for _, r := range then.others {
		w.retire(r, false)
	}
	w.cfg.Answering.Send(&then.answered)
	w.sendDoubtful(&then.doubtful)
	w.retire(then.retired, true)
	for _, r := range then.others {
		w.retire(r, true)
	}
	if bring != nil { // last, since it takes as long as a commit
		w.submitted(bring, w.cfg.Store.Commits.Bring(bring))
	}
}

// Deliver puts a call into a mailbox. The caller has the shard's lock.
func (w *Workers) Deliver(s *activation.Shard, a *activation.Activation, c *call.Call, limit int, onCaller bool) (run bool, err error) {
	if err := a.Calls.CheckCalls(limit); err != nil {
		return false, err
	}
	if a.Member.Flight() != nil && w.cfg.Store.Commits.Stalled() { // it would wait for that, too
		return false, fmt.Errorf("%w: it has not answered for a while; try again later", actor.ErrUnavailable)
	}
	cost := c.Cost()
	if err := a.Calls.CheckBytes(cost, w.cfg.Memory.Max/call.ActorShare); err != nil {
		return false, err
	}
	if err := w.cfg.Memory.Charge(c); err != nil {
		return false, err
	}
	a.Calls.Put(&c.Place, c, cost)
	c.Home = &a.Home
	if c.Cause.KeepsActive() {
		a.Called = true
		s.Used(a)
	} else if a.LastUsed.IsZero() {
		a.LastUsed = c.Arrived
	}
	if !a.Busy {
		a.Busy = true
		s.Work.Add(1)
	}
	if a.Working || !a.Member.MayBegin() || a.Full() { // the flight's landing sends a worker
		return false, nil
	}
	a.Working = true
	if onCaller { // without a worker the mailbox was empty
		s.Pick(a)
		return true, nil
	}
	go w.work(s, a)
	return false, nil
}

// committed takes the outcome of a commit from the pipeline.
func (w *Workers) committed(b *activation.Batch, err error, now time.Time) {
	if errors.Is(err, actor.ErrAmbiguous) {
		w.settleFlight(b, err)
		return
	}
	w.landed(b, err, now)
}

// landed ends a flight: err is the outcome of its commit, as that of
// [storage.Store.Commit]. What rests on it is answered, or goes again.
//
// now is when that was known.
func (w *Workers) landed(b *activation.Batch, err error, now time.Time) {
	check := b.In.Check()
	if err != nil && !check {
		err = fmt.Errorf("commit turn: %w", err)
	}
	if !check {
		// Before anything that follows from it is done, and told.
		w.cfg.Store.Committed(storage.CommitEnd{
			Key: b.Parts[0].Activation.Key, Lane: serving.LaneWarm, Duration: now.Sub(b.In.Began()), GroupSize: b.In.Effects(), Err: err,
		})
		switch {
		case err == nil:
			w.cfg.Committed(&b.Sent.Reminders)
			b.Announce(w.cfg.Published)
		case call.Refused(err): // at once, or once it was settled
			w.cfg.Refused(&b.Reminders)
		}
	}
	if errors.Is(err, actor.ErrKeyExists) {
		for i := range b.Records {
			w.cfg.Repeats.Note(&b.Records[i].Actor, now)
		}
	}
	then := w.land(b, err, now)
	w.cfg.Accepted(then.accepted)
	w.followThrough(&then)
}

// land is the part of landed under the locks.
func (w *Workers) land(b *activation.Batch, err error, now time.Time) (then followUp) {
	several := b.Lock()
	defer b.Unlock(several)
	outcome, check := speculation.Applied, b.In.Check()
	switch {
	case call.Refused(err):
		outcome = speculation.Refused
	case err != nil:
		outcome = speculation.Failed
	}
	for i := range b.Parts {
		p := &b.Parts[i]
		if err == nil && !check {
			p.Activation.Install(p.After)
			p.Activation.Weigh()
			if p.Writes() {
				w.cfg.Ownership.Advanced(p.Activation)
			}
			then.accepted = append(then.accepted, activation.TakeWaiting(p.Activation, &b.Rows[i])...)
		}
		if errors.Is(err, actor.ErrAmbiguous) {
			p.Activation.GaveUp(now)
		}
		if err == nil && !p.Activation.Outdated() {
			p.Activation.Confirmed(b.In.Began())
		}
	}
	did := b.In.Landed(outcome, err, now)
	b.DecideTimers(err == nil, now)
	w.perform(&did, err, now, &then)
	b.Release(err)
	for i := range b.Parts {
		a := b.Parts[i].Activation
		if a.Leaving {
			a.GiveBackCalls(&then.answered)
		}
		w.proceed(a.Shard, a, now, &then)
	}
	w.proceedOthers(now, &then)
	return then
}

// settleFlight finds out the outcome of a commit, beside the lanes. No turn of
// its actors begins meanwhile: it would most likely have to run again.
func (w *Workers) settleFlight(b *activation.Batch, cause error) {
	several := b.Lock()
	b.In.Settle()
	b.Unlock(several)
	// The flight keeps the activations busy, which Stop waits for.
	go func() {
		err := w.cfg.Store.Settle(b.Sent, cause)
		w.landed(b, err, time.Now())
	}()
}

// sendCheck asks whether the versions that a check rests on are still the rows'. Each of
// them was the row's when the check was sent, so that all were at once.
func (w *Workers) sendCheck(b *activation.Batch) {
	verdict := func(i int, v actor.RowVersion, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("confirm version: %w", err)
		case v.Version != b.Rows[i].ReadVersion:
			return actor.ErrStale
		}
		return nil
	}
	if len(b.Parts) == 1 {
		w.cfg.Store.Versions.Ask(b.Parts[0].Activation.Key, func(v actor.RowVersion, err error) {
			w.landed(b, verdict(0, v, err), time.Now())
		})
		return
	}
	var failure atomic.Pointer[error] // the first one
	var left atomic.Int64
	left.Store(int64(len(b.Parts)))
	for i := range b.Parts {
		w.cfg.Store.Versions.Ask(b.Parts[i].Activation.Key, func(v actor.RowVersion, err error) {
			if err := verdict(i, v, err); err != nil {
				failure.CompareAndSwap(nil, &err)
			}
			if left.Add(-1) > 0 {
				return
			}
			err = nil
			if first := failure.Load(); first != nil {
				err = *first
			}
			w.landed(b, err, time.Now())
		})
	}
}

// submitted sees to a flight that the pipeline may have refused.
func (w *Workers) submitted(b *activation.Batch, err error) {
	if err != nil {
		w.landed(b, err, time.Now())
	}
}

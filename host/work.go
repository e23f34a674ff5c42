package host

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
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

func newWorkers(cfg *Config, an *call.Answering, ts *turns) *workers {
	w := &workers{
		logger: cfg.Logger, callersCommit: cfg.Pipeline.CallersCommit,
		answering: an, memory: ts.memory, table: ts.table, store: ts.store,
		ownership: ts.ownership, records: ts.records, turns: ts,
	}
	w.done = w.committed
	w.buffers.New = func() any { return new([]byte) }
	return w
}

// work runs the turns of one actor, one after the other, until none can be run.
// A call is answered when the worker is already on to the next one or gone: who
// has an answer can rely on that.
func (w *workers) work(s *shard, a *activation) {
	var then followUp
	s.mu.Lock()
	c := s.pick(a)
	now := time.Now()
	w.proceed(s, a, now, &then)
	s.mu.Unlock()
	w.followThrough(&then)
	for turns := 1; c != nil; turns++ {
		if c.Op == call.OpEnlist { // who waits for it is the worker from now on
			w.answering.Answer(c)
			return
		}
		o := w.run(a, c, now)
		c, now = w.dispose(s, a, c, &o, true)
		if turns%sliceTurns == 0 {
			runtime.Gosched()
		}
	}
}

// runHere runs a call that was just picked, on its caller's goroutine: an actor
// that was idle needs no other one. Calls that came meanwhile get a worker.
func (w *workers) runHere(a *activation, c *call.Call) {
	o := w.run(a, c, c.Arrived)
	w.dispose(a.shard, a, c, &o, false)
}

// run is turn, whose panic is the call's error.
func (w *workers) run(a *activation, c *call.Call, now time.Time) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = failed(turn.Panicked(w.logger, c.Inv.Key, c.Inv.Trace, v))
		}
	}()
	return w.turns.run(a, c, now)
}

// pick takes out the call that the activation's worker is to run. Without one
// the worker ends. The caller has the lock.
func (s *shard) pick(a *activation) *call.Call {
	var c *call.Call
	if a.member.MayBegin() && !a.full() {
		c = a.Calls.Take()
	}
	if c == nil {
		a.working = false
		return nil
	}
	a.member.Begin()
	s.running.Push(&c.Place, c)
	if s.killed {
		c.Killed.Store(true)
	}
	return c
}

// dispose puts a call that was run where it belongs by its outcome, and takes the
// next one if the worker goes on, which begins now.
func (w *workers) dispose(s *shard, a *activation, c *call.Call, o *outcome, goOn bool) (next *call.Call, now time.Time) {
	if now = o.ended; now.IsZero() {
		now = time.Now()
	}
	o.Stats = c.Stats
	if a.chain != nil {
		return w.disposeChain(s, a, c, o, goOn)
	}
	var then followUp
	then.bring = !goOn && c.Receiver == nil && w.callersCommit
	several := lockHome(a, o)
	if several != nil { // it may have waited for commits
		now = time.Now()
	}
	defer func() {
		a.unlock(several)
		w.followThrough(&then)
	}()
	s.running.Remove(&c.Place)
	if c.Timers != nil && o.Err == nil {
		s.timers.Wait(c.Inv.Key, c.Timers)
	}
	behind, dropped := a.member.End()
	if dropped != nil { // the turn has changed what the revision names
		a.rev = w.table.revisions.Next()
	}
	switch {
	case dropped != nil && o.resting: // what it ran on is gone
		c.RunAgain(dropped, &then.answered)
	case o.retry:
		a.Calls.Again(&c.Place, c)
	case o.commits:
		w.fold(a, nil, c, o.under, &o.sealed)
		then.launch(a.launch(now))
	case o.fails:
		w.foldFailure(a, nil, c, o.Result)
		then.launch(a.launch(now))
	case o.resting && a.lost && a.member.Committed():
		c.Result = call.Result{Err: actor.ErrNotOwner, Stats: c.Stats}
		c.Answer(&then.answered)
	case o.resting && !a.member.Committed():
		w.hold(a.member.Latest(), dependent{Call: c, Home: &a.member, Role: speculation.Observer, Since: o.since}, o.Result)
	case o.resting && a.Outdated():
		w.supersede(a, []dependent{{Call: c, Home: &a.member}}, now, &then)
	case o.resting && !o.since.IsZero() && !w.ownership.currentSince(a, o.since, now):
		w.ask(a, nil, c, o.Result)
		then.launch(a.launch(now))
	default:
		c.Result = o.Result
		c.Result.Stats.Ended = now
		c.Answer(&then.answered)
	}
	for _, earlier := range slices.Backward(behind) {
		earlier.RunAgain(dropped, &then.answered)
	}
	if a.leaving {
		a.giveBackCalls(&then.answered)
	}
	if goOn {
		if next = s.pick(a); next != nil && now.Before(next.Arrived) { // which it was while the last one was cleared away
			now = next.Arrived
		}
	} else {
		a.working = false
	}
	w.proceed(s, a, now, &then)
	w.proceedOthers(now, &then)
	return next, now
}

// lockHome locks what the end of a turn may change.
func lockHome(a *activation, o *outcome) (several []*shard) {
	several = a.lock()
	if several == nil || !o.commits || fits([]*activation{a}, o.sealed.size()) {
		return several
	}
	unlockAll(several)
	return lockToFold([]*activation{a}, true, o.sealed.size())
}

// disposeChain is dispose for a call that has called other actors: all of them are given back.
func (w *workers) disposeChain(s *shard, a *activation, c *call.Call, o *outcome, goOn bool) (next *call.Call, now time.Time) {
	ch := a.chain
	c.Stats.Chain.Actors = len(ch.members)
	if o.under != nil && ch.changed() { // the outermost turn was sealed
		o.commits = true
	}
	of := ch.activations()
	var adds int64
	if o.commits {
		if adds = ch.size() + o.sealed.size(); adds > actor.MaxCommitBytes {
			*o = outcome{Result: call.Result{Err: fmt.Errorf("%w: %d bytes", actor.ErrChainTooLarge, adds), Stats: o.Stats}, ended: o.ended}
		}
	}
	var then followUp
	then.bring = !goOn && c.Receiver == nil && w.callersCommit
	several := lockToFold(of, o.commits || o.fails || o.resting, adds)
	now = time.Now() // it may have waited for commits
	defer func() {
		unlockAll(several)
		w.followThrough(&then)
	}()
	s.running.Remove(&c.Place)
	if c.Timers != nil && o.Err == nil {
		s.timers.Wait(c.Inv.Key, c.Timers)
	}
	ch.End()
	var dropped error
	committed, current, lost, folded := true, true, false, false
	behind := make([][]*call.Call, len(ch.members))
	why := make([]error, len(ch.members))
	for i, m := range ch.members {
		if behind[i], why[i] = m.a.member.End(); why[i] != nil {
			dropped = why[i]
		}
		if m.row == nil && i > 0 { // the chain has not seen it
			continue
		}
		committed = committed && m.a.member.Committed()
		// What the chain has seen of its actors must have been the newest at one moment.
		current = current && !m.a.Outdated() && (o.since.IsZero() || w.ownership.currentSince(m.a, now, now))
		lost = lost || m.a.lost
	}
	switch {
	case dropped != nil && (o.resting || o.retry):
		c.RunAgain(dropped, &then.answered)
	case o.retry && c.Stats.Sent:
		c.RunAgain(actor.ErrStale, &then.answered)
	case o.deadlock:
		c.Stats.Chain.Deadlocks++
		a.Calls.AgainBehind(&c.Place, c, func(c *call.Call) bool { return c.Op == call.OpEnlist })
	case o.retry:
		a.Calls.Again(&c.Place, c)
	case o.commits:
		folded = true
		w.fold(a, ch, c, o.under, &o.sealed)
		then.launch(a.launch(now))
	case o.fails:
		w.foldFailure(a, ch, c, o.Result)
		then.launch(a.launch(now))
	case o.resting && lost && committed:
		c.Result = call.Result{Err: actor.ErrNotOwner, Stats: c.Stats}
		c.Answer(&then.answered)
	case o.resting && (!committed || !current):
		w.ask(a, ch, c, o.Result)
		then.launch(a.launch(now))
	default:
		settleTimers(ch.timing(), o.Err == nil, now)
		c.Result = o.Result
		c.Result.Stats.Ended = now
		c.Answer(&then.answered)
	}
	for i, m := range ch.members {
		for _, earlier := range slices.Backward(behind[i]) {
			earlier.RunAgain(why[i], &then.answered)
		}
		if m.a.leaving {
			m.a.giveBackCalls(&then.answered)
		}
		if !folded { // what guests have cached of it is not so
			m.a.rev = w.table.revisions.Next()
		}
		if i == 0 {
			continue
		}
		m.a.shard.running.Remove(&m.call.Place)
		m.a.Calls.Answered(m.call.Cost())
		w.memory.Answered(m.call)
		m.a.working = false
		w.proceed(m.a.shard, m.a, now, &then)
	}
	if !folded {
		w.turns.reminders.unused(a.key.App, ch.tokens)
	}
	a.chain = nil
	if goOn {
		if next = s.pick(a); next != nil && now.Before(next.Arrived) {
			now = next.Arrived
		}
	} else {
		a.working = false
	}
	w.proceed(s, a, now, &then)
	w.proceedOthers(now, &then)
	return next, now
}

// proceed sees to it that an activation with calls to run has a worker, and that
// one without any work is idle. The caller has the shard's lock.
func (w *workers) proceed(s *shard, a *activation, now time.Time, then *followUp) {
	if a.drained != nil && a.member.Committed() {
		close(a.drained)
		a.drained = nil
	}
	if a.working || !a.busy {
		return
	}
	if a.member.MayBegin() && !a.full() && a.Calls.Len() > 0 {
		a.working = true
		go w.work(s, a)
		return
	}
	if !a.member.Committed() {
		return
	}
	a.busy = false
	if a.called {
		a.called, a.lastUsed = false, now
	}
	gone := a.leaving || a.empty()
	if gone {
		w.table.remove(s, a)
		if a.leaving {
			s.timers.Leave(a.key)
		}
	}
	if then.a == nil {
		then.retired = retired{a, gone}
	} else {
		then.others = append(then.others, retired{a, gone})
	}
}

// proceedOthers is proceed for the other activations that have changed.
func (w *workers) proceedOthers(now time.Time, then *followUp) {
	for _, a := range then.also {
		if a.leaving {
			a.giveBackCalls(&then.answered)
		}
		w.proceed(a.shard, a, now, then)
	}
}

// followThrough does what is left, without the locks.
func (w *workers) followThrough(then *followUp) {
	var bring *batch
	for b := then.launched; b != nil; {
		next := b.next
		b.next = nil
		switch {
		case b.in.Check():
			w.sendCheck(b)
		case then.bring && bring == nil:
			bring = b
		default:
			w.submitted(b, w.store.Commits.Submit(b))
		}
		b = next
	}
	w.retire(then.retired, false)
	for _, r := range then.others {
		w.retire(r, false)
	}
	w.answering.Send(&then.answered)
	w.sendDoubtful(&then.doubtful)
	w.retire(then.retired, true)
	for _, r := range then.others {
		w.retire(r, true)
	}
	if bring != nil { // last, since it takes as long as a commit
		w.submitted(bring, w.store.Commits.Bring(bring))
	}
}

// deliver puts a call into a mailbox. The caller has the shard's lock.
func (w *workers) deliver(s *shard, a *activation, c *call.Call, limit int, onCaller bool) (run bool, err error) {
	if err := a.Calls.CheckCalls(limit); err != nil {
		return false, err
	}
	if a.member.Flight() != nil && w.store.Commits.Stalled() { // it would wait for that, too
		return false, fmt.Errorf("%w: it has not answered for a while; try again later", actor.ErrUnavailable)
	}
	cost := c.Cost()
	if err := a.Calls.CheckBytes(cost, w.memory.Max/call.ActorShare); err != nil {
		return false, err
	}
	if err := w.memory.Charge(c); err != nil {
		return false, err
	}
	a.Calls.Put(&c.Place, c, cost)
	c.Home = &a.Home
	if c.Cause.KeepsActive() {
		a.called = true
		s.used(a)
	} else if a.lastUsed.IsZero() {
		a.lastUsed = c.Arrived
	}
	if !a.busy {
		a.busy = true
		s.work.Add(1)
	}
	if a.working || !a.member.MayBegin() || a.full() { // the flight's landing sends a worker
		return false, nil
	}
	a.working = true
	if onCaller { // without a worker the mailbox was empty
		s.pick(a)
		return true, nil
	}
	go w.work(s, a)
	return false, nil
}

// committed takes the outcome of a commit from the pipeline.
func (w *workers) committed(b *batch, err error, now time.Time) {
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
func (w *workers) landed(b *batch, err error, now time.Time) {
	check := b.in.Check()
	if err != nil && !check {
		err = fmt.Errorf("commit turn: %w", err)
	}
	if !check {
		// Before anything that follows from it is done, and told.
		w.store.Committed(storage.CommitEnd{
			Key: b.parts[0].a.key, Lane: serving.LaneWarm, Duration: now.Sub(b.in.Began()), GroupSize: b.in.Effects(), Err: err,
		})
		switch {
		case err == nil:
			w.turns.reminders.committed(&b.reminders)
		case call.Refused(err): // at once, or once it was settled
			w.turns.reminders.refused(&b.reminders)
		}
	}
	if errors.Is(err, actor.ErrKeyExists) {
		for i := range b.records {
			w.records.repeats.Note(&b.records[i].Actor, now)
		}
	}
	then := w.land(b, err, now)
	w.followThrough(&then)
}

// land is the part of landed under the locks.
func (w *workers) land(b *batch, err error, now time.Time) (then followUp) {
	several := b.lock()
	defer b.unlock(several)
	outcome, check := speculation.Applied, b.in.Check()
	switch {
	case call.Refused(err):
		outcome = speculation.Refused
	case err != nil:
		outcome = speculation.Failed
	}
	for i := range b.parts {
		p := &b.parts[i]
		if err == nil && !check {
			p.a.Install(p.after)
			p.a.weigh()
			if p.writes() {
				w.ownership.advanced(p.a)
			}
		}
		if errors.Is(err, actor.ErrAmbiguous) {
			p.a.gaveUp(now)
		}
		if err == nil && !p.a.Outdated() {
			p.a.Confirmed(b.in.Began())
		}
	}
	did := b.in.Landed(outcome, err, now)
	b.settleTimers(err == nil, now)
	w.perform(&did, err, now, &then)
	w.release(b, err)
	for i := range b.parts {
		a := b.parts[i].a
		if a.leaving {
			a.giveBackCalls(&then.answered)
		}
		w.proceed(a.shard, a, now, &then)
	}
	w.proceedOthers(now, &then)
	return then
}

// settleFlight finds out the outcome of a commit, beside the lanes. No turn of
// its actors begins meanwhile: it would most likely have to run again.
func (w *workers) settleFlight(b *batch, cause error) {
	several := b.lock()
	b.in.Settle()
	b.unlock(several)
	// The flight keeps the activations busy, which Stop waits for.
	go func() {
		err := w.store.Settle(b.commit, cause)
		w.landed(b, err, time.Now())
	}()
}

// sendCheck asks whether the versions that a check rests on are still the rows'. Each of
// them was the row's when the check was sent, so that all were at once.
func (w *workers) sendCheck(b *batch) {
	verdict := func(i int, v actor.RowVersion, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("confirm version: %w", err)
		case v.Version != b.rows[i].ReadVersion:
			return actor.ErrStale
		}
		return nil
	}
	if len(b.parts) == 1 {
		w.store.Versions.Ask(b.parts[0].a.key, func(v actor.RowVersion, err error) {
			w.landed(b, verdict(0, v, err), time.Now())
		})
		return
	}
	var failure atomic.Pointer[error] // the first one
	var left atomic.Int64
	left.Store(int64(len(b.parts)))
	for i := range b.parts {
		w.store.Versions.Ask(b.parts[i].a.key, func(v actor.RowVersion, err error) {
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
func (w *workers) submitted(b *batch, err error) {
	if err != nil {
		w.landed(b, err, time.Now())
	}
}

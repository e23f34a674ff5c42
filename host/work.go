package host

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/speculation"
	"github.com/greenroom-run/greenroom/host/turn"
)

// sliceTurns is after how many turns in a row a worker lets others have the
// processor: an actor with a full mailbox would keep it for as long as the
// scheduler lets it otherwise, turn after turn.
const sliceTurns = 32

func newWorkers(cfg *Config, an *answering, ts *turns) *workers {
	w := &workers{
		logger: cfg.Logger, callersCommit: cfg.Pipeline.CallersCommit,
		answering: an, events: ts.store.events, memory: ts.memory, table: ts.table, store: ts.store,
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
	w.followThrough(s, a, &then)
	for turns := 1; c != nil; turns++ {
		o := w.run(a, c, now)
		c, now = w.dispose(s, a, c, &o, true)
		if turns%sliceTurns == 0 {
			runtime.Gosched()
		}
	}
}

// runHere runs a call that was just picked, on its caller's goroutine: an actor
// that was idle needs no other one. Calls that came meanwhile get a worker.
func (w *workers) runHere(a *activation, c *call) {
	o := w.run(a, c, c.arrived)
	w.dispose(a.shard, a, c, &o, false)
}

// run is turn, whose panic is the call's error.
func (w *workers) run(a *activation, c *call, now time.Time) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = failed(turn.Panicked(w.logger, c.inv.Key, c.inv.Trace, v))
		}
	}()
	return w.turns.run(a, c, now)
}

// pick takes out the call that the activation's worker is to run. Without one
// the worker ends. The caller has the lock.
func (s *shard) pick(a *activation) *call {
	var c *call
	if a.member.MayBegin() && !a.full() {
		c = a.calls.Take()
	}
	if c == nil {
		a.working = false
		return nil
	}
	a.member.Begin()
	s.running.Push(&c.place, c)
	if s.killed {
		c.killed.Store(true)
	}
	return c
}

// dispose puts a call that was run where it belongs by its outcome, and takes the
// next one if the worker goes on, which begins now.
func (w *workers) dispose(s *shard, a *activation, c *call, o *outcome, goOn bool) (next *call, now time.Time) {
	if now = o.ended; now.IsZero() {
		now = time.Now()
	}
	o.stats = c.stats
	var then followUp
	then.bring = !goOn && c.receiver == nil && w.callersCommit
	s.mu.Lock()
	defer func() {
		s.mu.Unlock()
		w.followThrough(s, a, &then)
	}()
	s.running.Remove(&c.place)
	if c.timers != nil && o.err == nil {
		s.timers.Wait(c.inv.Key, c.timers)
	}
	behind, dropped := a.member.End()
	switch {
	case dropped != nil && (o.resting || o.retry):
		// What it ran on, or would have, is gone.
		var rerun list.List[*call]
		for _, earlier := range behind {
			a.runAgain(earlier, dropped, &rerun, &then.answered)
		}
		if o.resting {
			a.runAgain(c, dropped, &rerun, &then.answered)
		} else {
			rerun.Push(&c.place, c)
		}
		a.calls.AgainAll(&rerun)
		behind = nil
	case o.retry:
		a.calls.Again(&c.place, c)
	case o.commits:
		w.fold(a, c, o.under, &o.sealed)
		then.launched = a.launch(now)
	case o.fails:
		w.foldFailure(a, c, o.result)
		then.launched = a.launch(now)
	case o.resting && a.lost && a.member.Committed():
		c.result = result{err: actor.ErrNotOwner, stats: c.stats}
		a.shard.answer(&then.answered, c)
	case o.resting && !a.member.Committed():
		w.hold(a.member.Latest(), dependent{Call: c, Home: &a.member, Role: speculation.Observer, Since: o.since}, o.result)
	case o.resting && a.Outdated():
		w.supersede(a, []dependent{{Call: c, Home: &a.member}}, now, &then)
	case o.resting && !o.since.IsZero() && !w.ownership.currentSince(a, o.since, now):
		w.ask(a, c, o.result)
		then.launched = a.launch(now)
	default:
		c.result = o.result
		c.result.stats.ended = now
		a.shard.answer(&then.answered, c)
	}
	if len(behind) > 0 {
		var rerun list.List[*call]
		for _, earlier := range behind {
			a.runAgain(earlier, dropped, &rerun, &then.answered)
		}
		a.calls.AgainAll(&rerun)
	}
	if a.leaving {
		a.giveBackCalls(&then.answered)
	}
	a.calls.Answered(then.answered.Sum())
	if goOn {
		if next = s.pick(a); next != nil && now.Before(next.arrived) { // which it was while the last one was cleared away
			now = next.arrived
		}
	} else {
		a.working = false
	}
	w.proceed(s, a, now, &then)
	return next, now
}

// proceed sees to it that an activation with calls to run has a worker, and that
// one without any work is idle. The caller has the shard's lock.
func (w *workers) proceed(s *shard, a *activation, now time.Time, then *followUp) {
	if a.working {
		return
	}
	if a.member.MayBegin() && !a.full() && a.calls.Len() > 0 {
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
	then.idle = true
	if a.leaving || a.empty() {
		then.gone = true
		w.table.remove(s, a)
		if a.leaving {
			s.timers.Leave(a.key)
		}
	}
}

// followThrough does what is left, without the lock.
func (w *workers) followThrough(s *shard, a *activation, then *followUp) {
	if then.launched != nil && then.launched.in.Check() {
		w.sendCheck(then.launched)
		then.launched = nil
	}
	if then.launched != nil && !then.bring {
		w.submitted(then.launched, w.store.commits.Submit(then.launched))
	}
	if then.gone {
		reason := DeactivateDone
		if a.leaving { // out of the table: nobody changes it
			reason = DeactivateMoved
		}
		w.table.deactivated(a, reason)
	}
	w.answering.send(&then.answered)
	w.sendDoubtful(s, &then.doubtful)
	if then.idle {
		s.work.Done()
	}
	if then.launched != nil && then.bring { // last, since it takes as long as a commit
		w.submitted(then.launched, w.store.commits.Bring(then.launched))
	}
}

// deliver puts a call into a mailbox. The caller has the shard's lock.
func (w *workers) deliver(s *shard, a *activation, c *call, limit int, onCaller bool) (run bool, err error) {
	if err := a.calls.CheckCalls(limit); err != nil {
		return false, err
	}
	if a.member.Flight() != nil && w.store.commits.Stalled() { // it would wait for that, too
		return false, fmt.Errorf("%w: it has not answered for a while; try again later", actor.ErrUnavailable)
	}
	cost := c.cost()
	if err := a.calls.CheckBytes(cost, w.memory.max/actorShare); err != nil {
		return false, err
	}
	if err := w.memory.charge(c); err != nil {
		return false, err
	}
	a.calls.Put(&c.place, c, cost)
	c.queued = true
	if c.cause.KeepsActive() {
		a.called = true
		s.used(a)
	} else if a.lastUsed.IsZero() {
		a.lastUsed = c.arrived
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
	if refusal(err) {
		w.turns.reminders.refused(&b.reminders)
	}
	w.landed(b, err, now)
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
			w.ownership.advanced(a)
		}
	}
	if errors.Is(err, actor.ErrAmbiguous) {
		a.gaveUp(now)
	}
	if err == nil && !a.Outdated() {
		a.Confirmed(b.in.Began())
	}
	did := b.in.Landed(outcome, err, now)
	w.perform(a, &did, err, now, &then)
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

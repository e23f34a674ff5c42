package reminder

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// deliveries has what is due read, planned and delivered. Its methods may be called concurrently.
type deliveries struct {
	cfg      *Config
	planner  *Planner
	clock    *dbClock
	tenure   *tenure
	outcomes outcomes
	queue    *dispatch
	counters *counters
	subs     *subscribers
	steps    *steps
	failures failures
}

// loaders is how many groups are read at once: an app whose reminders take long to read or to
// plan holds up one of them.
const loaders = 4

// run has what is due read and delivered.
func (ds *deliveries) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	running, ended := 0, make(chan struct{}, loaders)
	defer func() {
		for range running {
			<-ended
		}
	}()
	for ctx.Err() == nil {
		if !ds.tenure.valid() { // others may deliver what is this process's
			timer.Reset(mayDeliverEvery)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			continue
		}
		now, next, some, more := ds.outcomes.due()
		for of, ok := ds.queue.nextRoom(); ok; of, ok = ds.queue.nextRoom() {
			ds.outcomes.room(of)
		}
		if running < loaders {
			if g := ds.outcomes.take(ds.queue); len(g.due) > 0 {
				running++
				go func() {
					ds.loadGroup(ctx, g)
					ended <- struct{}{}
				}()
				continue
			}
		}
		if more { // what is due of others meanwhile does not wait for all of it
			select {
			case <-ended:
				running--
			default:
			}
			continue
		}
		wait := pollEvery
		if some {
			// The clock is to be past it, and timers fire early by what they round away.
			wait = min(wait, max(0, next.Sub(now))+10*time.Microsecond)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ds.outcomes.wake:
		case <-ended:
			running--
		case <-ctx.Done():
		}
	}
}

// loadGroup reads what was dealt, and has it delivered.
func (ds *deliveries) loadGroup(ctx context.Context, g group) {
	ds.load(ctx, g.due)
	for _, of := range g.stillDeferred { // once these wait, too
		ds.queue.watch(of)
	}
	ds.outcomes.loaded(g)
}

// load reads due reminders and plans what happens to them.
func (ds *deliveries) load(ctx context.Context, due []Due) {
	ids, of, whole := ds.outcomes.claim(due)
	for _, r := range whole {
		ds.consider(r.ID, r)
	}
	if len(ids) == 0 {
		ds.queue.pump()
		return
	}
	rows, err := ds.cfg.Store.LoadReminders(ctx, ids)
	var damaged *store.DamagedReminders
	if errors.As(err, &damaged) {
		for _, d := range damaged.Reminders {
			ds.cfg.Logger.Error("a reminder cannot be read and is not delivered", "reminder", d.ID.String(), "reason", d.Reason)
		}
	} else if err != nil {
		ds.cfg.Logger.Warn("due reminders were not read", "error", err)
		for _, id := range ids {
			ds.outcomes.postpone(id, longestWait)
		}
		return
	}
	for i := range rows {
		if ds.outcomes.stillOwns(of[i], &rows[i], ids[i]) {
			ds.consider(ids[i], &rows[i])
		}
	}
	ds.queue.pump()
}

// consider decides what happens to one reminder that was read.
func (ds *deliveries) consider(id actor.ReminderID, r *actor.Reminder) {
	now := ds.clock.now()
	switch {
	case r.Version == 0 || r.Paused:
		ds.outcomes.done(id)
		return
	case r.FireAt.After(now):
		ds.outcomes.doneUntil(id, r.FireAt)
		return
	}
	if r.Message != nil && !ds.outcomes.isFirst(r) {
		return
	}
	plan, err := ds.plan(r, now)
	if err != nil {
		// It was valid when it was set: a time zone that this binary does not know.
		ds.cfg.Logger.Error("a reminder cannot be planned", "reminder", id.String(), "error", err)
		ds.outcomes.postpone(id, longestWaitUnserved)
		return
	}
	if !plan.Deliver && r.Message != nil {
		ds.endMessage(&delivery{reminder: r, plan: plan, late: now.Sub(r.FireAt)}, r.Failures, codeTooOld, tooOld(r))
		return
	}
	if !plan.Deliver {
		ds.steps.add(step{id: id, step: plan.Firing.Step, missed: plan.Firing.Missed, policy: r.Missed.Kind})
		return
	}
	plan.Firing.Fresh = ds.outcomes.fresh(r)
	if r.Key.IsSubscription() {
		if wait := ds.outcomes.inheritedFor(r); wait > 0 {
			ds.outcomes.again(id, wait)
			return
		}
		if !ds.subs.offer(&delivery{reminder: r, plan: plan}) {
			ds.giveBack(r, firstWait) // it may come here again
		}
		return
	}
	if full := ds.queue.add(&delivery{reminder: r, plan: plan}); full != (scope{}) {
		ds.outcomes.setAside(id, full)
		ds.queue.watch(full) // there may have been room again before it was set aside
	}
}

// plan decides what happens to a reminder or a message that is due.
func (ds *deliveries) plan(r *actor.Reminder, now time.Time) (Plan, error) {
	switch {
	case r.Message != nil:
		return planMessage(r, now), nil
	case r.Cursor != nil:
		return planCursor(r), nil
	}
	return ds.planner.Plan(r, now)
}

// begin begins to deliver one firing, and returns when that is under way, or over.
func (ds *deliveries) begin(d *delivery) {
	id := d.reminder.ID
	runs := ds.queue.runs() // before it is asked whether it may, which ends them
	may := ds.tenure.valid()
	leaves := !ds.outcomes.begins(id)
	switch { // it may have waited for long
	case leaves: // unless the bucket stays after all, which is read while this is still under way
		ds.outcomes.again(id, 0)
		ds.queue.end(d)
		return
	case !may:
		ds.outcomes.again(id, firstWait)
		ds.queue.end(d)
		return
	case d.reminder.FireAt.After(ds.clock.now()): // the database's clock was set back since it was planned
		ds.outcomes.doneUntil(id, d.reminder.FireAt)
		ds.queue.end(d)
		return
	}
	d.late = max(0, ds.clock.now().Sub(d.reminder.FireAt))
	if c := d.reminder.Cursor; c != nil {
		ds.outcomes.reads(c.Publisher, id)
	}
	ctx, cancel := context.WithTimeout(runs, ds.cfg.ExecutionTimeout)
	giveUp := ds.cfg.Deliverer.Deliver(ctx, d.plan.Firing, func(err error) {
		timeout := ctx.Err() != nil
		if !d.answered() {
			return
		}
		cancel()
		if errors.Is(err, ErrNoEvent) { // which happens often, and takes no time
			ds.finish(d, err, false)
			return
		}
		if err != nil { // which may take its time, and others wait for who calls
			ds.failures.add(failure{d, err, timeout})
			return
		}
		ds.finish(d, nil, false)
	})
	d.begun(ctx, giveUp)
}

// finish goes on after a delivery, and gives its place to another.
func (ds *deliveries) finish(d *delivery, err error, timeout bool) {
	ds.ended(d, err, timeout)
	ds.queue.end(d)
}

// ended goes on after a delivery, or after its time was out.
func (ds *deliveries) ended(d *delivery, err error, timeout bool) {
	id := d.reminder.ID
	if errors.Is(err, ErrNoEvent) {
		ds.outcomes.awaitEvent(d.reminder, ds.cfg.Store.Shared())
		return
	}
	if c := d.reminder.Cursor; c != nil {
		ds.outcomes.hasRead(c.Publisher, id)
	}
	switch cond := actor.AsCondition(err); {
	case err == nil:
		then := d.plan.Firing.Step.Then
		if then != nil {
			ds.outcomes.doneUntil(id, then.FireAt)
		} else {
			ds.outcomes.done(id)
		}
		ds.counters.delivered(d, DeliveryFired)
		ds.counters.missed(d.reminder.Missed.Kind, d.plan.Firing.Missed)
	case ds.queue.ctx.Err() != nil:
		ds.outcomes.done(id) // the service ends, and the delivery with it; the next owner delivers
	case errors.Is(err, actor.ErrMessageOrder):
		ds.counters.delivered(d, DeliveryRetried)
		ds.outcomes.outOfOrder(id)
	case errors.Is(err, actor.ErrFiringTaken):
		ds.counters.delivered(d, DeliveryTaken)
		ds.outcomes.again(id, 0) // the row says how it goes on
	case cond == actor.ErrTypePaused:
		ds.counters.delivered(d, DeliveryUnserved)
		ds.waitForDeployment(d.reminder, err)
	case cond == actor.ErrNotAcceptedYet:
		ds.counters.delivered(d, DeliveryRetried)
		ds.outcomes.awaitSet(id)
	case timeout, cond != nil && cond.Retryable(), errors.Is(err, actor.ErrAmbiguous), errors.Is(err, actor.ErrCanceled),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// Not the actor's failure, or nobody knows whether it was committed: the same
		// firing goes again, and is found taken if it was.
		ds.counters.delivered(d, DeliveryRetried)
		if ds.outcomes.borrows(id) {
			ds.giveBack(d.reminder, firstWait) // it may come here again, and go as before
		} else {
			ds.outcomes.postpone(id, longestWait)
		}
	case cond == actor.ErrTypeNotFound, cond == actor.ErrMethodNotFound:
		ds.counters.delivered(d, DeliveryUnserved)
		ds.waitForDeployment(d.reminder, err)
	case d.reminder.Cursor != nil:
		ds.counters.delivered(d, DeliveryFailed)
		ds.steps.add(step{id: id, step: failedCursor(d.reminder, ds.clock.now(), cond, reasonOf(err))})
	case cond == actor.ErrPassedAway && d.reminder.CreatedAt.IsZero():
		// It comes from the notice of its commit, which may have ended that life: the row says when it was sent.
		ds.counters.delivered(d, DeliveryRetried)
		ds.outcomes.again(id, 0)
	case d.reminder.Message != nil:
		next, again := failedMessage(d.reminder, ds.clock.now(), reasonOf(err))
		if !again || cond == actor.ErrPassedAway { // no later life is meant
			ds.endMessage(d, d.reminder.Failures+1, codeOf(err), reasonOf(err))
			return
		}
		ds.counters.delivered(d, DeliveryFailed)
		ds.steps.add(step{id: id, step: next})
	default:
		st := step{id: id, step: ds.planner.Failed(d.reminder, &d.plan, ds.clock.now(), reasonOf(err))}
		if st.step.Then == nil || st.step.Then.Failures == 0 { // the firing is given up, with what it stood for
			st.missed, st.policy = d.plan.Firing.Missed, d.reminder.Missed.Kind
		}
		outcome := DeliveryFailed
		if st.step.DeadLetter != nil {
			outcome = DeliveryDead
		}
		ds.counters.delivered(d, outcome)
		ds.steps.add(st)
	}
}

// endMessage ends a message that nobody consumed, after so many failed deliveries.
func (ds *deliveries) endMessage(d *delivery, failed uint32, code, reason string) {
	st := step{id: d.reminder.ID}
	st.step, st.follow = endOfMessage(d.reminder, ds.clock.now(), failed, code, reason)
	outcome := DeliveryFailed
	if st.step.DeadLetter != nil {
		outcome = DeliveryDead
	}
	ds.counters.delivered(d, outcome)
	ds.steps.add(st)
}

// tooOld is the reason why a message is not delivered any more.
func tooOld(r *actor.Reminder) string {
	text := "the message was not consumed until " + r.Schedule.Until.Format(time.RFC3339)
	if r.LastError != "" {
		text += "; the last delivery failed: " + r.LastError
	}
	return text
}

// waitForDeployment keeps a reminder whose type or method nothing serves, or whose type is paused: what
// was undeployed by mistake, or is not deployed yet, loses no firing. Why it waits is written
// down the first time, for those who look at it.
func (ds *deliveries) waitForDeployment(r *actor.Reminder, why error) {
	then := r.ReminderProgress
	if then.LastError = shorten(reasonOf(why)); then.LastError == r.LastError {
		ds.outcomes.postpone(r.ID, longestWaitUnserved)
		return
	}
	then.FireAt = schedule.Ceil(ds.clock.now().Add(backoff(r.ID, 0, longestWaitUnserved)))
	ds.steps.add(step{id: r.ID, step: actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &then}})
}

// reasonOf is what an error of a turn says, without whose turn it was.
func reasonOf(err error) string {
	var turn *actor.TurnError
	if errors.As(err, &turn) {
		return turn.Err.Error()
	}
	return err.Error()
}

// giveBack has a reminder that was borrowed, and not executed, delivered by the owner of its
// bucket after a while.
func (ds *deliveries) giveBack(r *actor.Reminder, after time.Duration) {
	ds.steps.add(step{id: r.ID, step: put(r, ds.clock.now().Add(after))})
}

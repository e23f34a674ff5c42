package reminder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// delivery is a firing on its way.
type delivery struct {
	reminder *actor.Reminder
	plan     Plan
	late     time.Duration // how long after its time it began

	mu    sync.Mutex
	over  bool        // there is an answer
	watch func() bool // ends the watch over its time; nil: none has begun
}

// begun has a delivery given up when its time is out, unless it is over.
func (d *delivery) begun(ctx context.Context, giveUp func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.watch = context.AfterFunc(ctx, giveUp)
	}
}

// answered notes that a delivery is over, and reports false if it was.
func (d *delivery) answered() bool {
	d.mu.Lock()
	was, watch := d.over, d.watch
	d.over = true
	d.mu.Unlock()
	if watch != nil {
		watch()
	}
	return !was
}

// step is one to be committed alone.
type step struct {
	id   actor.ReminderID
	step actor.ReminderStep
	// missed are the occurrences that it passes over, under a policy.
	missed uint32
	policy actor.MissedKind
	// executed is what a subscriber has done; nil: it is no subscriber's.
	executed *delivery
}

// deliverDue takes what is due from the wheel, reads it, and has it delivered.
func (s *Service) deliverDue(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due []Due
	for ctx.Err() == nil {
		if !s.mayDeliver() { // others may deliver what is this process's
			timer.Reset(mayDeliverEvery)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			continue
		}
		s.mu.Lock()
		now := s.clock.now()
		due = s.wheel.Advance(now, due[:0], loadGroup)
		next, some := s.wheel.Next()
		s.loading = len(due)
		s.mu.Unlock()
		for group := range slices.Chunk(due, loadGroup) {
			s.load(ctx, group)
			s.mu.Lock()
			s.loading -= len(group)
			s.mu.Unlock()
		}
		if unparked := s.unpark(ctx); unparked || len(due) > 0 {
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
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

// load reads due reminders and plans what happens to them.
func (s *Service) load(ctx context.Context, due []Due) {
	ids := make([]actor.ReminderID, 0, len(due))
	of := make([]*ownedBucket, 0, len(due))
	s.mu.Lock()
	for _, d := range due {
		delete(s.retried, d.ID)
		b := s.owned[d.ID.Bucket()]
		_, under := s.running[d.ID]
		if b == nil || b.leaving {
			delete(s.tries, d.ID)
		}
		if b == nil || b.leaving || under || s.stopping {
			continue // the owner reads it, or the work under way on it decides what follows
		}
		s.running[d.ID] = false
		s.under[d.ID.Bucket()]++
		ids, of = append(ids, d.ID), append(of, b)
	}
	s.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	rows, err := s.cfg.Store.LoadReminders(ctx, ids)
	var damaged *store.DamagedReminders
	if errors.As(err, &damaged) {
		for _, d := range damaged.Reminders {
			s.cfg.Logger.Error("a reminder cannot be read and is not delivered", "reminder", d.ID.String(), "reason", d.Reason)
		}
	} else if err != nil {
		s.cfg.Logger.Warn("due reminders were not read", "error", err)
		for _, id := range ids {
			s.postpone(id, longestWait)
		}
		return
	}
	for i := range rows {
		if s.stillOwns(of[i], ids[i]) {
			s.consider(ctx, ids[i], &rows[i])
		}
	}
	s.queue.pump()
}

// stillOwns reports whether the bucket of a reminder that was loaded is still what it was
// before. If not, the reminder is done with: its owner reads it, or this one anew.
func (s *Service) stillOwns(b *ownedBucket, id actor.ReminderID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owned[id.Bucket()] == b {
		return true
	}
	s.delay(id, 0, 0)
	return false
}

// fresh reports whether nobody can have delivered the firing that a reminder asks for as it
// was just read: neither this owner of the bucket at another time, nor one before it, which
// delivered nothing before its time.
func (s *Service) fresh(r *actor.Reminder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.owned[r.ID.Bucket()]
	return b != nil && s.tries[r.ID] == 0 && r.FireAt.After(b.deliveredBefore)
}

// consider decides what happens to one reminder that was read.
func (s *Service) consider(ctx context.Context, id actor.ReminderID, r *actor.Reminder) {
	now := s.clock.now()
	switch {
	case r.Version == 0 || r.Paused:
		s.done(id)
		return
	case r.FireAt.After(now):
		s.doneUntil(id, r.FireAt)
		return
	}
	plan, err := s.planner.Plan(r, now)
	if err != nil {
		// It was valid when it was set: a time zone that this binary does not know.
		s.cfg.Logger.Error("a reminder cannot be planned", "reminder", id.String(), "error", err)
		s.postpone(id, longestWaitUnserved)
		return
	}
	if !plan.Deliver {
		s.commitAlone(ctx, step{id: id, step: plan.Firing.Step, missed: plan.Firing.Missed, policy: r.Missed.Kind})
		return
	}
	plan.Firing.Fresh = s.fresh(r)
	if r.Key.IsSubscription() {
		if wait := s.inheritedFor(r); wait > 0 {
			s.again(id, wait)
			return
		}
		s.offer(&delivery{reminder: r, plan: plan})
		return
	}
	if full := s.queue.add(&delivery{reminder: r, plan: plan}); full != (lot{}) {
		s.setAside(id, full)
	}
}

// done forgets a reminder that was loaded.
func (s *Service) done(id actor.ReminderID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(id)
}

func (s *Service) forget(id actor.ReminderID) {
	delete(s.running, id)
	delete(s.tries, id)
	b := id.Bucket()
	if s.under[b]--; s.under[b] == 0 {
		delete(s.under, b)
	}
}

// doneUntil is done, for one that is due again.
func (s *Service) doneUntil(id actor.ReminderID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(id)
	s.note(id, at)
}

// again has a reminder read again after a while.
func (s *Service) again(id actor.ReminderID, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay(id, after, s.tries[id])
}

// postpone has a reminder read again that could not be delivered, for reasons that are
// none of its actor's: each time after twice as long, up to longest, and for as long as
// it takes. It counts against no policy for failures.
func (s *Service) postpone(id actor.ReminderID, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tries[id]
	s.delay(id, backoff(id, n, longest), n+1)
}

// delay has a reminder read again after a while; s.mu is held.
func (s *Service) delay(id actor.ReminderID, after time.Duration, tries uint32) {
	s.forget(id)
	if s.owned[id.Bucket()] == nil {
		return
	}
	s.wheel.Insert(id, s.clock.now().Add(after))
	s.retried[id] = struct{}{}
	if tries > 0 {
		s.tries[id] = tries
	}
	s.rouse()
}

// backoff is how long to wait after so many waits: twice as long each time, up to
// longest, and up to a quarter less.
func backoff(id actor.ReminderID, waits uint32, longest time.Duration) time.Duration {
	wait := min(firstWait<<min(waits, 16), longest)
	return wait - spread(id, waits, wait/4)
}

// begin begins to deliver one firing, and returns when that is under way, or over.
func (s *Service) begin(d *delivery) {
	id := d.reminder.ID
	runs := s.queue.runs() // before it is asked whether it may, which ends them
	s.mu.Lock()
	b := s.owned[id.Bucket()]
	leaves, may := b == nil || b.leaving, !s.elsewhere()
	if !leaves && may {
		b.begun++
	}
	s.mu.Unlock()
	switch { // it may have waited for long
	case leaves:
		s.done(id)
		s.queue.end(d)
		return
	case !may:
		s.again(id, firstWait)
		s.queue.end(d)
		return
	case d.reminder.FireAt.After(s.clock.now()): // the database's clock was set back since it was planned
		s.doneUntil(id, d.reminder.FireAt)
		s.queue.end(d)
		return
	}
	d.late = max(0, s.clock.now().Sub(d.reminder.FireAt))
	ctx, cancel := context.WithTimeout(runs, s.cfg.ExecutionTimeout)
	giveUp := s.cfg.Deliverer.Deliver(ctx, d.plan.Firing, func(err error) {
		timeout := ctx.Err() != nil
		if !d.answered() {
			return
		}
		cancel()
		if err != nil { // which may take its time, and others wait for who calls
			go s.finish(d, err, timeout)
			return
		}
		s.finish(d, nil, false)
	})
	d.begun(ctx, giveUp)
}

// finish goes on after a delivery, and gives its place to another.
func (s *Service) finish(d *delivery, err error, timeout bool) {
	s.ended(d, err, timeout)
	s.queue.end(d)
}

// ended goes on after a delivery, or after its time was out.
func (s *Service) ended(d *delivery, err error, timeout bool) {
	id := d.reminder.ID
	count := func(n *uint64, outcome DeliveryOutcome) {
		s.mu.Lock()
		*n++
		s.mu.Unlock()
		s.delivered(d, outcome)
	}
	switch cond := actor.AsCondition(err); {
	case err == nil:
		then := d.plan.Firing.Step.Then
		s.mu.Lock()
		s.stats.Fired++
		s.forget(id)
		if then != nil {
			s.note(id, then.FireAt)
		}
		s.mu.Unlock()
		s.delivered(d, DeliveryFired)
		s.missed(d.reminder.Missed.Kind, d.plan.Firing.Missed)
	case s.queue.ctx.Err() != nil:
		s.done(id) // the service ends, and the delivery with it; the next owner delivers
	case errors.Is(err, actor.ErrFiringTaken):
		count(&s.stats.Taken, DeliveryTaken)
		s.again(id, 0) // the row says how it goes on
	case timeout, cond != nil && cond.Retryable(), errors.Is(err, actor.ErrAmbiguous), errors.Is(err, actor.ErrCanceled),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// Not the actor's failure, or nobody knows whether it was committed: the same
		// firing goes again, and is found taken if it was.
		count(&s.stats.Retried, DeliveryRetried)
		if s.borrows(id) {
			s.giveBack(d.reminder, firstWait) // it may come here again, and go as before
		} else {
			s.postpone(id, longestWait)
		}
	case cond == actor.ErrTypeNotFound, cond == actor.ErrMethodNotFound:
		count(&s.stats.Unserved, DeliveryUnserved)
		s.waitForDeployment(d.reminder, err)
	default:
		st := step{id: id, step: s.planner.Failed(d.reminder, &d.plan, s.clock.now(), reasonOf(err))}
		if st.step.Then == nil || st.step.Then.Failures == 0 { // the firing is given up, with what it stood for
			st.missed, st.policy = d.plan.Firing.Missed, d.reminder.Missed.Kind
		}
		outcome := DeliveryFailed
		if st.step.DeadLetter != nil {
			outcome = DeliveryDead
			s.mu.Lock()
			s.stats.Dead++
			s.mu.Unlock()
		}
		count(&s.stats.Failed, outcome)
		s.commitAlone(s.queue.ctx, st)
	}
}

// delivered tells of a delivery that has ended.
func (s *Service) delivered(d *delivery, outcome DeliveryOutcome) {
	if s.cfg.Events.Delivered != nil {
		s.cfg.Events.Delivered(DeliveryEnd{d.reminder.Key, outcome, d.late})
	}
}

// waitForDeployment keeps a reminder whose type or method nothing serves: what was
// undeployed by mistake, or is not deployed yet, loses no firing. Why it waits is written
// down the first time, for those who look at it.
func (s *Service) waitForDeployment(r *actor.Reminder, why error) {
	then := r.ReminderProgress
	if then.LastError = shorten(reasonOf(why)); then.LastError == r.LastError {
		s.postpone(r.ID, longestWaitUnserved)
		return
	}
	then.FireAt = schedule.Ceil(s.clock.now().Add(backoff(r.ID, 0, longestWaitUnserved)))
	s.commitAlone(s.queue.ctx, step{id: r.ID, step: actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &then}})
}

// reasonOf is what an error of a turn says, without whose turn it was.
func reasonOf(err error) string {
	var turn *actor.TurnError
	if errors.As(err, &turn) {
		return turn.Err.Error()
	}
	return err.Error()
}

// missed counts occurrences that were missed, once that is committed.
func (s *Service) missed(kind actor.MissedKind, n uint32) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.stats.Missed += uint64(n)
	s.mu.Unlock()
	if s.cfg.Events.Missed != nil {
		s.cfg.Events.Missed(kind, n)
	}
}

func (s *Service) commitAlone(ctx context.Context, st step) {
	select {
	case s.steps <- st:
	case <-ctx.Done():
		s.done(st.id)
		if st.executed != nil {
			s.settle(st.executed)
		}
	}
}

// commitSteps commits the steps that are no turn's, in groups.
func (s *Service) commitSteps(ctx context.Context) {
	for {
		var group []step
		select {
		case st := <-s.steps:
			group = append(group, st)
		case <-ctx.Done():
			return
		}
		for len(group) < loadGroup {
			select {
			case st := <-s.steps:
				group = append(group, st)
				continue
			default:
			}
			break
		}
		commits := make([]actor.Commit, len(group))
		for i := range group {
			commits[i] = actor.CommitOf()
			commits[i].Reminders.Steps = []actor.ReminderStep{group[i].step}
		}
		for i, err := range s.cfg.Store.Commit(ctx, commits) {
			id, then := group[i].id, group[i].step.Then
			if err == nil {
				s.missed(group[i].policy, group[i].missed)
			}
			taken := errors.Is(err, actor.ErrFiringTaken)
			if st := group[i]; st.executed != nil && s.executed(&st, taken, err) {
				// Done is done: the subscriber is not asked again.
				s.cfg.Logger.Warn("a reminder that was executed was not stepped on yet", "reminder", id.String(), "error", err)
				go func() {
					sleep(s.queue.ctx, firstWait)
					s.commitAlone(s.queue.ctx, st)
				}()
				continue
			}
			switch {
			case err == nil && then == nil:
				s.done(id)
			case err == nil && !then.Paused:
				s.doneUntil(id, then.FireAt)
				if !s.owns(id.Bucket()) {
					s.tell([]store.ReminderHead{{ID: id, FireAt: then.FireAt}})
				}
			case err == nil:
				s.done(id)
			case taken:
				s.again(id, 0)
			default:
				s.cfg.Logger.Warn("a reminder was not stepped on", "reminder", id.String(), "error", err)
				s.postpone(id, longestWait)
			}
		}
	}
}

package reminder

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/store"
)

// step is one that no turn commits.
type step struct {
	id   actor.ReminderID
	step actor.ReminderStep
	// follow is the message that the same commit sets: a message ends that nobody consumed. Nil:
	// none.
	follow *actor.ReminderSpec
	// missed are the occurrences that it passes over, under a policy.
	missed uint32
	policy actor.MissedKind
	// executed is what a subscriber has done; nil: it is no subscriber's.
	executed *delivery
}

// steps commits the steps that no turn commits, in groups that are dealt by app: an app whose
// reminders all fail, or are passed over, delays the steps of no other. A step that waits counts
// among the waiting deliveries of its app, so an app with many of them is not read on. Its methods
// may be called concurrently.
type steps struct {
	cfg      *Config
	outcomes outcomes
	queue    *dispatch
	counters *counters
	subs     *subscribers
	// notify has the owners of reminders that were changed here take notice.
	notify func(changed []store.ReminderHead)
	sets   setter
	added  chan struct{} // of capacity 1

	mu          sync.Mutex
	waiting     *fair.Queue[step]
	uncommitted int        // those that wait, and those that are being committed
	idle        *sync.Cond // signals that uncommitted is 0
}

func newSteps(cfg *Config, p outcomes, queue *dispatch, c *counters) *steps {
	s := &steps{
		cfg: cfg, outcomes: p, queue: queue, counters: c, added: make(chan struct{}, 1), waiting: fair.New[step](fair.Config{}),
	}
	s.idle = sync.NewCond(&s.mu)
	return s
}

// add has a step committed. After the end of deliveries the step is left to the next owner.
func (s *steps) add(st step) {
	if s.queue.ctx.Err() != nil {
		s.outcomes.done(st.id)
		if st.executed != nil {
			s.subs.finished(st.executed)
		}
		return
	}
	app := st.step.Key.App
	s.queue.countSteps(app, 1)
	s.mu.Lock()
	_ = s.waiting.Push(&fair.Entry[step]{App: app, Value: st}) // it has no bounds
	s.uncommitted++
	s.mu.Unlock()
	select {
	case s.added <- struct{}{}:
	default:
	}
}

// run commits what was added.
func (s *steps) run(ctx context.Context) {
	for ctx.Err() == nil {
		group := s.next()
		if len(group) > 0 {
			s.commit(ctx, group)
			continue
		}
		select {
		case <-s.added:
		case <-ctx.Done():
			return
		}
	}
}

// next returns the steps that are committed next, dealt by app.
func (s *steps) next() (group []step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(group) < loadGroup {
		e := s.waiting.Next()
		if e == nil {
			break
		}
		group = append(group, e.Value)
	}
	return group
}

// setter prepares the messages that steps set; the methods are those of [Service].
type setter interface {
	Prepare(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, error)
	Unused(app string, tokens []actor.ReminderID)
	Committed(e *actor.ReminderEffects)
}

func (s *steps) commit(ctx context.Context, group []step) {
	commits := make([]actor.Commit, 0, len(group))
	committing := make([]*step, 0, len(group))
	for i := range group {
		st := &group[i]
		c := actor.CommitOf()
		c.Reminders.Steps = []actor.ReminderStep{st.step}
		if st.follow != nil {
			// It waits for the store only if the app has no bucket here yet, as the commit does.
			r, err := s.sets.Prepare(ctx, *st.follow)
			var never *actor.ArgumentError
			switch {
			case errors.As(err, &never): // a fault of this program, which is not to keep the message for ever
				s.cfg.Logger.Error("a message that nobody consumed ends without the one that was to follow", "reminder", st.id.String(), "error", err)
			case err != nil:
				s.over(st, err)
				continue
			default:
				c.Reminders.Set = []actor.Reminder{r}
			}
		}
		commits, committing = append(commits, c), append(committing, st)
	}
	var errs []error
	if len(commits) > 0 {
		errs = s.cfg.Store.Commit(ctx, commits)
	}
	for i, err := range errs {
		st, set := committing[i], commits[i].Reminders.Set
		switch {
		case len(set) == 0:
		case err == nil:
			s.sets.Committed(&actor.ReminderEffects{Set: set})
		case errors.Is(err, actor.ErrFiringTaken), errors.Is(err, actor.ErrMessageOrder):
			s.sets.Unused(st.step.Key.App, []actor.ReminderID{set[0].ID})
		}
		s.over(st, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uncommitted -= len(group); s.uncommitted == 0 {
		s.idle.Broadcast()
	}
}

// over goes on after the commit of a step, and counts it off.
func (s *steps) over(st *step, err error) {
	s.ended(st, err)
	s.queue.countSteps(st.step.Key.App, -1)
}

// wait returns when nothing waits for its commit, or deliveries end.
func (s *steps) wait() {
	defer context.AfterFunc(s.queue.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.uncommitted > 0 && s.queue.ctx.Err() == nil {
		s.idle.Wait()
	}
}

// ended goes on after the commit of a step.
func (s *steps) ended(st *step, err error) {
	id, then := st.id, st.step.Then
	if err == nil {
		s.counters.missed(st.policy, st.missed)
	}
	taken := errors.Is(err, actor.ErrFiringTaken)
	if st.executed != nil && s.subs.executed(st, taken, err) {
		// Done is done: the subscriber is not asked again.
		s.cfg.Logger.Warn("a reminder that was executed was not stepped on yet", "reminder", id.String(), "error", err)
		go func() {
			clock.Pause(s.queue.ctx, firstWait)
			s.add(*st)
		}()
		return
	}
	switch {
	case err == nil && (then == nil || then.Paused):
		s.outcomes.done(id)
	case err == nil:
		s.outcomes.doneUntil(id, then.FireAt)
		if !s.outcomes.owns(id.Bucket()) {
			s.notify([]store.ReminderHead{{ID: id, FireAt: then.FireAt}})
		}
	case taken:
		s.outcomes.again(id, 0)
	case errors.Is(err, actor.ErrMessageOrder):
		s.outcomes.outOfOrder(id)
	default:
		s.cfg.Logger.Warn("a reminder was not stepped on", "reminder", id.String(), "error", err)
		s.outcomes.postpone(id, longestWait)
	}
}

func put(r *actor.Reminder, at time.Time) actor.ReminderStep {
	then := r.ReminderProgress
	then.FireAt = schedule.Ceil(at)
	return actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &then}
}

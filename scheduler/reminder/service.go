package reminder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Service is one process's part in reminders: it creates from its buckets and delivers
// those that it owns. All methods may be called concurrently.
type Service struct {
	cfg        Config
	planner    *Planner
	members    Members
	clock      *dbClock
	tenure     *tenure
	pending    *pending
	counters   *counters
	table      *bucketTable
	creators   *creators
	owner      *owner
	deliveries *deliveries
	subs       *subscribers
	takeovers  *takeovers
	tasks      tasks

	mu   sync.Mutex
	stop context.CancelFunc // nil before it starts, and once it stops
}

func errNotStarted() error { return fmt.Errorf("reminders have not started: %w", actor.ErrNoTokens) }

// New returns a service that has not started.
func New(cfg Config) (*Service, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, planner: NewPlanner(), members: cfg.Members, clock: &dbClock{}, table: &bucketTable{changed: make(chan struct{})}}
	if s.members == nil {
		s.members = alone{cfg.Host}
	}
	s.pending, s.counters = newPending(s.clock, cfg.MaxInMemory), &counters{events: &s.cfg.Events}
	queue := newDispatch(&s.cfg, s.pending.rouse)
	s.tenure = &tenure{members: s.members, interrupt: queue.lapse, logger: cfg.Logger, self: s.members.Self()}
	s.creators = &creators{cfg: &s.cfg, members: s.members, tenure: s.tenure, pending: s.pending, tasks: &s.tasks}
	s.creators.renew()
	s.deliveries = &deliveries{
		cfg: &s.cfg, planner: s.planner, clock: s.clock, tenure: s.tenure, outcomes: outcomes{s.pending}, queue: queue, counters: s.counters,
		steps: newSteps(&s.cfg, outcomes{s.pending}, queue, s.counters),
	}
	queue.begin, s.deliveries.failures.finish = s.deliveries.begin, s.deliveries.finish
	s.subs = newSubscribers(s.deliveries, &s.tasks)
	s.takeovers = &takeovers{
		cfg: &s.cfg, clock: s.clock, tenure: s.tenure, outcomes: outcomes{s.pending}, counters: s.counters, table: s.table, creators: s.creators,
		deliveries: s.deliveries, subs: s.subs, tasks: &s.tasks,
	}
	s.deliveries.subs = s.subs
	s.deliveries.steps.subs, s.deliveries.steps.notify = s.subs, s.takeovers.notify
	s.deliveries.steps.sets = s
	s.owner = &owner{
		cfg: &s.cfg, clock: s.clock, members: s.members, tenure: s.tenure, pending: s.pending, queue: queue, subs: s.subs,
		table: s.table, allocator: &allocator{store: cfg.Store, gone: map[actor.HostID]time.Time{}, closed: map[actor.Bucket]time.Time{}}, creators: s.creators,
	}
	return s, nil
}

// Start begins to deliver, in the background.
func (s *Service) Start(ctx context.Context) error {
	now, err := s.cfg.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("start reminders: %w", err)
	}
	s.pending.start(now)
	s.clock.set(now)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	s.stop = cancel
	s.mu.Unlock()
	s.tasks.run(func() { s.owner.run(run) })
	s.tasks.run(func() { s.deliveries.run(run) })
	s.tasks.run(func() { s.deliveries.steps.run(run) })
	if s.cfg.Store.Shared() {
		s.tasks.run(func() { s.tenure.watch(run) })
	}
	if s.cfg.Peers != nil {
		s.tasks.run(func() { s.takeovers.run(run) })
	}
	return nil
}

// Ready returns nil once reminders can be set.
func (s *Service) Ready() error {
	if s.clock.now().IsZero() {
		return errNotStarted()
	}
	return nil
}

// Stop ends it: no delivery begins any more, those under way and the commits of their outcomes are
// awaited until ctx ends, and the buckets are given up. It may be called twice, and before Start.
func (s *Service) Stop(ctx context.Context) error {
	s.pending.stop()
	s.subs.stop()
	s.tasks.refuse()
	s.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop == nil {
		return nil
	}
	queue := s.deliveries.queue
	queue.close()
	idle := make(chan struct{})
	go func() {
		queue.wait()
		s.subs.awaitExecutions()
		s.deliveries.steps.wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	queue.cancel()
	s.subs.end()
	<-idle
	stop()
	s.tasks.wg.Wait()
	return s.giveUp(context.WithoutCancel(ctx))
}

// giveUp frees the buckets of this process, closes those that it created from, and leaves.
// This process keeps a bucket while subscribers of a lost owner may still execute its
// reminders: then this process counts as lost, and the next owner of the bucket waits for
// those subscribers.
func (s *Service) giveUp(ctx context.Context) error {
	var rows []actor.BucketRow
	for _, b := range s.pending.leaveAll() {
		if !b.lasts() {
			rows = append(rows, b.row)
		}
	}
	var errs []error
	for b := range s.creators.current().used() {
		errs = append(errs, s.cfg.Store.CloseBucket(ctx, b))
	}
	for _, r := range rows {
		_, _, err := s.cfg.Store.AssignBucket(ctx, r.Bucket, r.Epoch, "")
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.members.Leave(ctx))...)
}

// Prepare returns the reminder that a spec asks for, with a token of this process: what a
// commit sets. It waits for the store only if the app has no bucket here yet. Errors are
// [*actor.ArgumentError] and those of the store.
//
// A message whose spec has no name gets one if it has no order: it is delayed, or from outside.
// Whoever commits another one names it ([actor.MessageName]).
func (s *Service) Prepare(ctx context.Context, spec actor.ReminderSpec) (actor.Reminder, error) {
	now := s.clock.now()
	if now.IsZero() {
		return actor.Reminder{}, errNotStarted()
	}
	r, err := s.planner.check(spec, now)
	if err != nil {
		return actor.Reminder{}, err
	}
	id, err := s.creators.token(ctx, spec.Key.App)
	if err != nil {
		return actor.Reminder{}, err
	}
	identify(&r, id, now)
	nameMessage(&r, isDelayed(&spec))
	return r, nil
}

// Inbox counts the messages to an actor and the bytes of their payloads, up to
// [actor.MaxInboxMessages] messages. It asks the store.
func (s *Service) Inbox(ctx context.Context, key actor.Key) (messages int, bytes int64, err error) {
	size, err := s.cfg.Store.Inbox(ctx, key, actor.MaxInboxMessages)
	if err != nil {
		return 0, 0, fmt.Errorf("count the messages to an actor: %w", err)
	}
	return size.Messages, size.Bytes, nil
}

// Unused gives back the tokens of an app's reminders that were prepared, in their order, and that
// no commit sets or may have set: turns that set reminders and fail use none up.
func (s *Service) Unused(app string, tokens []actor.ReminderID) {
	s.creators.current().giveBack(app, tokens)
}

// Committed notes the reminders of a commit that was applied, so that those that are due soon need
// not wait for the next poll of the store.
func (s *Service) Committed(e *actor.ReminderEffects) {
	if len(e.Set) == 0 && len(e.Steps) == 0 {
		return
	}
	if set := s.cfg.Events.Set; set != nil && len(e.Set) > 0 {
		set(e.Set[0].Key.App, len(e.Set)) // a commit is of one app
	}
	s.pending.committed(e)
}

// Published has the cursors read that wait for events of an actor: some were committed here. It does
// not block.
func (s *Service) Published(publisher actor.Key) { outcomes{s.pending}.published(publisher) }

// Accepted has messages delivered at once that were refused with [actor.ErrNotAcceptedYet], here or by
// the owner of their bucket: their receiver, whose turn was committed here, has chosen another set of
// methods, or its life has ended. It does not block.
func (s *Service) Accepted(ids []actor.ReminderID) {
	heads := make([]store.ReminderHead, len(ids))
	for i, id := range ids {
		heads[i] = store.ReminderHead{ID: id, FireAt: s.clock.now()}
	}
	s.pending.noticed(heads)
	s.takeovers.notify(heads)
}

// Stats returns what was done so far.
func (s *Service) Stats() Stats {
	st := s.counters.read()
	st.InMemory, st.WaitingForSubscribers, st.Buckets = s.pending.counts()
	st.Running, st.Waiting = s.deliveries.queue.counts()
	return st
}

// Subscribe makes a subscriber of an app's subscriptions, which is asked for at most limit
// executions at a time; 0: [DefaultExecutions]. It must be closed. Errors are
// [*actor.ArgumentError] and [actor.ErrStopping].
func (s *Service) Subscribe(app string, names []string, limit int) (*Subscriber, error) {
	return s.subs.subscribe(app, names, limit)
}

// Release gives reminders that wait here, and that nobody here can execute, to another
// instance: it stops delivering them, and returns their IDs. It waits until there are some.
// After [releasedFor] those that are still there are delivered again.
func (s *Service) Release(ctx context.Context, r ReleaseRequest) ([]actor.ReminderID, error) {
	return s.subs.releaseTo(ctx, r)
}

// Notice takes reminders into memory that were changed at another instance and are due soon, if
// this one owns their buckets: without a notice, the next sweep finds them.
func (s *Service) Notice(heads []store.ReminderHead) { s.pending.noticed(heads) }

// Table returns the buckets of an app as they were when the store was read last, within
// some 2 s, and a channel that is closed when one of them gets another owner, is closed,
// or comes or goes.
func (s *Service) Table(app string) (rows []actor.BucketRow, changed <-chan struct{}) {
	return s.table.of(app)
}

package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi/schedule"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Peers reaches the other instances.
type Peers interface {
	// Release is [Service.Release] of another instance.
	Release(ctx context.Context, host actor.HostID, r ReleaseRequest) ([]actor.ReminderID, error)
	// Notice is [Service.Notice] of another instance. There are at most [MaxRelease] heads.
	Notice(ctx context.Context, host actor.HostID, heads []store.ReminderHead) error
}

// ReleaseRequest asks an instance for reminders that wait for subscribers.
type ReleaseRequest struct {
	// Subscriptions are those that the asking instance has subscribers of, at most
	// [MaxReleaseSubscriptions].
	Subscriptions []actor.Key
	// Limit is how many it takes, 1 to [MaxRelease].
	Limit int
	// Wait is how long it waits for the first, at most [MaxReleaseWait].
	Wait time.Duration
}

// Bounds of a [ReleaseRequest].
const (
	MaxReleaseSubscriptions = 256
	MaxRelease              = loadGroup
	MaxReleaseWait          = 10 * time.Second
)

const (
	releaseWait = 2 * time.Second
	// releasedFor is how long who released a reminder leaves it alone: enough for the
	// other one's commit.
	releasedFor = 10 * time.Second
)

// Release gives reminders that wait here, and that nobody here can execute, to another
// instance: it stops delivering them, and returns their IDs. It waits until there are some.
// After [releasedFor] those that are still there are delivered again.
func (s *Service) Release(ctx context.Context, r ReleaseRequest) ([]actor.ReminderID, error) {
	bad := func(problem string, args ...any) error {
		return &actor.ArgumentError{Field: "release of reminders", Problem: fmt.Sprintf(problem, args...)}
	}
	switch {
	case len(r.Subscriptions) > MaxReleaseSubscriptions:
		return nil, bad("has %d subscriptions; at most %d are allowed", len(r.Subscriptions), MaxReleaseSubscriptions)
	case r.Limit < 1 || r.Limit > MaxRelease:
		return nil, bad("has the limit %d; give 1 to %d", r.Limit, MaxRelease)
	case r.Wait < 0 || r.Wait > MaxReleaseWait:
		return nil, bad("waits for %v; give 0 to %v", r.Wait, MaxReleaseWait)
	}
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		ids, changed, stopping := s.release(r), s.subs.changed, s.stopping
		s.mu.Unlock()
		if len(ids) > 0 || stopping {
			return ids, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, nil
		case <-s.queue.ctx.Done():
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// release takes what waits off the memory; s.mu is held.
func (s *Service) release(r ReleaseRequest) []actor.ReminderID {
	if s.wheel == nil || s.stopping {
		return nil
	}
	now := s.clock.now()
	var ids []actor.ReminderID
	for _, key := range r.Subscriptions {
		sub := s.subs.byKey[key]
		if sub == nil && !s.subs.overflowed {
			continue
		}
		sub = s.subs.of(key)
		sub.asked = now
		if sub.capacity() > 0 || sub.full {
			continue // it is about to be executed here
		}
		for _, w := range s.pop(sub, r.Limit-len(ids)) {
			s.wheel.Insert(w.id, now.Add(releasedFor))
			s.retried[w.id] = struct{}{}
			ids = append(ids, w.id)
		}
		s.subs.tidy(sub, now)
	}
	return ids
}

// Notice takes reminders into memory that were changed at another instance and are due soon, if
// this one owns their buckets: it would find them at its next look at what is due.
func (s *Service) Notice(heads []store.ReminderHead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range heads {
		if _, under := s.running[h.ID]; !under && s.wheel != nil {
			s.note(h.ID, h.FireAt)
		}
	}
}

// tell has the owners of reminders that were changed here take notice, in the background, of
// those that are due soon. Who does not hear of it finds them at its next look at what is due.
func (s *Service) tell(changed []store.ReminderHead) {
	if s.cfg.Peers == nil {
		return
	}
	soon := s.clock.now().Add(s.cfg.Window)
	heads := map[actor.HostID][]store.ReminderHead{}
	s.mu.Lock()
	for _, h := range changed {
		at := slices.IndexFunc(s.table.rows, func(r actor.BucketRow) bool { return r.Bucket == h.ID.Bucket() })
		if at < 0 || !h.FireAt.Before(soon) {
			continue
		}
		if owner := s.table.rows[at].Owner; owner != "" && owner != s.self {
			heads[owner] = append(heads[owner], h)
		}
	}
	s.mu.Unlock()
	for owner, list := range heads {
		s.background(func() {
			for part := range slices.Chunk(list, MaxRelease) {
				if err := s.cfg.Peers.Notice(s.queue.ctx, owner, part); err != nil {
					s.cfg.Logger.Debug("the owner of reminders was not told of their change", "owner", owner, "error", err)
				}
			}
		})
	}
}

// takeOvers keeps asking every other instance for what waits there for subscribers that
// are here.
func (s *Service) takeOvers(ctx context.Context) {
	asked := map[actor.HostID]context.CancelFunc{}
	for {
		s.mu.Lock()
		live, self := s.live, s.self
		s.mu.Unlock()
		for host, cancel := range asked {
			if !slices.Contains(live, host) {
				cancel()
				delete(asked, host)
			}
		}
		for _, host := range live {
			if _, already := asked[host]; already || host == self {
				continue
			}
			its, cancel := context.WithCancel(ctx)
			asked[host] = cancel
			s.wg.Go(func() { s.takeOverFrom(its, host) })
		}
		if !sleep(ctx, pollEvery) {
			for _, cancel := range asked {
				cancel()
			}
			return
		}
	}
}

func (s *Service) takeOverFrom(ctx context.Context, host actor.HostID) {
	failing := false // which is said once
	for ctx.Err() == nil {
		s.mu.Lock()
		keys, limit := s.capacity()
		changed := s.subs.changed
		s.mu.Unlock()
		if limit == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		asked := time.Now()
		ids, err := s.cfg.Peers.Release(ctx, host, ReleaseRequest{keys, limit, releaseWait})
		if err == nil && len(ids) > 0 {
			err = s.takeOver(ctx, keys, ids)
		} else if err == nil { // an instance that stops has nothing to release, and answers at once
			sleep(ctx, releaseWait-time.Since(asked))
		}
		failed := err != nil
		if failed {
			if ctx.Err() == nil && !failing {
				s.cfg.Logger.Warn("reminders that subscribers here wait for were not taken over", "from", host, "error", err)
			}
			sleep(ctx, pollEvery)
		}
		failing = failed
	}
}

// capacity returns the subscriptions that have subscribers with capacity here, and how many
// executions these take; s.mu is held.
func (s *Service) capacity() (keys []actor.Key, n int) {
	if s.stopping {
		return nil, 0
	}
	for key, sub := range s.subs.byKey {
		if free := sub.capacity() - len(sub.waiting); free > 0 && len(keys) < MaxReleaseSubscriptions {
			keys, n = append(keys, key), n+free
		}
	}
	return keys, min(n, MaxRelease)
}

// takeOver gives reminders that another instance has released tokens of this one's bucket,
// each in a commit that rests on its ID and version.
func (s *Service) takeOver(ctx context.Context, keys []actor.Key, ids []actor.ReminderID) error {
	rows, err := s.cfg.Store.LoadReminders(ctx, ids)
	var damaged *store.DamagedReminders
	if err != nil && !errors.As(err, &damaged) { // which their owner tells of
		return err
	}
	now := s.clock.now()
	var commits []actor.Commit
	var of []*actor.Reminder // those that are borrowed; nil: it is moved
	for i := range rows {
		r := &rows[i]
		if r.Version == 0 || r.Paused || r.FireAt.After(now) || !slices.Contains(keys, r.Key) {
			continue
		}
		id, err := s.token(ctx, r.Key.App)
		if err != nil {
			s.doneAll(of)
			return err
		}
		if s.owns(id.Bucket()) {
			commits, of = append(commits, moved(r, id, s.deliveredTill(id.Bucket()))), append(of, nil)
		} else if s.borrow(r.ID) {
			commits, of = append(commits, putOff(r, now.Add(s.cfg.ExecutionTimeout+releasedFor))), append(of, r)
		}
	}
	if len(commits) == 0 {
		return nil
	}
	for i, err := range s.cfg.Store.Commit(ctx, commits) {
		borrowed := of[i]
		if borrowed != nil && err != nil {
			s.done(borrowed.ID)
		}
		switch {
		case err == nil && borrowed != nil:
			borrowed.Version, borrowed.FireAt = borrowed.Version+1, now
			s.consider(ctx, borrowed.ID, borrowed)
		case err == nil:
			r := &commits[i].Reminders.Set[0]
			s.mu.Lock()
			s.stats.TakenOver++
			s.note(r.ID, r.FireAt)
			s.mu.Unlock()
		case errors.Is(err, actor.ErrFiringTaken), errors.Is(err, actor.ErrKeyExists): // it fired, or was changed, meanwhile
		default:
			s.cfg.Logger.Warn("a reminder was not taken over", "reminder", commits[i].Reminders.Steps[0].ID.String(), "error", err)
		}
	}
	return nil
}

// moved is the commit that gives a reminder another ID, of a bucket that is delivered till a
// time.
func moved(r *actor.Reminder, id actor.ReminderID, till time.Time) actor.Commit {
	c := actor.CommitOf()
	c.Reminders.Steps = []actor.ReminderStep{{ReminderName: nameOf(r), ID: r.ID, Version: r.Version}}
	then := *r
	then.ID, then.Version, then.Keep = id, 1, false
	if then.FireAt.Before(till) { // it may have waited for days, and the next owner looks from there on
		then.FireAt = schedule.Ceil(till)
	}
	c.Reminders.Set = []actor.Reminder{then}
	if r.Schedule.Recurring() {
		c.Records = []actor.IdempotencyRecord{movedRecord(r.Key.App, r.ID, id)}
	}
	return c
}

// deliveredTill returns till when a bucket of this instance is delivered.
func (s *Service) deliveredTill(b actor.Bucket) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owned := s.owned[b]; owned != nil {
		return owned.deliveredTill
	}
	return time.Time{}
}

func (s *Service) owns(b actor.Bucket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[b] != nil
}

// borrow begins to execute a reminder once that another instance owns, and goes on owning; false
// if it is under way here.
func (s *Service) borrow(id actor.ReminderID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, under := s.running[id]; under {
		return false
	}
	s.running[id] = true
	s.under[id.Bucket()]++
	return true
}

// borrows reports whether a reminder that is under way here was borrowed.
func (s *Service) borrows(id actor.ReminderID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// doneAll calls done for each reminder that is not nil.
func (s *Service) doneAll(reminders []*actor.Reminder) {
	for _, r := range reminders {
		if r != nil {
			s.done(r.ID)
		}
	}
}

// putOff is the commit that has a reminder delivered at a time. One that is borrowed is put off
// until the time for its execution is out: whoever owns its bucket leaves it alone until then.
func putOff(r *actor.Reminder, until time.Time) actor.Commit {
	c := actor.CommitOf()
	c.Reminders.Steps = []actor.ReminderStep{put(r, until)}
	return c
}

func put(r *actor.Reminder, at time.Time) actor.ReminderStep {
	then := r.ReminderProgress
	then.FireAt = schedule.Ceil(at)
	return actor.ReminderStep{ReminderName: nameOf(r), ID: r.ID, Version: r.Version, Then: &then}
}

// giveBack has a reminder that was borrowed, and not executed, delivered by the owner of its
// bucket after a while.
func (s *Service) giveBack(r *actor.Reminder, after time.Duration) {
	s.commitAlone(s.queue.ctx, step{id: r.ID, step: put(r, s.clock.now().Add(after))})
}

// bucketTable has the owner of each bucket, as of the last look.
type bucketTable struct {
	rows    []actor.BucketRow
	read    time.Time     // by the local clock
	changed chan struct{} // closed, and made anew, with a change
}

func newBucketTable() bucketTable { return bucketTable{changed: make(chan struct{})} }

// publish notes the rows and the instances that there are.
func (s *Service) publish(rows []actor.BucketRow, live []actor.HostID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = live
	same := slices.EqualFunc(s.table.rows, rows, func(a, b actor.BucketRow) bool {
		return a.Bucket == b.Bucket && a.Epoch == b.Epoch && a.Closed == b.Closed
	})
	s.table.rows, s.table.read = slices.Clone(rows), time.Now()
	if !same {
		close(s.table.changed)
		s.table.changed = make(chan struct{})
	}
}

// Table returns the buckets of an app as they were when the store was read last, within
// some 2 s, and a channel that is closed when one of them gets another owner, is closed,
// or comes or goes.
func (s *Service) Table(app string) (rows []actor.BucketRow, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.table.rows {
		if r.App == app {
			rows = append(rows, r)
		}
	}
	return rows, s.table.changed
}

package reminder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// simProcess is one life of a process: a Service, and a host that runs turns.
type simProcess struct {
	w       *simulation
	n       int
	name    string
	service *Service
	admin   *Admin

	mu     sync.Mutex
	ended  bool          // crashed, or left
	frozen chan struct{} // closed when it goes on; nil: it does not stand still
	cut    bool          // off from the database
	// lag is by how much database time went back since this process has read it.
	lag    time.Duration
	lagged time.Time
}

var errProcessGone = errors.New("the process is gone")

// pass waits while the process stands still, and fails once it is gone.
func (p *simProcess) pass() error {
	for {
		p.mu.Lock()
		frozen, ended := p.frozen, p.ended
		p.mu.Unlock()
		switch {
		case ended:
			return errProcessGone
		case frozen == nil:
			return nil
		}
		<-frozen
	}
}

func (p *simProcess) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// simStore is the database as a process sees it: slow, out of reach, and with answers that
// are lost.
type simStore struct{ p *simProcess }

func (s *simStore) db() *memory { return s.p.w.db }

// call does something at the database. rate is how often it fails, and lost says whether
// it may be done and the answer lost.
func (s *simStore) call(ctx context.Context, op string, lost bool, do func() error) error {
	p, w := s.p, s.p.w
	if err := p.pass(); err != nil {
		return err
	}
	w.pause(ctx, w.noise.delay())
	if w.faulty(0.005) {
		w.happened("slow " + op)
		w.pause(ctx, w.noise.below(20*time.Second))
	}
	if err := p.pass(); err != nil {
		return err
	}
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	switch {
	case cut || w.down():
		w.happened("database out of reach")
		return actor.ErrUnavailable
	case w.faulty(0.02):
		w.happened(op + " fails")
		return actor.ErrUnavailable
	}
	if err := do(); err != nil {
		return err
	}
	w.pause(ctx, w.noise.delay())
	if err := p.pass(); err != nil {
		return err
	}
	if lost && w.faulty(0.02) {
		w.happened("answer to " + op + " lost")
		return actor.ErrUnavailable
	}
	return nil
}

// commit applies a commit, may be late or without a word.
func (s *simStore) commit(ctx context.Context, c *actor.Commit) error {
	p, w := s.p, s.p.w
	if err := p.pass(); err != nil {
		return err
	}
	w.pause(ctx, w.noise.delay())
	p.mu.Lock()
	cut := p.cut
	p.mu.Unlock()
	switch {
	case cut || w.down():
		w.happened("database out of reach")
		return actor.ErrUnavailable
	case w.faulty(0.02):
		w.happened("commit fails")
		return actor.ErrUnavailable
	case w.faulty(0.01):
		w.happened("commit lost")
		return actor.ErrAmbiguous
	case w.faulty(0.01):
		w.running.Go(func() { // whatever becomes of its process
			w.pause(context.Background(), w.noise.below(8*time.Second))
			if s.db().apply(c) == nil {
				w.happened("commit applied late")
			} else {
				w.happened("late commit refused")
			}
		})
		return actor.ErrAmbiguous
	}
	if err := s.db().apply(c); err != nil {
		return err
	}
	w.pause(ctx, w.noise.delay())
	if err := p.pass(); err != nil {
		return actor.ErrAmbiguous
	}
	if w.faulty(0.02) {
		w.happened("answer to commit lost")
		return actor.ErrAmbiguous
	}
	return nil
}

func (s *simStore) Commit(ctx context.Context, commits []actor.Commit) []error {
	errs := make([]error, len(commits))
	for i := range commits {
		if s.p.w.sabotage.lossy {
			withoutFollowers(&commits[i])
		}
		errs[i] = s.commit(ctx, &commits[i])
	}
	return errs
}

func (s *simStore) Shared() bool { return s.db().shared }

func (s *simStore) Now(ctx context.Context) (now time.Time, err error) {
	err = s.call(ctx, "now", false, func() error {
		now, err = s.db().Now(ctx)
		s.p.mu.Lock()
		if time.Since(s.p.lagged) > time.Minute { // what was planned by then has begun, or is planned anew
			s.p.lag = 0
		}
		s.p.mu.Unlock()
		return err
	})
	return now.Add(s.p.w.sabotage.early), err
}

func (s *simStore) AllocateBucket(ctx context.Context, app string, creator actor.HostID, fresh actor.Vector) (row actor.BucketRow, err error) {
	err = s.call(ctx, "allocate", true, func() error {
		row, err = s.db().AllocateBucket(ctx, app, creator, fresh)
		return err
	})
	if s.p.w.sabotage.sameBucket && err == nil {
		row.Bucket.Index = 0
	}
	return row, err
}

func (s *simStore) AssignBucket(ctx context.Context, b actor.Bucket, epoch uint64, owner actor.HostID) (row actor.BucketRow, done bool, err error) {
	err = s.call(ctx, "assign", true, func() error {
		row, done, err = s.db().AssignBucket(ctx, b, epoch, owner)
		return err
	})
	if done && err == nil && owner != "" {
		s.p.w.total.add("bucket assigned", 1)
	}
	s.p.w.assigned.Store(int64(time.Since(s.p.w.begun)))
	s.p.w.judge.note("%s assigns %v of epoch %d to %q: %t, %v", s.p.name, b, epoch, owner, done, err)
	return row, done && err == nil, err
}

func (s *simStore) CloseBucket(ctx context.Context, b actor.Bucket) error {
	return s.call(ctx, "close", true, func() error { return s.db().CloseBucket(ctx, b) })
}

func (s *simStore) SaveBuckets(ctx context.Context, progress []store.BucketProgress) error {
	if s.p.w.faulty(0.3) { // few fire here: that some do much is only said
		progress = slices.Clone(progress)
		for i := range progress {
			progress[i].Rate = uint32(s.p.w.noise.int(4)) * hotRate
		}
		s.p.w.happened("hot bucket")
	}
	return s.call(ctx, "save", true, func() error { return s.db().SaveBuckets(ctx, progress) })
}

func (s *simStore) RemoveBucket(ctx context.Context, b actor.Bucket, closedBefore time.Time) (gone bool, err error) {
	err = s.call(ctx, "remove", true, func() error {
		gone, err = s.db().RemoveBucket(ctx, b, closedBefore)
		return err
	})
	if gone && err == nil {
		s.p.w.happened("bucket removed")
	}
	return gone && err == nil, err
}

func (s *simStore) Buckets(ctx context.Context, after actor.Bucket, limit int) (rows []actor.BucketRow, err error) {
	err = s.call(ctx, "buckets", false, func() error {
		rows, err = s.db().Buckets(ctx, after, limit)
		return err
	})
	return rows, err
}

func (s *simStore) DueReminders(ctx context.Context, q store.DueQuery) (heads []store.ReminderHead, err error) {
	if s.p.w.sabotage.blind && !q.AfterTime.IsZero() {
		return nil, nil
	}
	err = s.call(ctx, "due", false, func() error {
		heads, err = s.db().DueReminders(ctx, q)
		return err
	})
	return heads, err
}

func (s *simStore) RecentReminders(ctx context.Context, b actor.Bucket, ranges []store.TokenRange, limit int) (heads []store.ReminderHead, err error) {
	if s.p.w.sabotage.blind {
		return nil, nil
	}
	err = s.call(ctx, "recent", false, func() error {
		heads, err = s.db().RecentReminders(ctx, b, ranges, limit)
		return err
	})
	return heads, err
}

func (s *simStore) LoadReminders(ctx context.Context, ids []actor.ReminderID) (rows []actor.Reminder, err error) {
	err = s.call(ctx, "load", false, func() error {
		rows, err = s.db().LoadReminders(ctx, ids)
		return err
	})
	return rows, err
}

func (s *simStore) FindReminders(ctx context.Context, names []actor.ReminderName) (rows []actor.Reminder, err error) {
	err = s.call(ctx, "find", false, func() error {
		rows, err = (&adminStore{memory: s.db()}).FindReminders(ctx, names)
		return err
	})
	return rows, err
}

func (s *simStore) ListReminders(context.Context, store.ReminderQuery) ([]actor.Reminder, actor.ReminderName, error) {
	panic("not in this simulation")
}

func (s *simStore) Inbox(context.Context, actor.Key, int) (store.InboxSize, error) {
	panic("not in this simulation")
}

func (s *simStore) ListMessages(context.Context, store.MessageQuery) ([]actor.Reminder, string, error) {
	panic("not in this simulation")
}

func (s *simStore) ListDeadLetters(context.Context, store.DeadLetterQuery) ([]actor.DeadLetter, error) {
	panic("not in this simulation")
}

func (s *simStore) RemoveDeadLetter(context.Context, actor.ReminderID, time.Time) (bool, error) {
	panic("not in this simulation")
}

func (s *simStore) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (row actor.Host, err error) {
	err = s.call(ctx, "register", true, func() error {
		row, err = s.db().RegisterHost(ctx, h, length)
		return err
	})
	return row, err
}

func (s *simStore) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (now time.Time, err error) {
	err = s.call(ctx, "renew", true, func() error {
		now, err = s.db().RenewHost(ctx, id, length, sticky)
		return err
	})
	return now, err
}

func (s *simStore) RemoveHost(ctx context.Context, id actor.HostID) error {
	return s.call(ctx, "leave", true, func() error { return s.db().RemoveHost(ctx, id) })
}

func (s *simStore) ClearHost(ctx context.Context, id actor.HostID, lease string, epoch uint64) (gone bool, err error) {
	err = s.call(ctx, "clear", true, func() error {
		gone, err = s.db().ClearHost(ctx, id, lease, epoch)
		return err
	})
	if gone && err == nil {
		s.p.w.happened("taken for gone")
	}
	return gone, err
}

func (s *simStore) Hosts(ctx context.Context) (hosts []actor.Host, now time.Time, err error) {
	err = s.call(ctx, "hosts", false, func() error {
		hosts, now, err = s.db().Hosts(ctx)
		return err
	})
	return hosts, now, err
}

func (s *simStore) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (l actor.Lease, ok bool, err error) {
	err = s.call(ctx, "lead", true, func() error {
		l, ok, err = s.db().AcquireLease(ctx, name, holder, length)
		return err
	})
	if ok && err == nil {
		s.p.w.happened("leader elected")
	}
	return l, ok, err
}

func (s *simStore) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (ok bool, err error) {
	err = s.call(ctx, "lead on", true, func() error {
		ok, err = s.db().RenewLease(ctx, l, length)
		return err
	})
	return ok, err
}

func (s *simStore) ReleaseLease(ctx context.Context, l actor.Lease) error {
	return s.call(ctx, "resign", true, func() error { return s.db().ReleaseLease(ctx, l) })
}

func (s *simStore) LoadIdempotency(context.Context, []actor.KeyedCall) ([]actor.Recorded, error) {
	panic("not in this simulation")
}

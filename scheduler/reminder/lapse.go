package reminder

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// mayDeliverEvery is how often a process asks whether it may still deliver, or may again.
const mayDeliverEvery = 250 * time.Millisecond

// ownerTimeout is how long an owner is gone when its buckets go to others. Its own count of
// its lease ended before the lease did, and within mayDeliverEvery from then on it has ended
// its deliveries: this is for turns to stop. The leader counts from one look to another, so
// that it takes one look at least.
const ownerTimeout = time.Second

// mayDeliver reports whether what this process takes for its buckets is: it has not been
// taken for gone since it read whose they are.
func (s *Service) mayDeliver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.elsewhere()
}

// elsewhere reports whether the buckets that this process has read may be others' by now,
// and ends its deliveries if so; s.mu is held.
func (s *Service) elsewhere() bool {
	if s.members.Self() != s.self || !s.members.Current() {
		s.lapse()
	}
	return s.lapsed
}

// watchLease ends what is under way soon after this process may be taken for gone. A process
// that stood still may have had its lease renewed before this is asked again.
func (s *Service) watchLease(ctx context.Context) {
	for {
		began := time.Now()
		if !sleep(ctx, mayDeliverEvery) {
			return
		}
		s.mu.Lock()
		s.elsewhere()
		if time.Since(began) > ownerTimeout {
			s.lapse()
		}
		s.mu.Unlock()
	}
}

// lapse ends all deliveries, until it is known anew whose the buckets are; s.mu is held. It is
// called again as long as the reason lasts: a look that had begun before does not settle it.
func (s *Service) lapse() {
	s.lapsed = true
	s.lapses++
	s.queue.lapse()
}

// reclaim gives this process's buckets new epochs, after it may have been taken for gone: so
// a leader that still takes it for that gives them to nobody. It returns the rows as they are
// then, without those for which somebody was quicker.
func (s *Service) reclaim(ctx context.Context, rows []actor.BucketRow, self actor.HostID) ([]actor.BucketRow, error) {
	var now []actor.BucketRow
	for _, r := range rows {
		done := true
		if r.Owner == self {
			var err error
			if r, done, err = s.cfg.Store.AssignBucket(ctx, r.Bucket, r.Epoch, self); err != nil {
				return rows, err
			}
		}
		if done {
			now = append(now, r)
		}
	}
	return now, nil
}

// runs returns the context of deliveries that begin now.
func (d *dispatch) runs() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// lapse ends the deliveries that are under way. Later ones are not concerned.
func (d *dispatch) lapse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.interrupt()
	d.current, d.interrupt = context.WithCancel(d.ctx)
}

// freed reports whether the owner before has given up a bucket that this instance was given,
// by the rows as they were at the last look; false also if that is not known. A bucket that is
// given up has an epoch without an owner, and a lost owner's has none. s.mu is held.
func (s *Service) freed(r *actor.BucketRow) bool {
	if r.Epoch <= 2 {
		return true // it had none
	}
	for i := range s.table.rows {
		if was := &s.table.rows[i]; was.Bucket == r.Bucket {
			return time.Since(s.table.read) <= 2*pollEvery && (was.Owner == "" || was.Owner == s.self || r.Epoch >= was.Epoch+2)
		}
	}
	return false
}

// inherited notes that the owner before was lost at a database time, or earlier. What it had
// its subscribers do they may go on with until the time for that is out; its deliveries to
// actors have ended with its lease.
func (b *ownedBucket) inherited(now time.Time, timeout time.Duration) {
	b.dueBy, b.held = now, time.Now().Add(timeout)
}

// holds reports whether subscribers of a lost owner may still be at what they were given.
func (b *ownedBucket) holds() bool { return time.Now().Before(b.held) }

// holdsOn takes over what those may be at from the same bucket of this instance, before.
func (b *ownedBucket) holdsOn(was *ownedBucket) {
	if was.held.After(b.held) {
		b.dueBy, b.held = was.dueBy, was.held
	}
}

// inheritedFor returns for how long a reminder may still be with a subscriber of a lost owner.
func (s *Service) inheritedFor(r *actor.Reminder) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.owned[r.ID.Bucket()]
	if b == nil || r.FireAt.After(b.dueBy) {
		return 0
	}
	return time.Until(b.held)
}

package reminder

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// An index by time keeps what was deleted of it until the database collects that, and
// reading meets it: so no statement reads more of it than what came due within readAtOnce.
// What came due longer ago than uncollected is taken for collected, and read at once.
const (
	readAtOnce  = 15 * time.Minute
	uncollected = 6 * time.Hour // CockroachDB keeps what was deleted for four hours
)

// reach is how far one statement reads from a time on, to end at most.
func reach(from, end, now time.Time) time.Time {
	to := from.Add(readAtOnce)
	if old := now.Add(-uncollected); to.Before(old) {
		to = old
	}
	if to.After(end) {
		to = end
	}
	return to
}

// scan reads, with one statement, what is due from a place on and before end. It returns
// where the next statement begins: not before end once all was read.
func (o *owner) scan(ctx context.Context, b *ownedBucket, from place, end, now time.Time, limit int) ([]store.ReminderHead, place, error) {
	if !from.at.Before(end) {
		return nil, from, nil
	}
	q := store.DueQuery{Bucket: b.bucket, AfterTime: from.at, AfterToken: from.token, Before: reach(from.at, end, now), Limit: limit}
	o.pending.mu.Lock()
	b.passed = map[uint32]struct{}{} // until what is found is taken into memory
	o.pending.mu.Unlock()
	heads, err := o.cfg.Store.DueReminders(ctx, q)
	if err != nil {
		return nil, from, err
	}
	if len(heads) == limit {
		last := &heads[limit-1]
		return heads, place{last.FireAt, &last.ID.Token}, nil
	}
	return heads, place{at: q.Before}, nil
}

// sweep looks for what is due in the store and not in memory, from where the last sweep had
// found everything, and finds out before what time nothing is left to deliver.
func (o *owner) sweep(ctx context.Context, b *ownedBucket, now time.Time) error {
	local := time.Now()
	w := &b.sweeps
	o.pending.mu.Lock()
	if b.changed {
		w.idle = 0
	}
	o.pending.mu.Unlock()
	if local.Sub(w.at) < max(sweepEvery, w.idle) {
		return nil
	}
	first := w.at.IsZero()
	w.at = local
	landed := o.landedTill(now)
	o.pending.mu.Lock()
	read := b.at
	if b.deliveredTill.After(now) || w.till.After(now) { // the database's clock was set back
		b.deliveredTill, b.leftToken = time.Time{}, nil
		*w = sweeps{at: local}
	}
	o.pending.mu.Unlock()
	if first { // it has just been read
		if w.till = landed; read.Before(landed) {
			w.till = read
		}
		return nil
	}
	if idle, err := o.isIdle(ctx, b); idle || err != nil {
		return err
	}
	till := w.till // what is due from here on is looked at once
	if err := o.sweepNew(ctx, b, now, landed); err != nil {
		return err
	}
	if err := o.findLeft(ctx, b, now); err != nil {
		return err
	}
	return o.sweepAll(ctx, b, now, local, till)
}

// landedTill returns the time before which all that is due is in the store, at a database time: a
// reminder that a turn sets is due no earlier than the turn asks for it, and is committed when the turn
// ends.
func (o *owner) landedTill(now time.Time) time.Time {
	return now.Add(-startMargin - o.cfg.ExecutionTimeout)
}

// longestIdle is how long a bucket that is closed and empty is not looked at: a commit may land in
// it that was held up for longer than anybody waits, or a paused reminder of it be resumed
// elsewhere. One that was not empty is not asked for so long whether it is.
const (
	longestIdle = 4 * sweepEvery
	longestFull = 20 * sweepEvery
)

// isIdle reports whether a bucket is closed and there is no reminder in it, and so nothing to
// sweep.
func (o *owner) isIdle(ctx context.Context, b *ownedBucket) (bool, error) {
	w := &b.sweeps
	o.pending.mu.Lock()
	open := b.seen != nil
	b.changed = false
	o.pending.mu.Unlock()
	if open || !w.full.IsZero() && time.Since(w.full) < longestFull {
		return false, nil
	}
	empty, err := o.empty(ctx, b)
	if err != nil {
		w.idle = 0
		return false, err
	}
	if !empty {
		w.idle, w.full = 0, time.Now()
		return false, nil
	}
	w.idle = min(max(2*w.idle, 2*sweepEvery), longestIdle)
	return true, nil
}

// hasSpace reports whether memory has space for a page of a bucket.
func (o *owner) hasSpace(b *ownedBucket) bool {
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	return o.pending.memory.fits(b.bucket, pageSize)
}

// sweepNew looks at what has come due since the last sweep, and again at what was not
// complete then. It stops where memory has no space for what it would find.
func (o *owner) sweepNew(ctx context.Context, b *ownedBucket, now, landed time.Time) error {
	w := &b.sweeps
	begins := w.next == nil
	if begins {
		w.next, w.then = &place{at: w.till}, landed
	}
	end := now.Add(-pollEvery)
	var oldest *store.ReminderHead
	for w.next.at.Before(end) {
		if !o.hasSpace(b) {
			return nil
		}
		heads, next, err := o.scan(ctx, b, *w.next, end, now, pageSize)
		if err != nil {
			return err
		}
		o.found(b, heads)
		if oldest == nil && len(heads) > 0 {
			oldest = &heads[0]
		}
		if w.next = &next; len(heads) == pageSize {
			return nil // the next sweep goes on: what waits may be more than a page, and stay
		}
	}
	w.next = nil
	if begins && b.deliveredTill.Equal(w.till) { // nothing was left before, so the first is here
		left := place{at: w.then}
		if oldest != nil && oldest.FireAt.Before(w.then) {
			left = placeOf(oldest)
		}
		o.left(b, left)
	}
	w.till = w.then
	return nil
}

// findLeft finds the first that is left to deliver of what was found, from the one that
// was the first until now on: for as long as that one waits, it is all that is read.
func (o *owner) findLeft(ctx context.Context, b *ownedBucket, now time.Time) error {
	for at := (place{b.deliveredTill, b.leftToken}); at.at.Before(b.sweeps.till); {
		heads, next, err := o.scan(ctx, b, at, b.sweeps.till, now, 1)
		if err != nil {
			return err
		}
		if at = next; len(heads) > 0 {
			at = placeOf(&heads[0])
		}
		o.left(b, at)
		if len(heads) > 0 {
			return nil
		}
	}
	return nil
}

// left notes the first place at which something is left to deliver.
func (o *owner) left(b *ownedBucket, p place) {
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	if !p.at.Before(b.deliveredTill) {
		b.deliveredTill, b.leftToken = p.at, p.token
	}
	b.passed = nil
}

// sweepAll goes on to look at everything that is due before till, a statement at each sweep: a commit
// may have landed that was held up for longer than anybody waits, such as that of a process
// that was frozen.
func (o *owner) sweepAll(ctx context.Context, b *ownedBucket, now, local, till time.Time) error {
	w := &b.sweeps
	if !o.hasSpace(b) {
		return nil
	}
	if w.all == nil {
		if local.Sub(w.allAt) < sweepAllEvery {
			return nil
		}
		w.all, w.allAt = &place{}, local
	}
	heads, next, err := o.scan(ctx, b, *w.all, till, now, pageSize)
	if err != nil {
		return err
	}
	if w.all = &next; !next.at.Before(till) {
		w.all = nil
	}
	o.found(b, heads)
	return nil
}

// found takes what a sweep has found into memory, if it was to be there.
func (o *owner) found(b *ownedBucket, heads []store.ReminderHead) {
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	for _, h := range heads {
		// What is in the wheel as well is dropped by the second of the two to be loaded. What was
		// stepped on since it was read is where it belongs.
		if _, passed := b.passed[h.ID.Token]; !passed && h.FireAt.Before(b.at) {
			o.pending.insert(b, h)
		}
	}
	b.passed = nil
	o.pending.rouse()
}

// empty reports whether there is no reminder in a bucket.
func (o *owner) empty(ctx context.Context, b *ownedBucket) (bool, error) {
	first := b.bucket.First()
	heads, err := o.cfg.Store.RecentReminders(ctx, b.bucket, []store.TokenRange{{From: first, To: first + actor.BucketSize - 1}}, 1)
	return len(heads) == 0, err
}

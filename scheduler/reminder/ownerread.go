package reminder

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// readAllAhead reads what is due within the window and was not read yet, as long as there
// is space in memory: a page of each bucket in turn, so that none waits for another one's
// backlog.
func (o *owner) readAllAhead(ctx context.Context, now time.Time) error {
	var behind []*ownedBucket
	o.pending.mu.Lock()
	for _, b := range o.pending.owned {
		if !b.leaving && !b.at.After(now.Add(o.cfg.Window/2)) {
			behind = append(behind, b)
		}
	}
	o.pending.mu.Unlock()
	end := now.Add(o.cfg.Window)
	unread := behind[:0]
	for _, b := range behind {
		empty, err := o.skipEmpty(ctx, b, now, end)
		if err != nil {
			return err
		}
		if !empty {
			unread = append(unread, b)
		}
	}
	return inTurn(unread, func(b *ownedBucket) (more bool, err error) { return o.readPage(ctx, b, now, end) })
}

// inTurn reads a page of each bucket in turn, as long as it has more.
func inTurn(buckets []*ownedBucket, read func(*ownedBucket) (more bool, err error)) error {
	for len(buckets) > 0 {
		unread := buckets[:0]
		for _, b := range buckets {
			more, err := read(b)
			if err != nil {
				return err
			}
			if more {
				unread = append(unread, b)
			}
		}
		buckets = unread
	}
	return nil
}

// readAllLeftOut reads what is due and was left out, as long as there is space in memory.
func (o *owner) readAllLeftOut(ctx context.Context, now time.Time) error {
	var buckets []*ownedBucket
	o.pending.mu.Lock()
	for _, b := range o.pending.owned {
		if !b.leaving && !b.leftOut.isEmpty() {
			buckets = append(buckets, b)
		}
	}
	o.pending.mu.Unlock()
	return inTurn(buckets, func(b *ownedBucket) (more bool, err error) { return o.readLeftOut(ctx, b, now) })
}

// readLeftOut reads the next page of what a bucket has left out, if it is due and memory has space
// for it, and reports whether it has read one. It reads what came due at least pollEvery ago: of
// that, what is in memory has left the wheel, so it is not taken twice.
func (o *owner) readLeftOut(ctx context.Context, b *ownedBucket, now time.Time) (read bool, err error) {
	o.pending.mu.Lock()
	end := now.Add(-pollEvery)
	if b.at.Before(end) {
		end = b.at // what is due later is read ahead
	}
	out := b.leftOut
	if out.isEmpty() || !out.from.at.Before(end) || o.pending.owned[b.bucket] != b || !o.pending.memory.fits(b.bucket, pageSize) {
		o.pending.mu.Unlock()
		return false, nil
	}
	b.leftOut = leftOut{} // what is left out while it reads is added to the rest
	o.pending.mu.Unlock()
	heads, next, err := o.scan(ctx, b, out.from, end, now, pageSize)
	o.found(b, heads)
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	if next.at.After(out.last) {
		return true, err
	}
	out.from = next
	if since := b.leftOut; !since.isEmpty() {
		out.add(since.from, since.last)
	}
	b.leftOut = out
	return true, err
}

// skipEmpty takes a bucket for read until end, with one statement in place of one for each part of
// what was not read, and reports whether there is no reminder in it.
func (o *owner) skipEmpty(ctx context.Context, b *ownedBucket, now, end time.Time) (empty bool, err error) {
	o.pending.mu.Lock()
	known := b.sweeps.idle > 0 && !b.changed
	empty = known
	if !known && !reach(b.at, end, now).Before(end) || o.pending.owned[b.bucket] != b {
		o.pending.mu.Unlock()
		return false, nil // it is one statement
	}
	b.reading, b.readTo = true, end
	b.forgetNoted()
	o.pending.mu.Unlock()
	if !known {
		empty, err = o.empty(ctx, b)
	}
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	b.reading = false
	if !empty || err != nil {
		return false, err
	}
	b.at, b.afterToken = end, nil
	if landed := o.landedTill(now); !known && landed.After(b.deliveredTill) {
		b.deliveredTill, b.leftToken = landed, nil
	}
	return true, nil
}

// readPage reads the next page of a bucket, if memory has space for it, and reports whether there
// are others to be read now.
func (o *owner) readPage(ctx context.Context, b *ownedBucket, now, end time.Time) (more bool, err error) {
	o.pending.mu.Lock()
	if !o.pending.memory.fits(b.bucket, pageSize) || o.pending.owned[b.bucket] != b {
		o.pending.mu.Unlock()
		return false, nil
	}
	b.reading, b.readTo = true, reach(b.at, end, now)
	b.forgetNoted()
	q := store.DueQuery{Bucket: b.bucket, AfterTime: b.at, AfterToken: b.afterToken, Before: b.readTo, Limit: pageSize}
	o.pending.mu.Unlock()
	page, err := o.cfg.Store.DueReminders(ctx, q)
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	b.reading = false
	if err != nil {
		return false, err
	}
	for _, h := range page {
		if _, noted := b.noted[h.ID.Token]; !noted {
			o.pending.insert(b, h)
		}
	}
	full := len(page) == pageSize
	if full {
		last := page[pageSize-1]
		b.at, b.afterToken = last.FireAt, &last.ID.Token
	} else {
		b.at, b.afterToken = q.Before, nil
	}
	o.pending.rouse()
	return full || !q.Before.Equal(end), nil
}

// maxRanges bounds what is asked for at once of tokens that were not seen.
const maxRanges = 256

// readRecent looks for reminders of tokens that were handed out within the last minute
// and that there was no notice of, and of those above.
func (o *owner) readRecent(ctx context.Context, b *ownedBucket, now time.Time) error {
	o.pending.mu.Lock()
	if b.row.Closed && now.Sub(b.row.ClosedAt) > recentFor {
		b.seen = nil // nothing comes any more
	}
	if b.seen == nil {
		o.pending.mu.Unlock()
		return nil
	}
	high := b.high
	b.highest.note(high)
	first := b.bucket.First()
	var ranges []store.TokenRange
	for n := b.highest.first() + 1; n <= high && len(ranges) < maxRanges; n++ {
		if b.seen.has(uint32(n)) {
			continue
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].To == first+uint32(n)-1 {
			ranges[last].To++
		} else {
			ranges = append(ranges, store.TokenRange{From: first + uint32(n), To: first + uint32(n)})
		}
	}
	if high+1 < actor.BucketSize {
		ranges = append(ranges, store.TokenRange{From: first + uint32(high+1), To: first + actor.BucketSize - 1})
	}
	o.pending.mu.Unlock()
	if len(ranges) == 0 {
		return nil
	}
	heads, err := o.cfg.Store.RecentReminders(ctx, b.bucket, ranges, pageSize)
	if err != nil {
		return err
	}
	o.pending.mu.Lock()
	defer o.pending.mu.Unlock()
	for _, h := range heads {
		if !b.hasSeen(h.ID) { // there may have been notice meanwhile
			o.pending.note(h.ID, h.FireAt)
		}
	}
	return nil
}

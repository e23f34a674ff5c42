package reminder

import (
	"context"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// allocator performs what [Allocate] decides while this process leads. It is for the goroutine
// that polls the store.
type allocator struct {
	store Store
	// What was seen, and since when by the local clock.
	gone   map[actor.HostID]time.Time // owners that are not live
	closed map[actor.Bucket]time.Time
}

// follow forgets what was seen: another process leads, and what was seen says nothing about
// later.
func (l *allocator) follow() {
	clear(l.gone)
	clear(l.closed)
}

// lead performs what [Allocate] says, and returns the rows as they are then. asked is when
// it was asked who is there, by the local clock.
func (l *allocator) lead(ctx context.Context, rows []actor.BucketRow, v View, asked time.Time) ([]actor.BucketRow, error) {
	v.Gone, v.OwnerTimeout, v.Alone = l.watch(rows, v.Live, asked), ownerTimeout, !l.store.Shared()
	places := make(map[actor.Bucket]int, len(rows))
	for i := range rows {
		places[rows[i].Bucket] = i
	}
	removals, removed := 0, map[actor.Bucket]bool{}
	for _, a := range Allocate(rows, v) {
		if time.Since(asked) > pollEvery {
			return rows, nil // who was gone then may be back: see again
		}
		var err error
		switch a.Kind {
		case AssignBucket:
			var row actor.BucketRow
			var done bool
			if row, done, err = l.store.AssignBucket(ctx, a.Row.Bucket, a.Row.Epoch, a.Owner); done {
				rows[places[a.Row.Bucket]] = row
			}
		case CloseBucket:
			err = l.store.CloseBucket(ctx, a.Row.Bucket)
		case RemoveBucket:
			if time.Since(l.closed[a.Row.Bucket]) < closedFor {
				continue // the database's clock may have been set
			}
			if removals++; removals > 4 {
				continue // the others later: it is a search each
			}
			var gone bool
			if gone, err = l.store.RemoveBucket(ctx, a.Row.Bucket, v.Now.Add(-RemoveAfter)); gone {
				removed[a.Row.Bucket] = true
			}
		}
		if err != nil {
			return rows, err
		}
	}
	return slices.DeleteFunc(rows, func(r actor.BucketRow) bool { return removed[r.Bucket] }), nil
}

// closedFor is how long a leader has seen a bucket closed when it removes it.
const closedFor = 5 * time.Minute

// watch returns for how long owners that are not live have been gone at a time, and remembers
// since when buckets are closed, by the local clock: that of the database may be set.
func (l *allocator) watch(rows []actor.BucketRow, live []actor.HostID, now time.Time) map[actor.HostID]time.Duration {
	gone, closed := map[actor.HostID]time.Time{}, map[actor.Bucket]time.Time{}
	since := map[actor.HostID]time.Duration{}
	for _, r := range rows {
		if r.Closed {
			if closed[r.Bucket] = now; !l.closed[r.Bucket].IsZero() {
				closed[r.Bucket] = l.closed[r.Bucket]
			}
		}
		if slices.Contains(live, r.Owner) {
			continue
		}
		if gone[r.Owner] = now; !l.gone[r.Owner].IsZero() {
			gone[r.Owner] = l.gone[r.Owner]
		}
		since[r.Owner] = now.Sub(gone[r.Owner])
	}
	l.gone, l.closed = gone, closed
	return since
}

package reminder

import (
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// bucketTable has the owner of each bucket and the instances that there are, as of the last
// poll of the store. Its methods may be called concurrently.
type bucketTable struct {
	mu      sync.Mutex
	rows    []actor.BucketRow
	places  map[actor.Bucket]int // in rows
	live    []actor.HostID
	read    time.Time     // by the local clock
	changed chan struct{} // closed, and made anew, with a change
}

// publish notes the rows and the instances that there are.
func (t *bucketTable) publish(rows []actor.BucketRow, live []actor.HostID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = live
	same := slices.EqualFunc(t.rows, rows, func(a, b actor.BucketRow) bool {
		return a.Bucket == b.Bucket && a.Epoch == b.Epoch && a.Closed == b.Closed
	})
	t.rows, t.read = slices.Clone(rows), time.Now()
	t.places = make(map[actor.Bucket]int, len(rows))
	for i := range rows {
		t.places[rows[i].Bucket] = i
	}
	if !same {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// of returns the buckets of an app, and a channel that is closed with a change.
func (t *bucketTable) of(app string) (rows []actor.BucketRow, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		if r.App == app {
			rows = append(rows, r)
		}
	}
	return rows, t.changed
}

// row returns the row of a bucket, and when it was read by the local clock.
func (t *bucketTable) row(b actor.Bucket) (r actor.BucketRow, read time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.places[b]
	if ok {
		r = t.rows[at]
	}
	return r, t.read, ok
}

// instances returns those that there are.
func (t *bucketTable) instances() []actor.HostID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var buckets = suite{"Buckets", []testCase{
	{"an app has one prefix, and its buckets follow each other", func(f *fixture) {
		vector := f.vector()
		a, err := f.s.AllocateBucket(f.ctx(), f.app, "h1", vector)
		f.ok(err)
		b, err := f.s.AllocateBucket(f.ctx(), f.app, "h2", f.vector())
		f.ok(err)
		other, err := f.s.AllocateBucket(f.ctx(), f.app+".x", "h1", f.vector())
		f.ok(err)
		if a.Bucket.Prefix == 0 || a.Bucket.Prefix != b.Bucket.Prefix || a.Bucket.Prefix == other.Bucket.Prefix || a.Bucket.Vector != vector ||
			b.Bucket.Vector != vector || a.Bucket.Index != 0 || b.Bucket.Index != 1 {
			f.Fatalf("%v, %v, %v", a, b, other)
		}
		if a.App != f.app || a.Creator != "h1" || b.Creator != "h2" || a.Owner != "" || a.Closed || a.CreatedAt.IsZero() {
			f.Fatalf("%+v, %+v", a, b)
		}
	}},
	{"concurrent allocations give each a bucket of its own", func(f *fixture) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[actor.Bucket]bool{}
		prefixes := map[actor.Prefix]string{}
		for i := range 12 {
			wg.Go(func() {
				app := fmt.Sprint(f.app, ".", i%4)
				row, err := f.s.AllocateBucket(f.ctx(), app, "h", f.vector())
				mu.Lock()
				defer mu.Unlock()
				if err != nil || seen[row.Bucket] || prefixes[row.Bucket.Prefix] != "" && prefixes[row.Bucket.Prefix] != app {
					f.Errorf("%v of %s, %v; seen %v", row, app, err, seen)
				}
				seen[row.Bucket] = true
				prefixes[row.Bucket.Prefix] = app
			})
		}
		wg.Wait()
		if len(seen) != 12 || len(prefixes) != 4 {
			f.Errorf("%d buckets, %d prefixes", len(seen), len(prefixes))
		}
	}},
	{"a bucket has one owner for each epoch", func(f *fixture) {
		row := f.bucketRow()
		first, done, err := f.s.AssignBucket(f.ctx(), row.Bucket, row.Epoch, "s1")
		f.ok(err)
		if !done || first.Owner != "s1" || first.Epoch != row.Epoch+1 {
			f.Fatalf("%v, %t", first, done)
		}
		if _, done, err := f.s.AssignBucket(f.ctx(), row.Bucket, row.Epoch, "s2"); done || err != nil {
			f.Fatalf("assigned at an epoch that is over: %v", err)
		}
		second, done, err := f.s.AssignBucket(f.ctx(), row.Bucket, first.Epoch, "s2")
		f.ok(err)
		if got := f.bucketOf(row.Bucket); !done || got != second || got.Owner != "s2" {
			f.Fatalf("%v, want %v", got, second)
		}
		free, done, err := f.s.AssignBucket(f.ctx(), row.Bucket, second.Epoch, "")
		f.ok(err)
		if !done || free.Owner != "" {
			f.Fatalf("%v", free)
		}
		if _, done, err := f.s.AssignBucket(f.ctx(), actor.Bucket{Prefix: row.Bucket.Prefix, Vector: f.vector()}, 1, "s"); done || err != nil {
			f.Fatalf("a bucket that is not there: %t, %v", done, err)
		}
	}},
	{"what is used and delivered goes up, the latter for the owner alone", func(f *fixture) {
		row := f.bucketRow()
		at := time.Date(2030, 1, 1, 0, 0, 0, 1000, time.UTC)
		save := func(p store.BucketProgress) actor.BucketRow {
			f.Helper()
			p.Bucket = row.Bucket
			f.ok(f.s.SaveBuckets(f.ctx(), []store.BucketProgress{p, {Bucket: actor.Bucket{Prefix: 1, Vector: f.vector()}, Used: 9}}))
			return f.bucketOf(row.Bucket)
		}
		if got := save(store.BucketProgress{Used: 10}); got.Used != 10 || !got.DeliveredTill.IsZero() {
			f.Fatalf("%+v", got)
		}
		if got := save(store.BucketProgress{Used: 5, DeliveredTill: at, Epoch: row.Epoch}); got.Used != 10 || !got.DeliveredTill.Equal(at) {
			f.Fatalf("%+v", got)
		}
		if got := save(store.BucketProgress{DeliveredTill: at.Add(-time.Hour), Epoch: row.Epoch}); !got.DeliveredTill.Equal(at) {
			f.Fatalf("%+v", got)
		}
		if got := save(store.BucketProgress{DeliveredTill: at.Add(time.Hour), Epoch: row.Epoch + 1}); !got.DeliveredTill.Equal(at) {
			f.Fatalf("of another epoch: %+v", got)
		}
	}},
	{"the rate of a bucket is what its owner said last", func(f *fixture) {
		row := f.bucketRow()
		save := func(p store.BucketProgress) uint32 {
			f.Helper()
			p.Bucket = row.Bucket
			f.ok(f.s.SaveBuckets(f.ctx(), []store.BucketProgress{p}))
			return f.bucketOf(row.Bucket).Rate
		}
		if row.Rate != 0 {
			f.Fatalf("of a new bucket: %d", row.Rate)
		}
		if got := save(store.BucketProgress{Rate: 1<<32 - 1, Epoch: row.Epoch}); got != 1<<32-1 {
			f.Fatalf("the highest: %d", got)
		}
		if got := save(store.BucketProgress{Rate: 70, Epoch: row.Epoch}); got != 70 {
			f.Fatalf("lower: %d", got)
		}
		if got := save(store.BucketProgress{Used: 10}); got != 70 {
			f.Fatalf("of its creator: %d", got)
		}
		if got := save(store.BucketProgress{Rate: 5, Epoch: row.Epoch + 1}); got != 70 {
			f.Fatalf("of another epoch: %d", got)
		}
		free, done, err := f.s.AssignBucket(f.ctx(), row.Bucket, row.Epoch, "")
		f.ok(err)
		if !done || free.Rate != 70 {
			f.Fatalf("freed, it is %d: the next owner goes on from there", free.Rate)
		}
		if got := save(store.BucketProgress{Rate: 5, Epoch: row.Epoch}); got != 70 {
			f.Fatalf("of the epoch before: %d", got)
		}
		if got := save(store.BucketProgress{Epoch: free.Epoch}); got != 0 {
			f.Fatalf("at rest: %d", got)
		}
	}},
	{"a bucket goes when it was closed long enough and is empty", func(f *fixture) {
		b := f.bucket()
		later := func() time.Time { return f.now().Add(time.Hour) }
		remove := func(before time.Time) bool {
			f.Helper()
			gone, err := f.s.RemoveBucket(f.ctx(), b, before)
			f.ok(err)
			return gone
		}
		if remove(later()) {
			f.Fatal("removed while open")
		}
		r := f.place(f.reminder(b, 99_999, "a", "n"))
		f.ok(f.s.CloseBucket(f.ctx(), b))
		closed := f.bucketOf(b)
		f.ok(f.s.CloseBucket(f.ctx(), b))
		if again := f.bucketOf(b); !closed.Closed || closed.ClosedAt.IsZero() || !again.ClosedAt.Equal(closed.ClosedAt) {
			f.Fatalf("%+v, then %+v", closed, again)
		}
		if remove(later()) {
			f.Fatal("removed with a reminder")
		}
		f.ok(f.commit(stepping(actor.CommitOf(), r, nil)))
		if remove(closed.ClosedAt) {
			f.Fatal("removed before its time")
		}
		for range 2 { // the second time it is gone already
			if !remove(later()) {
				f.Fatal("not removed")
			}
		}
	}},
	{"buckets are listed in pages", func(f *fixture) {
		var want []actor.Bucket
		for range 5 {
			want = append(want, f.bucket())
		}
		after := want[0]
		var got []actor.Bucket
		for {
			page, err := f.s.Buckets(f.ctx(), after, 2)
			f.ok(err)
			for _, r := range page {
				got = append(got, r.Bucket)
				after = r.Bucket
			}
			if len(page) < 2 {
				break
			}
		}
		if !slices.Equal(got[:4], want[1:]) {
			f.Fatalf("%v, want %v", got, want[1:])
		}
	}},
}}

package storetest

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// Lap is a store in which a test can use up an app's range of tokens.
type Lap struct {
	Open func(t *testing.T) store.Store
	// Spend makes next the index of the bucket that an app is given next, as if all before
	// it had been given out. The app has a bucket.
	Spend func(t *testing.T, s store.Store, app string, next uint32)
}

// RunLap checks that a new lap begins when the 32-bit range of tokens is spent, and keeps
// apart from the one before.
func RunLap(t *testing.T, l Lap) {
	t.Helper()
	s := l.Open(t)
	f := newFixture(t, s, "lap")
	allocate := func(fresh actor.Vector, index uint32, vector actor.Vector) actor.Bucket {
		t.Helper()
		row, err := s.AllocateBucket(t.Context(), f.app, "creator", fresh)
		f.ok(err)
		if row.Bucket.Index != index || row.Bucket.Vector != vector || row.Epoch != 1 || row.Owner != "" || row.Used != 0 {
			t.Fatalf("%+v, want index %d of %s", row, index, vector)
		}
		return row.Bucket
	}
	first, second := f.vector(), f.vector()
	oldest := allocate(first, 0, first)
	another, err := s.AllocateBucket(t.Context(), "another", "creator", f.vector())
	f.ok(err)
	l.Spend(t, s, f.app, actor.BucketsOfLap-1)
	last := allocate(f.vector(), actor.BucketsOfLap-1, first)
	began := allocate(second, 0, second)
	next := allocate(f.vector(), 1, second)
	if began.Prefix != oldest.Prefix || next.Prefix != oldest.Prefix || last.Prefix != oldest.Prefix {
		t.Fatalf("the app's prefix is %s, %s, %s, %s", oldest.Prefix, last.Prefix, began.Prefix, next.Prefix)
	}
	if row, err := s.AllocateBucket(t.Context(), "another", "creator", f.vector()); err != nil || row.Bucket.Vector != another.Bucket.Vector || row.Bucket.Index != 1 {
		t.Fatalf("another app gets %+v, %v", row, err)
	}

	// The same numbers in both laps name reminders of their own.
	buckets := []actor.Bucket{oldest, last, began, next}
	var rs [4][]actor.Reminder
	for i, b := range buckets {
		id := string(rune('a' + i))
		rs[i] = []actor.Reminder{f.place(f.reminder(b, 0, id, "x")), f.place(f.reminder(b, actor.BucketSize-1, id, "y"))}
	}
	if rs[0][0].ID.Token != rs[2][0].ID.Token || rs[0][1].ID.Token != rs[2][1].ID.Token {
		t.Fatalf("%s and %s are not the same numbers", rs[0][0].ID, rs[2][0].ID)
	}
	check := func() {
		t.Helper()
		for i, b := range buckets {
			f.heads(f.due(b, f.far()), rs[i]...)
			f.heads(f.recent(b, 0, actor.BucketSize-1), rs[i]...)
			for _, r := range rs[i] {
				f.sameReminder(f.found(r.Key.ID, r.Name), r)
				f.sameReminder(f.loaded(r.ID), r)
			}
			f.bucketOf(b)
		}
	}
	check()

	// What was set in the old lap fires: on to the next time, and for the last time. A step
	// of one lap takes no firing of the other.
	of, not := rs[0][0], rs[2][0]
	wrong := of
	wrong.ID = not.ID
	f.is(f.commit(stepping(actor.CommitOf(), wrong, nil)), actor.ErrFiringTaken)
	then := of.ReminderProgress
	then.FireAt = then.FireAt.Add(time.Microsecond)
	then.Failures = 1
	f.ok(f.commit(stepping(actor.CommitOf(), of, &then)))
	rs[0][0] = f.loaded(of.ID)
	check()
	gone := rs[0][1]
	f.ok(f.commit(stepping(actor.CommitOf(), gone, nil)))
	f.gone(gone.ID)
	rs[0] = rs[0][:1]
	check()
	f.ok(f.commit(stepping(actor.CommitOf(), rs[0][0], nil)))
	rs[0] = nil

	// The old bucket is empty now, whatever there is in the range's new one.
	for i, b := range buckets[:3] {
		f.ok(s.CloseBucket(t.Context(), b))
		removed, err := s.RemoveBucket(t.Context(), b, f.now().Add(time.Hour))
		f.ok(err)
		if removed != (i == 0) {
			t.Errorf("removed %v: %t", b, removed)
		}
	}
	buckets = buckets[1:]
	copy(rs[:], rs[1:])
	check()
}

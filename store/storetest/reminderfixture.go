package storetest

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// reminderFixture tests reminders and buckets.
type reminderFixture struct{ *base }

func sameSchedule(a, b actor.Schedule) bool {
	same := a.At.Equal(b.At) && a.Until.Equal(b.Until)
	a.At, a.Until, b.At, b.Until = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return same && a == b
}

// setting adds reminders that a commit sets.
func setting(c actor.Commit, rs ...actor.Reminder) actor.Commit {
	c.Reminders.Set = append(slices.Clone(c.Reminders.Set), rs...)
	return c
}

// fencing is a commit that rests on a row and leaves it as it is.
func fencing(k actor.Key, row actor.Row) actor.Commit {
	c := actor.CommitOf()
	c.Fences = []actor.RowFence{{Key: k, Version: row.Version}}
	return c
}

// stepping adds a step to a commit.
func stepping(c actor.Commit, r actor.Reminder, then *actor.ReminderProgress) actor.Commit {
	c.Reminders.Steps = append(slices.Clone(c.Reminders.Steps), actor.ReminderStep{
		ReminderName: actor.ReminderName{Key: r.Key, Name: r.Name}, ID: r.ID, Version: r.Version, Then: then,
	})
	return c
}

// canceling adds the cancellation of reminders to a commit.
func canceling(c actor.Commit, names ...actor.ReminderName) actor.Commit {
	c.Reminders.Cancel = append(slices.Clone(c.Reminders.Cancel), names...)
	return c
}

func errorOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *reminderFixture) vector() (v actor.Vector) {
	for i := range v {
		v[i] = 'a' + byte(rand.IntN(26))
	}
	return v
}

func (f *reminderFixture) bucketRow() actor.BucketRow {
	f.Helper()
	row, err := f.s.AllocateBucket(f.ctx(), f.app, "creator", f.vector())
	f.ok(err)
	return row
}

func (f *reminderFixture) bucket() actor.Bucket {
	f.Helper()
	return f.bucketRow().Bucket
}

func (f *reminderFixture) bucketOf(b actor.Bucket) actor.BucketRow {
	f.Helper()
	after := actor.Bucket{}
	for {
		page, err := f.s.Buckets(f.ctx(), after, store.MaxList)
		f.ok(err)
		for _, r := range page {
			if r.Bucket == b {
				return r
			}
			after = r.Bucket
		}
		if len(page) < store.MaxList {
			f.Fatalf("no bucket %v", b)
		}
	}
}

// far is later than all reminders of a test, if it does not say otherwise.
func (f *reminderFixture) far() time.Time { return time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }

func (f *reminderFixture) reminder(b actor.Bucket, token uint32, id, name string) actor.Reminder {
	at := time.Date(2030, 5, 1, 12, 0, 0, 123_456_000, time.UTC).Add(time.Duration(token) * time.Second)
	return actor.Reminder{
		ID: b.Token(token),
		ReminderSpec: actor.ReminderSpec{
			Key: f.key(id), Name: name, Method: "Remind", Schedule: actor.Schedule{At: at},
		},
		ReminderProgress: actor.ReminderProgress{Due: at, FireAt: at.Add(time.Millisecond), Left: 1},
	}
}

// place writes a reminder and returns it as it is stored.
func (f *reminderFixture) place(r actor.Reminder) actor.Reminder {
	f.Helper()
	f.ok(f.commit(setting(actor.CommitOf(), r)))
	got := f.loaded(r.ID)
	f.sameReminder(got, r)
	return got
}

func (f *reminderFixture) findReminder(id, name string) actor.Reminder {
	f.Helper()
	rs, err := f.s.FindReminders(f.ctx(), []actor.ReminderName{{Key: f.key("nobody"), Name: name}, {Key: f.key(id), Name: name}})
	f.ok(err)
	if len(rs) != 2 || rs[0].Version != 0 {
		f.Fatalf("found %+v", rs)
	}
	return rs[1]
}

func (f *reminderFixture) found(id, name string) actor.Reminder {
	f.Helper()
	r := f.findReminder(id, name)
	if r.Version == 0 {
		f.Fatalf("no reminder %q of %s", name, id)
	}
	return r
}

func (f *reminderFixture) none(id, name string) {
	f.Helper()
	if r := f.findReminder(id, name); r.Version != 0 || r.Name != "" {
		f.Fatalf("reminder %q of %s is there: %+v", name, id, r)
	}
}

func (f *reminderFixture) loaded(id actor.ReminderID) actor.Reminder {
	f.Helper()
	absent := id
	absent.Vector = f.vector()
	rs, err := f.s.LoadReminders(f.ctx(), []actor.ReminderID{absent, id})
	f.ok(err)
	if len(rs) != 2 || rs[0].Version != 0 {
		f.Fatalf("loaded %+v", rs)
	}
	return rs[1]
}

func (f *reminderFixture) gone(id actor.ReminderID) {
	f.Helper()
	if r := f.loaded(id); r.Version != 0 {
		f.Fatalf("%s is there: %+v", id, r)
	}
}

func (f *reminderFixture) due(b actor.Bucket, before time.Time) []store.ReminderHead {
	f.Helper()
	heads, err := f.s.DueReminders(f.ctx(), store.DueQuery{Bucket: b, Before: before, Limit: store.MaxHeads})
	f.ok(err)
	return heads
}

func (f *reminderFixture) recent(b actor.Bucket, from, to uint32) []store.ReminderHead {
	f.Helper()
	heads, err := f.s.RecentReminders(f.ctx(), b, []store.TokenRange{{From: b.First() + from, To: b.First() + to}}, store.MaxHeads)
	f.ok(err)
	slices.SortFunc(heads, func(a, b store.ReminderHead) int { return int(a.ID.Token) - int(b.ID.Token) })
	return heads
}

// heads checks that heads are those of reminders.
func (f *reminderFixture) heads(got []store.ReminderHead, want ...actor.Reminder) {
	f.Helper()
	same := len(got) == len(want)
	for i := range want {
		same = same && got[i].ID == want[i].ID && got[i].FireAt.Equal(want[i].FireAt)
	}
	if !same {
		f.Fatalf("heads are %v, want those of %+v", got, want)
	}
}

func (f *reminderFixture) listReminders(q store.ReminderQuery) []actor.Reminder {
	f.Helper()
	q.App = f.app
	if q.Limit == 0 {
		q.Limit = 100
	}
	rs, _, err := f.s.ListReminders(f.ctx(), q)
	f.ok(err)
	return rs
}

func (f *reminderFixture) names(rs []actor.Reminder, want ...string) {
	f.Helper()
	var got []string
	for _, r := range rs {
		got = append(got, r.Key.ID+"/"+r.Name)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("listed %q, want %q", got, want)
	}
}

func (f *reminderFixture) deadLetters(q store.DeadLetterQuery) []actor.DeadLetter {
	f.Helper()
	q.App = f.app
	q.Limit = 100
	letters, err := f.s.ListDeadLetters(f.ctx(), q)
	f.ok(err)
	return letters
}

// sameReminder compares all but versions and the store's own times.
func (f *reminderFixture) sameReminder(got, want actor.Reminder) {
	f.Helper()
	a, b := got, want
	same := a.ID == b.ID && a.Key == b.Key && a.Name == b.Name && a.Method == b.Method && a.Payload.ContentType == b.Payload.ContentType &&
		bytes.Equal(a.Payload.Data, b.Payload.Data) && a.Missed == b.Missed && a.Failure == b.Failure && maps.Equal(a.Metadata, b.Metadata) &&
		sameSchedule(a.Schedule, b.Schedule) && a.Due.Equal(b.Due) && a.FireAt.Equal(b.FireAt) && a.Left == b.Left &&
		a.Failures == b.Failures && a.Paused == b.Paused && a.LastError == b.LastError && reflect.DeepEqual(a.Message, b.Message) &&
		reflect.DeepEqual(a.Cursor, b.Cursor) && a.Link == b.Link
	if !same {
		f.Fatalf("reminder is\n  %+v, want\n  %+v", got, want)
	}
}

package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// manyReminders is how many reminders an actor with very many has in a test: more than one
// page of what is examined for a list, and than one commit deletes.
var manyReminders = flag.Int("many-reminders", 6000, "how many reminders one actor of the tests has, up to 99,000")

var reminders = suite{"Reminders", []testCase{
	{"what is set is found by name, by ID, by time, by token and in a list", func(f *fixture) {
		b := f.bucket()
		want := f.reminder(b, 7, "a", "pay")
		want.Payload = actor.Payload{ContentType: "text/plain", Data: []byte("x\x00y")}
		want.Schedule.Every, want.Schedule.Times, want.Schedule.Jitter = time.Hour, 5, time.Minute
		want.Schedule.Until = want.Due.AddDate(300, 0, 0)
		want.Missed = actor.MissedPolicy{Kind: actor.MissedCatchUp, Limit: 3}
		want.Failure = actor.FailurePolicy{Kind: actor.FailureExponential, Attempts: 4, Interval: time.Second, Max: time.Minute}
		want.Metadata = map[string]string{"k": "v", "ü": "\"{"}
		want.Left, want.Failures, want.LastError = 5, 2, "card refused"
		before := f.now()
		f.ok(f.commit(setting(write(f.key("a"), actor.Row{}, `{}`), want)))
		got := f.found("a", "pay")
		f.sameReminder(got, want)
		if got.CreatedAt.Before(before) || got.UpdatedAt.Sub(got.CreatedAt).Abs() > time.Second || got.Version == 0 {
			f.Fatalf("version %d, created %v, updated %v; set after %v", got.Version, got.CreatedAt, got.UpdatedAt, before)
		}
		f.sameReminder(f.loaded(want.ID), want)
		f.heads(f.due(b, want.FireAt.Add(time.Microsecond)), want)
		f.heads(f.due(b, want.FireAt))
		f.heads(f.recent(b, 7, 7), want)
		f.heads(f.recent(b, 0, 6))
		f.names(f.listReminders(store.ReminderQuery{}), "a/pay")
	}},
	{"the link of a reminder and of a message is read as it was set, and stays when they are stepped", func(f *fixture) {
		b := f.bucket()
		for n, r := range []actor.Reminder{f.reminder(b, 1, "ann", "n"), message(f, b, 2, "bob", "ann", 7, 0)} {
			r.Link = actor.SpanLink{TraceID: [16]byte{1, byte(n)}, SpanID: [8]byte{2}}
			f.place(r)
			f.sameReminder(f.found("ann", r.Name), r)
			then := r.ReminderProgress
			then.Failures, then.LastError = 1, "it failed"
			f.ok(f.commit(stepping(actor.CommitOf(), f.loaded(r.ID), &then)))
			r.ReminderProgress = then
			f.sameReminder(f.loaded(r.ID), r)
		}
		list := f.listReminders(store.ReminderQuery{})
		if len(list) != 1 || list[0].Link == (actor.SpanLink{}) {
			f.Fatalf("listed: %+v", list)
		}
	}},
	{"a reminder is due in the bucket of its token, and in no other", func(f *fixture) {
		b := f.bucket()
		next := b
		next.Index++
		const half, end = actor.BucketSize / 2, actor.BucketSize
		var want []actor.Reminder
		for i, token := range []uint32{0, 1, half - 2, half - 1, half, half + 1, end - 2, end - 1} {
			r := f.reminder(b, token, fmt.Sprint(token), "n")
			c := setting(actor.CommitOf(), r)
			if i%2 == 1 { // a commit that does more than to set may be written another way
				c = stepping(c, f.place(f.reminder(b, 7, "gone", "n")), nil)
			}
			f.ok(f.commit(c))
			want = append(want, r)
		}
		f.heads(f.due(b, f.far()), want...)
		f.heads(f.due(next, f.far()))
	}},
	{"a commit may set and do nothing else", func(f *fixture) {
		b := f.bucket()
		r := f.reminder(b, 0, "a", "n")
		f.ok(f.commit(setting(actor.CommitOf(), r)))
		f.sameReminder(f.found("a", "n"), r)
		f.same(f.load(f.key("a")), actor.Row{})
	}},
	{"an actor with very many reminders is listed by due times and deleted in bounded steps", func(f *fixture) {
		const part = 1000
		n := uint32(*manyReminders) / part * part
		b, key := f.bucket(), f.key("many")
		other := f.place(f.reminder(b, n, "other", "stays"))
		row := f.apply(write(key, actor.Row{}, `{}`))
		for token := uint32(0); token < n; {
			c := actor.CommitOf()
			for range part {
				c.Reminders.Set = append(c.Reminders.Set, f.reminder(b, token, "many", fmt.Sprintf("%05d", token)))
				token++
			}
			f.ok(f.commit(c))
		}
		q := store.ReminderQuery{App: f.app, DueFrom: other.Due.Add(-2 * time.Second), Limit: 100}
		var list []actor.Reminder
		pages := 0
		for more := true; more; pages++ {
			page, next, err := f.s.ListReminders(f.ctx(), q)
			f.ok(err)
			list = append(list, page...)
			q.After, more = next, next.Name != ""
		}
		f.names(list, fmt.Sprintf("many/%05d", n-2), fmt.Sprintf("many/%05d", n-1), "other/stays")
		if want := int(n)/store.MaxExamined + 1; pages != want {
			f.Fatalf("a list by due times of %d reminders has %d pages, want %d", n, pages, want)
		}

		moved := f.apply(touch(key, row))
		f.is(store.ThinReminders(f.ctx(), f.s, actor.RowFence{Key: key, Version: row.Version}, false), actor.ErrStale)
		left := func() int {
			names, err := f.s.ReminderNames(f.ctx(), store.ReminderNameQuery{Key: key, Limit: store.MaxList})
			f.ok(err)
			return len(names)
		}
		f.found("many", "00000")
		for {
			err := store.ThinReminders(f.ctx(), f.s, actor.RowFence{Key: key, Version: moved.Version}, false)
			if !errors.Is(err, actor.ErrStale) {
				f.ok(err)
				break
			}
			moved = f.load(key) // a part was lost, and fenced out when it was settled
		}
		if left() >= store.MaxList {
			f.Fatal("as many as before are left to the commit that deletes")
		}
		f.place(f.reminder(b, n+1, "many", "since"))
		f.ok(f.commit(remove(key, f.load(key)))) // a part that was lost may have moved it on, and have gone again
		if n := left(); n != 0 {
			f.Fatalf("%d reminders of an actor that was deleted are left", n)
		}
		f.heads(f.due(b, f.far()), other)
		f.names(f.listReminders(store.ReminderQuery{}), "other/stays")
	}},
	{"far times, past times and years are kept", func(f *fixture) {
		b := f.bucket()
		for i, at := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC), actor.MaxReminderTime} {
			r := f.reminder(b, uint32(i), "a", fmt.Sprint(i))
			r.Due, r.FireAt, r.Schedule.At = at, at, at
			f.ok(f.commit(setting(actor.CommitOf(), r)))
			f.sameReminder(f.found("a", fmt.Sprint(i)), r)
		}
		heads := f.due(b, actor.MaxReminderTime.Add(time.Second))
		if len(heads) != 3 || heads[0].ID.Token != 0 || heads[2].ID.Token != 2 {
			f.Fatalf("in the order of time: %v", heads)
		}
	}},
	{"a refused commit sets, cancels and steps nothing", func(f *fixture) {
		b := f.bucket()
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		there := f.place(f.reminder(b, 0, "a", "there"))
		f.apply(touch(f.key("a"), row))
		stale := setting(write(f.key("a"), row, `{"n":2}`), f.reminder(b, 1, "a", "new"))
		stale.Reminders.Cancel = []actor.ReminderName{{Key: f.key("a"), Name: "there"}}
		f.refuse(stale, actor.ErrStale)
		fence := setting(fencing(f.key("a"), row), f.reminder(b, 2, "a", "new"))
		f.is(f.commit(fence), actor.ErrStale)
		step := stepping(write(f.key("a"), row, `{"n":2}`), there, nil)
		f.refuse(step, actor.ErrStale)
		f.none("a", "new")
		f.sameReminder(f.found("a", "there"), there)
		f.heads(f.due(b, f.far()), there)

		keyed := recording(setting(write(f.key("b"), actor.Row{}, `{}`), f.reminder(b, 3, "b", "n")), record("k", "x"))
		f.ok(f.commit(keyed))
		again := recording(setting(write(f.key("b"), f.load(f.key("b")), `{}`), f.reminder(b, 4, "b", "m")), record("k", "x"))
		f.refuse(again, actor.ErrKeyExists)
		f.none("b", "m")
	}},
	{"setting a name again replaces the reminder, and its ID", func(f *fixture) {
		b := f.bucket()
		old := f.place(f.reminder(b, 0, "a", "n"))
		next := f.reminder(b, 1, "a", "n")
		next.Method, next.Due, next.FireAt = "Other", old.Due.Add(time.Hour), old.FireAt.Add(time.Hour)
		f.ok(f.commit(setting(actor.CommitOf(), next)))
		f.sameReminder(f.found("a", "n"), next)
		f.sameReminder(f.loaded(next.ID), next)
		f.gone(old.ID)
		f.heads(f.due(b, f.far()), next)
		f.heads(f.recent(b, 0, 10), next)
		f.is(f.commit(stepping(actor.CommitOf(), old, nil)), actor.ErrFiringTaken)
	}},
	{"setting a name that is to be kept changes nothing, unless it is free", func(f *fixture) {
		b := f.bucket()
		old := f.place(f.reminder(b, 0, "a", "n"))
		next, free := f.reminder(b, 1, "a", "n"), f.reminder(b, 2, "a", "m")
		next.Keep, free.Keep = true, true
		f.ok(f.commit(setting(write(f.key("a"), actor.Row{}, `{}`), next, free)))
		f.sameReminder(f.found("a", "n"), old)
		f.sameReminder(f.found("a", "m"), free)
		f.gone(next.ID)
		f.heads(f.due(b, f.far()), old, free)
	}},
	{"what is cancelled is gone, and what is not there is no error", func(f *fixture) {
		b := f.bucket()
		old, other := f.place(f.reminder(b, 0, "a", "n")), f.place(f.reminder(b, 1, "a", "other"))
		c := write(f.key("a"), actor.Row{}, `{}`)
		c.Reminders.Cancel = []actor.ReminderName{{Key: f.key("a"), Name: "n"}, {Key: f.key("a"), Name: "never"}}
		f.ok(f.commit(c))
		f.none("a", "n")
		f.none("a", "never")
		f.gone(old.ID)
		f.heads(f.due(b, f.far()), other)
		f.heads(f.recent(b, 0, 10), other)
	}},
	{"a step moves a reminder on, and its commit applies once", func(f *fixture) {
		b := f.bucket()
		r := f.place(f.reminder(b, 0, "a", "n"))
		then := r.ReminderProgress
		then.Due, then.FireAt, then.Left, then.Failures, then.LastError = r.Due.Add(time.Hour), r.FireAt.Add(2*time.Hour), 3, 1, "x"
		row := f.apply(stepping(write(f.key("a"), actor.Row{}, `{"n":1}`), r, &then))
		next := f.found("a", "n")
		want := r
		want.ReminderProgress = then
		f.sameReminder(next, want)
		if next.Version <= r.Version || !next.CreatedAt.Equal(r.CreatedAt) {
			f.Fatalf("version %d after %d, created %v", next.Version, r.Version, next.CreatedAt)
		}
		f.heads(f.due(b, f.far()), next)
		// The same firing again, by whatever commit.
		f.refuse(stepping(write(f.key("a"), row, `{"n":2}`), r, &then), actor.ErrFiringTaken)
		f.refuse(stepping(write(f.key("a"), actor.Row{}, `{"n":2}`), r, &then), actor.ErrFiringTaken)
		f.is(f.commit(stepping(actor.CommitOf(), r, nil)), actor.ErrFiringTaken)
		f.is(f.commit(stepping(fencing(f.key("a"), row), r, nil)), actor.ErrFiringTaken)
		f.sameReminder(f.found("a", "n"), next)
	}},
	{"the last step removes the reminder, and its commit applies once", func(f *fixture) {
		b := f.bucket()
		for i, c := range []actor.Commit{write(f.key("a"), actor.Row{}, `{}`), actor.CommitOf(), fencing(f.key("b"), actor.Row{})} {
			r := f.place(f.reminder(b, uint32(i), "a", "n"))
			f.ok(f.commit(stepping(c, r, nil)))
			f.none("a", "n")
			f.gone(r.ID)
			again := stepping(actor.CommitOf(), r, nil)
			f.is(f.commit(again), actor.ErrFiringTaken)
		}
		f.heads(f.due(b, f.far()))
	}},
	{"a commit may step, cancel and set the same name", func(f *fixture) {
		b := f.bucket()
		r := f.place(f.reminder(b, 0, "a", "n"))
		next := f.reminder(b, 1, "a", "n")
		f.ok(f.commit(setting(stepping(actor.CommitOf(), r, nil), next)))
		next = f.found("a", "n")
		f.gone(r.ID)

		cancelled := stepping(actor.CommitOf(), next, &next.ReminderProgress)
		cancelled.Reminders.Cancel = []actor.ReminderName{{Key: f.key("a"), Name: "n"}}
		f.ok(f.commit(cancelled))
		f.none("a", "n")

		kept := f.place(f.reminder(b, 2, "a", "n"))
		keep := f.reminder(b, 3, "a", "n")
		keep.Keep = true
		f.ok(f.commit(setting(stepping(actor.CommitOf(), kept, &kept.ReminderProgress), keep)))
		if got := f.found("a", "n"); got.ID != kept.ID || got.Version <= kept.Version {
			f.Fatalf("%v at %d in the place of %v", got.ID, got.Version, kept.ID)
		}
		last := f.found("a", "n")
		f.ok(f.commit(setting(stepping(actor.CommitOf(), last, nil), keep)))
		if got := f.found("a", "n"); got.ID != keep.ID {
			f.Fatalf("%v, want %v, since the one before was over", got.ID, keep.ID)
		}
		f.heads(f.due(b, f.far()), keep)
	}},
	{"a paused reminder is not due, and still there", func(f *fixture) {
		b := f.bucket()
		r := f.place(f.reminder(b, 0, "a", "n"))
		paused := r.ReminderProgress
		paused.Paused = true
		f.ok(f.commit(stepping(actor.CommitOf(), r, &paused)))
		f.heads(f.due(b, f.far()))
		f.heads(f.recent(b, 0, 10))
		there := f.found("a", "n")
		if !there.Paused {
			f.Fatalf("%+v", there)
		}
		f.is(f.commit(stepping(actor.CommitOf(), r, nil)), actor.ErrFiringTaken)
		resumed := there.ReminderProgress
		resumed.Paused = false
		f.ok(f.commit(stepping(actor.CommitOf(), there, &resumed)))
		f.heads(f.due(b, f.far()), r)
	}},
	{"deleting an actor removes its reminders, and those of no other", func(f *fixture) {
		b := f.bucket()
		row := f.apply(setting(write(f.key("a"), actor.Row{}, `{}`), f.reminder(b, 0, "a", "x"), f.reminder(b, 1, "a", "y")))
		near := f.place(f.reminder(b, 2, "ab", "x"))
		other := f.reminder(b, 3, "a", "x")
		other.Key.Type = "Cartel"
		other = f.place(other)
		tomb := f.apply(remove(f.key("a"), row))
		f.none("a", "x")
		f.none("a", "y")
		f.heads(f.due(b, f.far()), near, other)
		f.heads(f.recent(b, 0, 10), near, other)
		// One that fires as the actor is deleted goes with the others.
		back := f.apply(setting(write(f.key("a"), tomb, `{}`), f.reminder(b, 4, "a", "x"), f.reminder(b, 5, "a", "y")))
		fired := f.found("a", "x")
		f.ok(f.commit(stepping(remove(f.key("a"), back), fired, &fired.ReminderProgress)))
		f.none("a", "x")
		f.none("a", "y")
		f.heads(f.due(b, f.far()), near, other)
		// A refused delete removes none.
		f.is(f.commit(remove(near.Key, actor.Row{Version: 77})), actor.ErrStale)
		f.heads(f.due(b, f.far()), near, other)
	}},
	{"a group of many commits keeps them apart", func(f *fixture) {
		b := f.bucket()
		var commits []actor.Commit
		var taken actor.Reminder
		for i := range 40 {
			r := f.reminder(b, uint32(i), fmt.Sprint(i), "n")
			if i == 0 {
				taken = f.place(r)
				f.ok(f.commit(stepping(actor.CommitOf(), taken, nil)))
			}
			c := write(f.key(fmt.Sprint(i)), actor.Row{}, `{}`)
			switch i % 4 {
			case 0:
				c = stepping(c, taken, nil) // refused
				c.Reminders.Steps[0].Key = f.key(fmt.Sprint(i))
			case 1:
				c = setting(c, r)
			case 2:
				c = setting(actor.CommitOf(), r)
			case 3:
				c.Rows[0].ReadVersion, c.Rows[0].NewVersion = 7, 8
				c = setting(c, r) // refused
			}
			commits = append(commits, c)
		}
		for i, err := range f.s.Commit(f.ctx(), commits) {
			switch i % 4 {
			case 0:
				f.is(err, actor.ErrFiringTaken)
				f.same(f.load(f.key(fmt.Sprint(i))), actor.Row{})
			case 1, 2:
				f.ok(err)
				f.found(fmt.Sprint(i), "n")
			case 3:
				f.is(err, actor.ErrStale)
				f.none(fmt.Sprint(i), "n")
			}
		}
	}},
	{"commits of one group may be about the same reminder", func(f *fixture) {
		b := f.bucket()
		r := f.place(f.reminder(b, 0, "a", "n"))
		errs := f.s.Commit(f.ctx(), []actor.Commit{
			stepping(actor.CommitOf(), r, nil), stepping(actor.CommitOf(), r, &r.ReminderProgress), stepping(actor.CommitOf(), r, nil),
		})
		applied := 0
		for _, err := range errs {
			if err == nil {
				applied++
			} else {
				f.is(err, actor.ErrFiringTaken)
			}
		}
		if applied != 1 {
			f.Fatalf("%d of three commits with the same step were applied: %v", applied, errs)
		}
		f.ok(errorOf(f.s.Commit(f.ctx(), []actor.Commit{
			setting(actor.CommitOf(), f.reminder(b, 1, "b", "n")), setting(actor.CommitOf(), f.reminder(b, 2, "b", "n")),
		})))
		f.heads(f.due(b, f.far())[len(f.due(b, f.far()))-1:], f.found("b", "n"))
	}},
	{"a commit may be about a reminder whose actor another of its group deletes, or it itself", func(f *fixture) {
		b := f.bucket()
		for i, beside := range []func(r, next actor.Reminder) actor.Commit{
			func(_, next actor.Reminder) actor.Commit { return setting(actor.CommitOf(), next) },
			func(r, _ actor.Reminder) actor.Commit { return stepping(actor.CommitOf(), r, &r.ReminderProgress) },
			func(r, _ actor.Reminder) actor.Commit {
				return canceling(actor.CommitOf(), actor.ReminderName{Key: r.Key, Name: r.Name})
			},
		} {
			for j := range 2 {
				id, token := fmt.Sprint(i, j), uint32(10*i+5*j)
				row := f.apply(setting(write(f.key(id), actor.Row{}, `{}`), f.reminder(b, token, id, "x"), f.reminder(b, token+1, id, "y")))
				group := []actor.Commit{beside(f.found(id, "x"), f.reminder(b, token+2, id, "x")), remove(f.key(id), row)}
				if j == 1 {
					group[0], group[1] = group[1], group[0]
				}
				for _, err := range f.s.Commit(f.ctx(), group) {
					if err != nil && !errors.Is(err, actor.ErrFiringTaken) { // the step, after the deletion
						f.Fatalf("%d.%d: %v", i, j, err)
					}
				}
				f.none(id, "y")
				if i > 0 {
					f.none(id, "x")
				} else if r := f.findReminder(id, "x"); r.Version != 0 && r.ID.Token != token+2 {
					f.Fatalf("a reminder of the deleted actor is left: %+v", r)
				}
			}
		}
		row := f.apply(setting(write(f.key("a"), actor.Row{}, `{}`), f.reminder(b, 90, "a", "x"), f.reminder(b, 91, "a", "y")))
		f.apply(canceling(remove(f.key("a"), row), actor.ReminderName{Key: f.key("a"), Name: "x"}))
		f.none("a", "x")
		f.none("a", "y")
	}},
	{"the names of an actor's reminders are read alone", func(f *fixture) {
		b := f.bucket()
		for i, name := range []string{"b", "ab", "a%", "a", "ä", "a_b"} {
			f.place(f.reminder(b, uint32(i), "a", name))
		}
		f.place(f.reminder(b, 90, "ab", "a"))
		for _, c := range []struct {
			prefix, after string
			limit         int
			want          []string
		}{
			{"", "", 100, []string{"a", "a%", "a_b", "ab", "b", "ä"}},
			{"", "", 2, []string{"a", "a%"}},
			{"", "a%", 2, []string{"a_b", "ab"}},
			{"a", "a_b", 100, []string{"ab"}},
			{"a%", "", 100, []string{"a%"}},
			{"ä", "", 100, []string{"ä"}},
			{"b", "c", 100, nil},
			{"c", "", 100, nil},
			{"b", "a", 100, []string{"b"}},
		} {
			got, err := f.s.ReminderNames(f.ctx(), store.ReminderNameQuery{Key: f.key("a"), Prefix: c.prefix, After: c.after, Limit: c.limit})
			if f.ok(err); !slices.Equal(got, c.want) {
				f.Fatalf("%+v: %q", c, got)
			}
		}
		_, err := f.s.ReminderNames(f.ctx(), store.ReminderNameQuery{Key: f.key("a")})
		f.argument(err)
	}},
	{"of many concurrent commits with the same step one is applied", func(f *fixture) {
		b := f.bucket()
		r := f.place(f.reminder(b, 0, "a", "n"))
		var wg sync.WaitGroup
		var mu sync.Mutex
		applied := 0
		for i := range 16 {
			wg.Go(func() {
				c := stepping(write(f.key(fmt.Sprint("w", i)), actor.Row{}, `{}`), r, &r.ReminderProgress)
				err := f.s.Commit(f.ctx(), []actor.Commit{c})[0]
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					applied++
				} else {
					f.is(err, actor.ErrFiringTaken)
				}
			})
		}
		wg.Wait()
		if applied != 1 {
			f.Fatalf("%d were applied", applied)
		}
		if got := f.found("a", "n"); got.Version != r.Version+1 {
			f.Fatalf("version %d after %d", got.Version, r.Version)
		}
	}},
	{"a locked turn sets and steps like any other", func(f *fixture) {
		b := f.bucket()
		fired := f.place(f.reminder(b, 0, "a", "fired"))
		next := f.reminder(b, 1, "a", "next")
		turn := func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			c := setting(stepping(write(f.key("a"), row, `{}`), fired, nil), next)
			return &c, nil
		}
		_, err := f.s.LockedTurn(f.ctx(), f.key("a"), turn)
		f.ok(err)
		f.none("a", "fired")
		f.sameReminder(f.found("a", "next"), next)
		before := f.load(f.key("a"))
		_, err = f.s.LockedTurn(f.ctx(), f.key("a"), turn)
		f.is(err, actor.ErrFiringTaken)
		f.same(f.load(f.key("a")), before)
	}},
	{"a commit with reminders is settled by the row that it writes", func(f *fixture) {
		b := f.bucket()
		row := f.apply(write(f.key("a"), actor.Row{}, `{}`))
		applied := setting(touch(f.key("a"), row), f.reminder(b, 0, "a", "n"))
		f.ok(f.commit(applied))
		f.ok(f.s.Settle(f.ctx(), applied))
		never := setting(touch(f.key("a"), f.load(f.key("a"))), f.reminder(b, 1, "a", "m"))
		f.is(f.s.Settle(f.ctx(), never), actor.ErrStale)
		f.is(f.commit(never), actor.ErrStale)
		f.none("a", "m")
		// Nothing proves the outcome of a commit that writes no row.
		f.is(f.s.Settle(f.ctx(), setting(actor.CommitOf(), f.reminder(b, 2, "a", "o"))), actor.ErrAmbiguous)
		f.is(f.s.Settle(f.ctx(), setting(fencing(f.key("a"), f.load(f.key("a"))), f.reminder(b, 2, "a", "o"))), actor.ErrAmbiguous)
	}},
	{"a firing that failed for good is a dead letter", func(f *fixture) {
		b := f.bucket()
		r := f.place(f.reminder(b, 0, "a", "n"))
		then := r.ReminderProgress
		then.Due, then.FireAt = r.Due.Add(time.Hour), r.FireAt.Add(time.Hour)
		first := stepping(actor.CommitOf(), r, &then)
		first.Reminders.Steps[0].DeadLetter = &actor.DeadFiring{Due: r.Due, Failures: r.Failures, Reason: "card refused"}
		before := f.now()
		f.ok(f.commit(first))
		again := f.found("a", "n")
		last := stepping(actor.CommitOf(), again, nil)
		last.Reminders.Steps[0].DeadLetter = &actor.DeadFiring{Due: again.Due, Reason: "card refused again"}
		f.ok(f.commit(last))
		f.none("a", "n")
		letters := f.deadLetters(store.DeadLetterQuery{})
		if len(letters) != 2 || letters[0].Reason != "card refused" || letters[1].Reason != "card refused again" || letters[0].FailedAt.Before(before) {
			f.Fatalf("%+v", letters)
		}
		f.sameReminder(letters[0].Reminder, r)
		if page := f.deadLetters(store.DeadLetterQuery{AfterID: r.ID, AfterDue: r.Due}); len(page) != 1 || page[0].Reason != letters[1].Reason {
			f.Fatalf("after the first: %+v", page)
		}
		if others := f.deadLetters(store.DeadLetterQuery{Type: "Other"}); len(others) != 0 {
			f.Fatalf("of another type: %+v", others)
		}
		_, err := f.s.AllocateBucket(f.ctx(), f.app+".later", "creator", f.vector())
		f.ok(err)
		others, err := f.s.ListDeadLetters(f.ctx(), store.DeadLetterQuery{App: f.app + ".later", AfterID: r.ID, AfterDue: r.Due.Add(-time.Second), Limit: 100})
		if f.ok(err); len(others) != 0 {
			f.Fatalf("of another app: %+v", others)
		}
		was, err := f.s.RemoveDeadLetter(f.ctx(), r.ID, r.Due)
		f.ok(err)
		again2, err := f.s.RemoveDeadLetter(f.ctx(), r.ID, r.Due)
		f.ok(err)
		if left := f.deadLetters(store.DeadLetterQuery{}); !was || again2 || len(left) != 1 {
			f.Fatalf("removed %t, then %t; left %+v", was, again2, left)
		}
		refused := stepping(actor.CommitOf(), r, nil)
		refused.Reminders.Steps[0].DeadLetter = &actor.DeadFiring{Due: r.Due, Reason: "refused"}
		f.is(f.commit(refused), actor.ErrFiringTaken)
		if left := f.deadLetters(store.DeadLetterQuery{}); len(left) != 1 {
			f.Fatalf("a refused commit left a dead letter: %+v", left)
		}
	}},
	{"a dead letter is of the occurrence that was delivered, whatever its reason", func(f *fixture) {
		r := f.place(f.reminder(f.bucket(), 0, "a", "n"))
		c := stepping(actor.CommitOf(), r, nil)
		c.Reminders.Steps[0].DeadLetter = &actor.DeadFiring{Due: r.Due.Add(3 * time.Hour), Failures: 2}
		f.ok(f.commit(c))
		r.Due, r.Failures = r.Due.Add(3*time.Hour), 2
		letters := f.deadLetters(store.DeadLetterQuery{})
		if len(letters) != 1 || letters[0].Reason != "" {
			f.Fatalf("%+v", letters)
		}
		f.sameReminder(letters[0].Reminder, r)
	}},
	{"due reminders come in pages, from a time or a position on", func(f *fixture) {
		b, other := f.bucket(), f.bucket()
		var want []actor.Reminder
		base := f.far().Add(-time.Hour)
		for i := range 20 {
			r := f.reminder(b, uint32(20-i), fmt.Sprint(i), "n")
			r.FireAt = base.Add(time.Duration(i/3) * time.Second) // ties are in the order of tokens
			want = append(want, f.place(r))
		}
		f.place(f.reminder(other, 0, "other", "n"))
		slices.SortFunc(want, func(a, b actor.Reminder) int {
			if c := a.FireAt.Compare(b.FireAt); c != 0 {
				return c
			}
			return int(a.ID.Token) - int(b.ID.Token)
		})
		for _, size := range []int{1, 2, 7, 20, 100} {
			var got []store.ReminderHead
			q := store.DueQuery{Bucket: b, Before: f.far(), Limit: size}
			for {
				page, err := f.s.DueReminders(f.ctx(), q)
				f.ok(err)
				got = append(got, page...)
				if len(page) < size {
					break
				}
				last := page[len(page)-1]
				q.AfterTime, q.AfterToken = last.FireAt, &last.ID.Token
			}
			f.heads(got, want...)
		}
		got, err := f.s.DueReminders(f.ctx(), store.DueQuery{Bucket: b, AfterTime: want[6].FireAt, Before: want[12].FireAt, Limit: 100})
		f.ok(err)
		f.heads(got, want[6:12]...)
	}},
	{"reminders by token come from several ranges, up to a limit", func(f *fixture) {
		b := f.bucket()
		var all []actor.Reminder
		for i := range 10 {
			all = append(all, f.place(f.reminder(b, uint32(2*i), fmt.Sprint(i), "n")))
		}
		first := b.First()
		got, err := f.s.RecentReminders(f.ctx(), b, []store.TokenRange{{From: first, To: first + 3}, {From: first + 5, To: first + 5}, {From: first + 16, To: first + 99}}, 100)
		f.ok(err)
		slices.SortFunc(got, func(a, b store.ReminderHead) int { return int(a.ID.Token) - int(b.ID.Token) })
		f.heads(got, all[0], all[1], all[8], all[9])
		got, err = f.s.RecentReminders(f.ctx(), b, []store.TokenRange{{From: first, To: first + 99}}, 3)
		f.ok(err)
		if len(got) != 3 {
			f.Fatalf("%d of at most 3", len(got))
		}
	}},
	{"lists go by app, type, actor, name and due time, in pages", func(f *fixture) {
		b := f.bucket()
		token := uint32(0)
		add := func(typ, id, name string, due time.Time) {
			r := f.reminder(b, token, id, name)
			token++
			r.Key.Type, r.Due = typ, due
			f.place(r)
		}
		day := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		add("B", "x", "n", day)
		add("A", "y", "m", day.Add(1*time.Hour))
		add("A", "x", "nn", day.Add(2*time.Hour))
		add("A", "x", "n", day.Add(3*time.Hour))
		add("A", "xy", "n", day.Add(4*time.Hour))
		add("AA", "x", "n", day.Add(5*time.Hour))
		list := func(q store.ReminderQuery) []string {
			var names []string
			for _, r := range f.listReminders(q) {
				names = append(names, r.Key.Type+"/"+r.Key.ID+"/"+r.Name)
			}
			return names
		}
		for _, tt := range []struct {
			q    store.ReminderQuery
			want []string
		}{
			{store.ReminderQuery{}, []string{"A/x/n", "A/x/nn", "A/xy/n", "A/y/m", "AA/x/n", "B/x/n"}},
			{store.ReminderQuery{Type: "A"}, []string{"A/x/n", "A/x/nn", "A/xy/n", "A/y/m"}},
			{store.ReminderQuery{Type: "A", ID: "x"}, []string{"A/x/n", "A/x/nn"}},
			{store.ReminderQuery{Type: "A", ID: "x", Prefix: "nn"}, []string{"A/x/nn"}},
			{store.ReminderQuery{Type: "A", ID: "x", Prefix: "%"}, nil},
			{store.ReminderQuery{DueFrom: day.Add(time.Hour), DueBefore: day.Add(4 * time.Hour)}, []string{"A/x/n", "A/x/nn", "A/y/m"}},
			{store.ReminderQuery{Limit: 2}, []string{"A/x/n", "A/x/nn"}},
			{store.ReminderQuery{Limit: 2, After: actor.ReminderName{Key: actor.Key{Type: "A", ID: "x"}, Name: "nn"}}, []string{"A/xy/n", "A/y/m"}},
			{store.ReminderQuery{Type: "A", After: actor.ReminderName{Key: actor.Key{Type: "A", ID: "xy"}, Name: "n"}}, []string{"A/y/m"}},
			{store.ReminderQuery{Type: "None"}, nil},
		} {
			if got := list(tt.q); !slices.Equal(got, tt.want) {
				f.Errorf("%+v gives %q, want %q", tt.q, got, tt.want)
			}
		}
	}},
	{"a commit that breaks the contract is refused", func(f *fixture) {
		b := f.bucket()
		r := f.reminder(b, 0, "a", "n")
		for i, change := range []func(*actor.Commit){
			func(c *actor.Commit) { c.Reminders.Set[0].Name = "" },
			func(c *actor.Commit) { c.Reminders.Set[0].ID = actor.ReminderID{} },
			func(c *actor.Commit) { c.Reminders.Set[0].FireAt = time.Time{} },
			func(c *actor.Commit) { c.Reminders.Set = append(c.Reminders.Set, c.Reminders.Set[0]) },
			func(c *actor.Commit) {
				c.Reminders.Cancel = []actor.ReminderName{{Key: r.Key, Name: r.Name}}
			},
			func(c *actor.Commit) { *c = stepping(*c, r, nil); c.Reminders.Steps[0].Version = 0 },
			func(c *actor.Commit) { *c = stepping(stepping(*c, r, nil), r, nil) },
			func(c *actor.Commit) { c.Rows = remove(r.Key, actor.Row{}).Rows },
			func(c *actor.Commit) { c.Reminders.Set[0].Payload.Data = make([]byte, actor.MaxReminderPayload+1) },
		} {
			c := setting(actor.CommitOf(), r)
			c.Reminders.Set = slices.Clone(c.Reminders.Set)
			change(&c)
			if err := f.commit(c); err == nil {
				f.Errorf("case %d was accepted", i)
			} else {
				f.argument(err)
			}
		}
		f.none("a", "n")
	}},
	{"random steps, sets and cancellations leave what a model has", func(f *fixture) { reminderModel(f) }},
}}

package storetest

import (
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var cursors = suite{"Cursors", []testCase{
	{"a cursor is found by name, by ID and by time, with all that it has", func(f *fixture) {
		b := f.bucket()
		want := cursor(f, b, 3, "ann", "times")
		f.ok(f.commit(setting(actor.CommitOf(), want)))
		f.sameReminder(f.loaded(want.ID), want)
		f.sameReminder(f.found("ann", want.Name), want)
		f.heads(f.due(b, f.far()), want)
		then := want.ReminderProgress
		then.Failures, then.LastError = 1, "it failed"
		f.ok(f.commit(stepping(actor.CommitOf(), f.loaded(want.ID), &then)))
		want.ReminderProgress = then
		f.sameReminder(f.loaded(want.ID), want)
	}},
	{"one commit takes the step of a cursor and puts the next one in its place, once", func(f *fixture) {
		b := f.bucket()
		was := f.place(cursor(f, b, 1, "ann", "times"))
		next := cursor(f, b, 2, "ann", "times")
		next.Cursor.After.Index++
		row := f.apply(setting(stepping(write(f.key("ann"), actor.Row{}, `{"n":1}`), was, nil), next))
		f.sameReminder(f.found("ann", next.Name), next)
		f.gone(was.ID)
		again := cursor(f, b, 3, "ann", "times")
		f.refuse(setting(stepping(write(f.key("ann"), row, `{"n":2}`), was, nil), again), actor.ErrFiringTaken)
		f.sameReminder(f.found("ann", next.Name), next)
		f.gone(again.ID)
		f.same(f.load(f.key("ann")), row)
	}},
	{"its names are read alone, and lists of reminders and messages have none", func(f *fixture) {
		b := f.bucket()
		f.place(f.reminder(b, 1, "ann", "!"))
		f.place(message(f, b, 2, "bob", "ann", 7, 0))
		var want []string
		for i, publisher := range []string{"times", "post", "sun"} {
			want = append(want, f.place(cursor(f, b, uint32(3+i), "ann", publisher)).Name)
		}
		f.place(cursor(f, b, 9, "bob", "times"))
		slices.Sort(want)
		for _, c := range []struct {
			q    store.ReminderNameQuery
			want []string
		}{
			{store.ReminderNameQuery{Prefix: actor.CursorNames}, want},
			{store.ReminderNameQuery{Prefix: actor.CursorNames, After: want[0]}, want[1:]},
			{store.ReminderNameQuery{}, []string{"!"}},
			{store.ReminderNameQuery{Messages: true, After: want[1]}, []string{want[2], "!"}},
		} {
			c.q.Key, c.q.Limit = f.key("ann"), 100
			got, err := f.s.ReminderNames(f.ctx(), c.q)
			if f.ok(err); !slices.Equal(got, c.want) {
				f.Fatalf("%+v: %q, want %q", c.q, got, c.want)
			}
		}
		f.names(f.listReminders(store.ReminderQuery{}), "ann/!")
		f.names(f.listReminders(store.ReminderQuery{Type: f.key("ann").Type, ID: f.key("ann").ID}), "ann/!")
		if list := f.listReminders(store.ReminderQuery{Messages: true}); len(list) != 1 || list[0].Message == nil {
			f.Fatalf("messages: %+v", list)
		}
		if size := inboxSize(f, "ann", 100); size.Messages != 1 {
			f.Fatalf("the inbox holds %+v", size)
		}
		_, _, err := f.s.ListReminders(f.ctx(), store.ReminderQuery{App: f.app, Type: f.key("ann").Type, ID: f.key("ann").ID, Prefix: actor.CursorNames, Limit: 1})
		f.argument(err)
	}},
	{"a list has the cursors alone of an actor, a type or an app, in pages", func(f *fixture) {
		b := f.bucket()
		typ := f.key("ann").Type
		f.place(f.reminder(b, 1, "ann", "!"))
		f.place(message(f, b, 2, "bob", "ann", 7, 0))
		f.place(f.reminder(b, 3, "bob", "!"))
		bob := f.place(cursor(f, b, 4, "bob", "times"))
		var all []actor.Reminder
		for i, publisher := range []string{"times", "post", "sun"} {
			all = append(all, f.place(cursor(f, b, uint32(5+i), "ann", publisher)))
		}
		slices.SortFunc(all, func(r, s actor.Reminder) int { return strings.Compare(r.Name, s.Name) })
		anns := len(all)
		all = append(all, bob)
		for _, c := range []struct {
			typ, id string
			want    []actor.Reminder
		}{{"", "", all}, {typ, "", all}, {"None", "", nil}, {typ, "ann", all[:anns]}, {typ, "bob", all[anns:]}, {typ, "cat", nil}} {
			for _, limit := range []int{1, 2, 3, 100} {
				q := store.ReminderQuery{App: f.app, Type: c.typ, Cursors: true, Limit: limit}
				if c.id != "" {
					q.ID = f.key(c.id).ID
				}
				var got []actor.Reminder
				for {
					page, next, err := f.s.ListReminders(f.ctx(), q)
					f.ok(err)
					if got = append(got, page...); next.Name == "" {
						break
					}
					if c.id != "" && len(page) < limit {
						f.Fatalf("%+v: a page of %d", q, len(page))
					}
					q.After = next
				}
				if len(got) != len(c.want) {
					f.Fatalf("%+v: %d cursors, want %d", q, len(got), len(c.want))
				}
				for i := range got {
					f.sameReminder(got[i], c.want[i])
				}
			}
		}
		for _, q := range []store.ReminderQuery{{Cursors: true, Messages: true}, {Cursors: true, Prefix: "p", Type: typ, ID: f.key("ann").ID}} {
			q.App, q.Limit = f.app, 1
			_, _, err := f.s.ListReminders(f.ctx(), q)
			f.argument(err)
		}
	}},
	{"it ends with the life of its subscriber, with its subscriber, and not with its publisher", func(f *fixture) {
		b := f.bucket()
		row := f.apply(setting(write(f.key("ann"), actor.Row{}, `{}`), cursor(f, b, 1, "ann", "times")))
		name := actor.CursorName(f.key("times"))
		f.apply(passAway(f.key("ann"), row))
		f.none("ann", name)
		f.apply(setting(write(f.key("ann"), f.load(f.key("ann")), `{}`), cursor(f, b, 2, "ann", "times")))
		times := f.apply(write(f.key("times"), actor.Row{}, `{}`))
		f.apply(remove(f.key("times"), times))
		f.sameReminder(f.found("ann", name), cursor(f, b, 2, "ann", "times"))
		f.apply(remove(f.key("ann"), f.load(f.key("ann"))))
		f.none("ann", name)
	}},
	{"a cursor that is none is refused", func(f *fixture) {
		b := f.bucket()
		for _, spoil := range []func(r *actor.Reminder){
			func(r *actor.Reminder) { r.Name = "pay" },
			func(r *actor.Reminder) { r.Name = actor.CursorName(f.key("post")) },
			func(r *actor.Reminder) { r.Cursor.Publisher.App = "another" },
			func(r *actor.Reminder) { r.Cursor.Publisher.ID = "" },
			func(r *actor.Reminder) { r.Message = &actor.Message{} },
			func(r *actor.Reminder) { r.Cursor = nil },
			func(r *actor.Reminder) { r.Schedule.Every = 1e9 },
		} {
			r := cursor(f, b, 1, "ann", "times")
			spoil(&r)
			f.argument(f.commit(setting(actor.CommitOf(), r)))
		}
	}},
}}

// cursor is an actor's cursor for the events of another one.
func cursor(f *fixture, b actor.Bucket, token uint32, subscriber, publisher string) actor.Reminder {
	spec := actor.CursorSpec(f.key(subscriber), "On", actor.Cursor{Publisher: f.key(publisher), After: actor.EventPosition{Version: 1<<62 + 7, Index: 3}})
	r := f.reminder(b, token, subscriber, spec.Name)
	spec.Schedule = r.Schedule
	spec.Schedule.Every, spec.Schedule.Times = 0, 0
	r.ReminderSpec = spec
	r.Left = 0
	return r
}

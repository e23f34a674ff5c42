package storetest

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var settles = suite{"Settle", []testCase{
	{"an insert, an update, a touch and a delete that applied", func(f *fixture) {
		row := actor.Row{}
		for _, next := range []func(actor.Key, actor.Row) actor.Commit{
			func(k actor.Key, r actor.Row) actor.Commit { return write(k, r, `{"n":1}`) },
			func(k actor.Key, r actor.Row) actor.Commit { return write(k, r, `{"n":2}`) },
			touch, remove,
		} {
			c := next(f.key("a"), row)
			row = f.apply(c)
			f.ok(f.s.Settle(f.ctx(), c))
			f.same(f.load(c.Anchor().Key), row)
			f.ok(f.s.Settle(f.ctx(), c))
		}
	}},
	{"an insert that never applied never will", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		f.never(c)
		row := f.load(c.Anchor().Key)
		if row.Version == 0 || !row.Deleted {
			f.Fatalf("no tombstone was left: %s", describe(row))
		}
		// The actor lives on: on top of what settling left.
		again := write(c.Anchor().Key, row, `{"n":2}`)
		f.wrote(f.apply(again), again, `{"n":2}`)
	}},
	{"an insert that never applied leaves the actor its reminders and messages", func(f *fixture) {
		b := f.bucket()
		f.place(f.reminder(b, 0, "a", "r"))
		sent := message(f, b, 1, "ann", "a", 7, 0)
		f.place(sent)
		f.never(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.names(f.listReminders(store.ReminderQuery{Type: f.key("").Type, ID: "a"}), "a/r")
		inbox(f, "a", sent)
	}},
	{"an update that never applied never will", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.never(write(f.key("a"), row, `{"n":2}`))
		f.movedByOne(row)
	}},
	{"a touch that never applied never will", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.never(touch(f.key("a"), row))
		f.movedByOne(row)
	}},
	{"a delete that never applied never will", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.never(remove(f.key("a"), row))
		f.movedByOne(row)
	}},
	{"a write on a tombstone that never applied never will", func(f *fixture) {
		row := f.apply(remove(f.key("a"), actor.Row{}))
		f.never(write(f.key("a"), row, `{"n":2}`))
		f.movedByOne(row)
	}},
	{"settling leaves the row's own commit settled", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		row := f.apply(c)
		f.never(write(f.key("a"), row, `{"n":2}`))
		f.ok(f.s.Settle(f.ctx(), c))
	}},
	{"another commit took the place", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		lost := write(f.key("a"), row, `{"n":2}`)
		won := write(f.key("a"), row, `{"n":3}`)
		after := f.apply(won)
		f.is(f.s.Settle(f.ctx(), lost), actor.ErrStale)
		f.same(f.load(won.Anchor().Key), after)
	}},
	{"an insert that moved on cannot be told", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		row := f.apply(write(f.key("a"), f.apply(c), `{"n":2}`))
		f.is(f.s.Settle(f.ctx(), c), actor.ErrAmbiguous)
		f.same(f.load(c.Anchor().Key), row)
	}},
	{"an update and a delete that moved on cannot be told", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		update := write(f.key("a"), row, `{"n":2}`)
		row = f.apply(update)
		deletion := remove(f.key("a"), row)
		row = f.apply(deletion)
		f.is(f.s.Settle(f.ctx(), update), actor.ErrAmbiguous)
		row = f.apply(write(f.key("a"), row, `{"n":3}`))
		f.is(f.s.Settle(f.ctx(), deletion), actor.ErrAmbiguous)
		f.is(f.s.Settle(f.ctx(), update), actor.ErrAmbiguous)
		f.same(f.load(f.key("a")), row)
	}},
	{"an insert that was deleted, swept and made again cannot be told", func(f *fixture) {
		for i := range 20 { // which version is higher is random within a second: a guess is right half the time
			c := write(f.key(manyID(i)), actor.Row{}, `{"n":1}`)
			f.apply(remove(c.Anchor().Key, f.apply(c)))
			f.sweepAll()
			again := f.apply(write(c.Anchor().Key, actor.Row{}, `{"n":2}`))
			f.is(f.s.Settle(f.ctx(), c), actor.ErrAmbiguous)
			f.same(f.load(c.Anchor().Key), again)
		}
	}},
	{"an insert in whose place another row is cannot be told", func(f *fixture) {
		for i := range 20 {
			lost := write(f.key(manyID(i)), actor.Row{}, `{"n":1}`)
			won := f.apply(write(lost.Anchor().Key, actor.Row{}, `{"n":2}`))
			f.is(f.s.Settle(f.ctx(), lost), actor.ErrAmbiguous)
			f.same(f.load(lost.Anchor().Key), won)
		}
	}},
	{"a commit whose row was swept cannot be told", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := write(f.key("a"), row, `{"n":2}`)
		f.apply(remove(f.key("a"), row))
		f.sweepAll()
		f.is(f.s.Settle(f.ctx(), c), actor.ErrAmbiguous)
		f.same(f.load(c.Anchor().Key), actor.Row{})
	}},
	{"settling against the commit itself ends with one truth", func(f *fixture) {
		for i := range 30 {
			k := f.key(manyID(i))
			row := actor.Row{}
			if i%2 == 1 {
				row = f.apply(write(k, row, `{"n":0}`))
			}
			c := write(k, row, `{"n":1}`)
			var committed, settled error
			f.together(func() { committed = f.commit(c) }, func() { settled = f.s.Settle(f.ctx(), c) })
			got := f.load(k)
			switch {
			case committed == nil && settled == nil:
				f.wrote(got, c, `{"n":1}`)
			default:
				f.is(committed, actor.ErrStale)
				f.is(settled, actor.ErrStale)
				if got.CommitID == c.ID {
					f.Fatalf("a commit settled as never is stored: %s", describe(got))
				}
			}
		}
	}},
	{"a malformed commit is refused", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{}`)
		c.ID = actor.CommitID{}
		f.argument(f.s.Settle(f.ctx(), c))
	}},
}}

package storetest

import "github.com/greenroom-run/greenroom/actor"

var versions = suite{"Versions", []testCase{
	{"versions come in the order of keys, missing and repeated ones too", func(f *fixture) {
		live := f.apply(write(f.key("live"), actor.Row{}, `{"n":1}`))
		tomb := f.apply(remove(f.key("tomb"), actor.Row{}))
		keys := []actor.Key{f.key("tomb"), f.key("none"), f.key("live"), f.key("tomb"), {App: f.app, Type: "Cart2", ID: "live"}}
		f.versions(keys, tomb, actor.Row{}, live, tomb, actor.Row{})
		f.versions(nil)
	}},
	{"a version is the newest that was committed", func(f *fixture) {
		var row actor.Row
		for _, next := range []func(actor.Key, actor.Row) actor.Commit{
			func(k actor.Key, r actor.Row) actor.Commit { return write(k, r, `{"n":1}`) },
			touch, bump, remove, bump, touch,
		} {
			row = f.apply(next(f.key("a"), row))
			f.versions([]actor.Key{f.key("a")}, row)
		}
		// One that settling moved on, which no commit did.
		f.is(f.s.Settle(f.ctx(), write(f.key("a"), row, `{"n":2}`)), actor.ErrStale)
		row.Version++
		f.versions([]actor.Key{f.key("a")}, row)
	}},
	{"a group of 600", func(f *fixture) {
		rows := f.insertMany(600)
		keys := make([]actor.Key, len(rows))
		for i := range keys {
			keys[i] = f.key(manyID(i))
		}
		f.versions(keys, rows...)
	}},
	{"keys that break the contract are refused", func(f *fixture) {
		_, err := f.s.Versions(f.ctx(), []actor.Key{f.key("a"), f.key("")})
		f.argument(err)
	}},
}}

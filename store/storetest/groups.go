package storetest

import (
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

var groups = suite{"Groups", []testCase{
	{"an empty group is answered", func(f *fixture) {
		if errs := f.s.Commit(f.ctx(), nil); len(errs) != 0 {
			f.Fatalf("an empty group answered %v", errs)
		}
	}},
	{"a stale commit among many is refused alone", func(f *fixture) {
		rows := f.insertMany(64)
		stale := map[int]bool{0: true, 17: true, 63: true}
		for i := range stale {
			f.apply(touch(f.key(manyID(i)), rows[i]))
		}
		commits := make([]actor.Commit, len(rows))
		for i, row := range rows {
			commits[i] = write(f.key(manyID(i)), row, fmt.Sprintf(`{"second":%d}`, i))
		}
		for i, err := range f.s.Commit(f.ctx(), commits) {
			if stale[i] {
				f.is(err, actor.ErrStale)
				continue
			}
			f.ok(err)
			f.wrote(f.load(commits[i].Anchor().Key), commits[i], fmt.Sprintf(`{"second":%d}`, i))
		}
	}},
	{"inserts, updates, touches, deletes and refusals go together", func(f *fixture) {
		live := f.apply(write(f.key("live"), actor.Row{}, `{"n":1}`))
		doomed := f.apply(write(f.key("doomed"), actor.Row{}, `{"n":1}`))
		touched := f.apply(write(f.key("touched"), actor.Row{}, `{"n":1}`))
		tomb := f.apply(remove(f.key("tomb"), actor.Row{}))
		commits := []actor.Commit{
			write(f.key("new"), actor.Row{}, `{"n":2}`),
			write(f.key("live"), live, `{"n":2}`),
			remove(f.key("doomed"), doomed),
			touch(f.key("touched"), touched),
			write(f.key("tomb"), tomb, `{"n":2}`),
		}
		refused := []actor.Commit{
			write(f.key("never"), actor.Row{Version: 8}, `{}`),
			write(f.key("live2"), live, `{}`),
		}
		errs := f.s.Commit(f.ctx(), append(commits, refused...))
		for i, text := range []string{`{"n":2}`, `{"n":2}`, "", `{"n":1}`, `{"n":2}`} {
			f.ok(errs[i])
			f.wrote(f.load(commits[i].Anchor().Key), commits[i], text)
		}
		for i, c := range refused {
			f.is(errs[len(commits)+i], actor.ErrStale)
			f.same(f.load(c.Anchor().Key), actor.Row{})
		}
	}},
	{"a group of 256 applies", func(f *fixture) {
		rows := f.insertMany(256)
		commits := make([]actor.Commit, len(rows))
		for i, row := range rows {
			commits[i] = write(f.key(manyID(i)), row, fmt.Sprintf(`{"second":%d}`, i))
		}
		for _, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
		}
		for i, row := range f.loadMany(256) {
			f.wrote(row, commits[i], fmt.Sprintf(`{"second":%d}`, i))
		}
	}},
	{"a group may span apps and types, which are kept apart", func(f *fixture) {
		keys := []actor.Key{
			{App: f.app, Type: "Cart", ID: "x"},
			{App: f.app, Type: "Cart-", ID: "x"},
			{App: f.app + ".other", Type: "Cart", ID: "x"},
			{App: f.app, Type: "cart", ID: "x"},
			{App: f.app, Type: "Cart", ID: "X"},
		}
		commits := make([]actor.Commit, len(keys))
		for i, k := range keys {
			commits[i] = write(k, actor.Row{}, fmt.Sprintf(`{"i":%d}`, i))
		}
		for _, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
		}
		f.apply(remove(keys[2], f.load(keys[2])))
		for i, k := range keys {
			if i != 2 {
				f.wrote(f.load(k), commits[i], fmt.Sprintf(`{"i":%d}`, i))
			}
		}
	}},
	{"commits are not kept", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		sent := c
		commits := []actor.Commit{c}
		f.ok(f.s.Commit(f.ctx(), commits)[0])
		copy(commits[0].Rows[0].State.Data, `xxxxxxx`)
		commits[0] = actor.Commit{}
		f.wrote(f.load(sent.Anchor().Key), sent, `{"n":1}`)
	}},
	{"a large group of large states applies", func(f *fixture) {
		const n, size = 24, 1 << 20
		commits := make([]actor.Commit, n)
		for i := range commits {
			commits[i] = touch(f.key(manyID(i)), actor.Row{})
			data := make([]byte, size)
			for j := range data {
				data[j] = byte(i + j*7)
			}
			commits[i].Rows[0].State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: data}
		}
		for _, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
		}
		for i := range commits {
			row := f.load(commits[i].Anchor().Key)
			if string(row.State.Data) != string(commits[i].Rows[0].State.Data) {
				f.Fatalf("state %d differs", i)
			}
		}
	}},
}}

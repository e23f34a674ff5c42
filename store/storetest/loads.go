package storetest

import (
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

var loads = suite{"Loads", []testCase{
	{"no keys give no rows", func(f *fixture) {
		rows, err := f.s.LoadActors(f.ctx(), nil, actor.LoadOptions{})
		f.ok(err)
		if len(rows) != 0 {
			f.Fatalf("%d rows", len(rows))
		}
	}},
	{"an actor without a row gives the zero row", func(f *fixture) {
		f.same(f.load(f.key("nobody")), actor.Row{})
	}},
	{"rows come in the order of keys, missing and repeated ones too", func(f *fixture) {
		a := write(f.key("a"), actor.Row{}, `{"who":"a"}`)
		b := write(f.key("b"), actor.Row{}, `{"who":"b"}`)
		f.apply(a)
		f.apply(b)
		keys := []actor.Key{f.key("b"), f.key("none"), f.key("a"), f.key("b"), f.key("none"), f.key("b")}
		rows, err := f.s.LoadActors(f.ctx(), keys, actor.LoadOptions{})
		f.ok(err)
		if len(rows) != len(keys) {
			f.Fatalf("%d rows for %d keys", len(rows), len(keys))
		}
		for i, k := range keys {
			switch k.ID {
			case "a":
				f.wrote(rows[i], a, `{"who":"a"}`)
			case "b":
				f.wrote(rows[i], b, `{"who":"b"}`)
			default:
				f.same(rows[i], actor.Row{})
			}
		}
	}},
	{"rows own their bytes", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		f.apply(c)
		rows, err := f.s.LoadActors(f.ctx(), []actor.Key{c.Anchor().Key, c.Anchor().Key}, actor.LoadOptions{})
		f.ok(err)
		copy(rows[0].State.Data, `xxxxxxx`)
		f.wrote(rows[1], c, `{"n":1}`)
		f.wrote(f.load(c.Anchor().Key), c, `{"n":1}`)
		kept := rows[1]
		f.apply(write(c.Anchor().Key, kept, `{"n":2}`))
		f.wrote(kept, c, `{"n":1}`)
	}},
	{"a bound on bytes leaves rows out, and says which", func(f *fixture) {
		const n, size, most = 300, 10 << 10, 100 << 10
		state := `{"x":"` + strings.Repeat("x", size) + `"}`
		var commits []actor.Commit
		keys := []actor.Key{f.key("none")}
		for i := range n {
			commits = append(commits, write(f.key(manyID(i)), actor.Row{}, state))
			keys = append(keys, commits[i].Anchor().Key)
		}
		for _, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
		}
		left, found := keys, 0
		for len(left) > 0 {
			rows, err := f.s.LoadActors(f.ctx(), left, actor.LoadOptions{MaxBytes: most})
			f.ok(err)
			var unread []actor.Key
			read := 0
			for i, row := range rows {
				switch {
				case row.Unread:
					f.same(row, actor.Row{Unread: true})
					unread = append(unread, left[i])
				case left[i].ID == "none":
					f.same(row, actor.Row{})
				default:
					read += len(row.State.Data)
					found++
				}
			}
			if read >= most+len(state) {
				f.Fatalf("%d bytes were read, above %d by more than one row", read, most)
			}
			if len(unread) == len(left) {
				f.Fatal("nothing was read")
			}
			left = unread
		}
		if found != n {
			f.Fatalf("%d of %d rows were read", found, n)
		}
	}},
	{"a stale read is at most MaxStaleness old", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		f.apply(c)
		// Whatever it shows, it is the row, or no row yet, and the row once the
		// bound has passed. Polling is all that is possible: it is real time.
		deadline := time.Now().Add(actor.MaxStaleness + 10*time.Second)
		for {
			late := time.Now().After(deadline) // before the read: it may be long ago afterwards
			rows, err := f.s.LoadActors(f.ctx(), []actor.Key{c.Anchor().Key}, actor.LoadOptions{AllowStale: true})
			f.ok(err)
			if rows[0].Version != 0 {
				f.wrote(rows[0], c, `{"n":1}`)
				return
			}
			if late {
				f.Fatal("the row never showed")
			}
		}
	}},
}}

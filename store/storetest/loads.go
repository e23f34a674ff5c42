package storetest

import (
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
		rows, err := f.s.LoadActors(f.ctx(), []actor.Key{c.Key, c.Key}, actor.LoadOptions{})
		f.ok(err)
		copy(rows[0].State.Data, `xxxxxxx`)
		f.wrote(rows[1], c, `{"n":1}`)
		f.wrote(f.load(c.Key), c, `{"n":1}`)
		kept := rows[1]
		f.apply(write(c.Key, kept, `{"n":2}`))
		f.wrote(kept, c, `{"n":1}`)
	}},
	{"a stale read is at most MaxStaleness old", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		f.apply(c)
		// Whatever it shows, it is the row, or no row yet, and the row once the
		// bound has passed. Polling is all that is possible: it is real time.
		deadline := time.Now().Add(actor.MaxStaleness + 10*time.Second)
		for {
			rows, err := f.s.LoadActors(f.ctx(), []actor.Key{c.Key}, actor.LoadOptions{AllowStale: true})
			f.ok(err)
			if rows[0].Version != 0 {
				f.wrote(rows[0], c, `{"n":1}`)
				return
			}
			if time.Now().After(deadline) {
				f.Fatal("the row never showed")
			}
		}
	}},
}}

package storetest

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var lives = suite{"Lives", []testCase{
	{"a method set stays with the state until another one replaces it", func(f *fixture) {
		row := f.apply(become(write(f.key("a"), actor.Row{}, `{"n":1}`), "open"))
		f.lives(row, 0, false, "open")
		f.lives(f.apply(write(f.key("a"), row, `{"n":2}`)), 0, false, "open")
		row = f.apply(touch(f.key("a"), f.load(f.key("a"))))
		f.lives(row, 0, false, "open")
		row = f.apply(bump(f.key("a"), row))
		f.lives(row, 0, false, "open")
		row = f.apply(become(write(f.key("a"), row, `{"n":3}`), "closed"))
		f.lives(row, 0, false, "closed")
		f.lives(f.apply(become(touch(f.key("a"), row), "")), 0, false, "")
	}},
	{"a method set goes with the state when the actor is deleted", func(f *fixture) {
		row := f.apply(become(write(f.key("a"), actor.Row{}, `{"n":1}`), "open"))
		row = f.apply(remove(f.key("a"), row))
		f.lives(row, 0, false, "")
		f.lives(f.apply(write(f.key("a"), row, `{"n":1}`)), 0, false, "")
	}},
	{"lives count on, and what follows does not change them", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		for life := uint64(1); life <= 3; life++ {
			row = f.apply(passAway(f.key("a"), row))
			f.lives(row, life, false, "")
			if !row.Deleted || len(row.State.Data) > 0 {
				f.Fatalf("an actor that passed away leaves %s", describe(row))
			}
			row = f.apply(become(write(f.key("a"), row, `{"n":1}`), "open"))
			f.lives(row, life, false, "open")
		}
		f.lives(f.apply(remove(f.key("a"), row)), 3, false, "")
	}},
	{"the end of a life is the database's time, and stays", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		if !row.Born.IsZero() {
			f.Fatalf("the first life has begun at %v", row.Born)
		}
		f.untilAfter(row.UpdatedAt)
		end := f.apply(passAway(f.key("a"), row))
		if end.Born.Before(row.UpdatedAt) || end.Born.After(f.now()) {
			f.Fatalf("the life that was written at %v ended at %v; it is %v", row.UpdatedAt, end.Born, f.now())
		}
		row = f.apply(become(write(f.key("a"), f.apply(bump(f.key("a"), end)), `{"n":1}`), "open"))
		if !row.Born.Equal(end.Born) {
			f.Fatalf("the life began at %v, and later at %v", end.Born, row.Born)
		}
	}},
	{"the end of a life removes reminders, and leaves messages", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		b := f.bucket()
		m := message(f, b, 1, "b", "a", 7, 0)
		f.ok(f.commit(setting(write(f.key("b"), actor.Row{}, `{}`), m, f.reminder(b, 2, "a", "r"))))
		sent := message(f, b, 3, "b", "a", 8, 0)
		f.ok(f.commit(setting(passAway(f.key("a"), row), sent))) // in the same commit
		f.none("a", "r")
		inbox(f, "a", m, sent)
		f.ok(f.commit(setting(write(f.key("a"), f.load(f.key("a")), `{"n":1}`), f.reminder(b, 4, "a", "r"))))
		again := consuming(f, passAway(f.key("a"), f.load(f.key("a"))), m) // with the turn of a message
		f.ok(f.commit(again))
		f.none("a", "r")
		inbox(f, "a", sent)
		f.ok(f.commit(remove(f.key("a"), f.load(f.key("a")))))
		inbox(f, "a")
	}},
	{"a refused commit changes neither life nor method set", func(f *fixture) {
		old := f.apply(become(write(f.key("a"), actor.Row{}, `{"n":1}`), "open"))
		row := f.apply(write(f.key("a"), old, `{"n":2}`))
		f.refuse(passAway(f.key("a"), old), actor.ErrStale)
		f.refuse(become(write(f.key("a"), old, `{"n":3}`), "closed"), actor.ErrStale)
		spawned := setOf(write(f.key("a"), old, `{"n":3}`), spawn(f.key("b")))
		f.refuse(spawned, actor.ErrStale)
		f.same(f.load(f.key("a")), row)
		f.same(f.load(f.key("b")), actor.Row{})
	}},
	{"a commit spawns several actors, all or none", func(f *fixture) {
		row := f.apply(write(f.key("parent"), actor.Row{}, `{"n":1}`))
		taken := f.apply(write(f.key("taken"), actor.Row{}, `{}`))
		f.refuse(setOf(write(f.key("parent"), row, `{"n":2}`), spawn(f.key("a")), spawn(f.key("taken"))), actor.ErrStale)
		f.same(f.load(f.key("a")), actor.Row{})
		f.same(f.load(f.key("taken")), taken)
		f.apply(setOf(write(f.key("parent"), row, `{"n":2}`), spawn(f.key("a")), spawn(f.key("b"))))
		for _, id := range []string{"a", "b"} {
			if child := f.load(f.key(id)); child.Version == 0 || child.Deleted || child.State.Format != actor.FormatNone {
				f.Fatalf("a spawned actor has the row %s", describe(child))
			} else {
				f.lives(child, 0, true, "")
			}
		}
	}},
	{"a locked turn spawns, and is refused where an actor is there", func(f *fixture) {
		turn := func(child string) error {
			_, err := f.s.LockedTurn(f.ctx(), f.key("parent"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				c := setOf(become(write(f.key("parent"), row, `{"n":1}`), "open"), spawn(f.key(child)))
				return &c, nil
			})
			return err
		}
		f.ok(turn("a"))
		f.lives(f.load(f.key("a")), 0, true, "")
		parent := f.load(f.key("parent"))
		f.lives(parent, 0, false, "open")
		f.is(turn("a"), actor.ErrStale)
		f.same(f.load(f.key("parent")), parent)
	}},
	{"a spawned actor stays dead longer than a tombstone", func(f *fixture) {
		child := f.apply(spawn(f.key("a")))
		other := f.apply(write(f.key("b"), actor.Row{}, `{"n":1}`))
		child = f.apply(write(f.key("a"), child, `{"n":1}`))
		child = f.apply(passAway(f.key("a"), child))
		f.lives(child, 1, true, "")
		f.apply(passAway(f.key("b"), other))
		child = f.apply(bump(f.key("a"), child)) // which keeps it dead as long
		f.sweepAll()
		f.same(f.load(f.key("a")), child)
		f.same(f.load(f.key("b")), actor.Row{})
		_, err := f.s.SweepTombstones(f.ctx(), f.now().Add(actor.SpawnedRetention+time.Minute), store.MaxList)
		f.ok(err)
		f.same(f.load(f.key("a")), actor.Row{})
	}},
	{"what breaks the contract is refused", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		life := write(f.key("a"), row, `{"n":2}`)
		life.Rows[0].NewLife = true
		late := write(f.key("a"), row, `{"n":2}`)
		late.Rows[0].Spawned = true
		for _, c := range []actor.Commit{
			life, late, become(write(f.key("a"), row, `{"n":2}`), "two words"), become(remove(f.key("a"), row), "open"), become(bump(f.key("a"), row), "open"),
		} {
			f.argument(f.commit(c))
		}
		f.same(f.load(f.key("a")), row)
	}},
}}

package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
)

var sets = suite{"Sets", []testCase{
	{"a set writes, makes, moves, deletes and reads its rows together", func(f *fixture) {
		live := f.apply(write(f.key("live"), actor.Row{}, `{"n":1}`))
		doomed := f.apply(write(f.key("doomed"), actor.Row{}, `{"n":1}`))
		touched := f.apply(write(f.key("touched"), actor.Row{}, `{"n":1}`))
		fenced := f.apply(write(f.key("fenced"), actor.Row{}, `{"n":1}`))
		looked := f.apply(write(f.key("read"), actor.Row{}, `{"n":1}`))
		tomb := f.apply(remove(f.key("tomb"), actor.Row{}))
		c := setOf(write(f.key("live"), live, `{"n":2}`),
			write(f.key("new"), actor.Row{}, `{"n":2}`), remove(f.key("doomed"), doomed), touch(f.key("touched"), touched),
			bump(f.key("fenced"), fenced), read(f.key("read"), looked), read(f.key("none"), actor.Row{}), write(f.key("tomb"), tomb, `{"n":2}`),
			touch(f.key("empty"), actor.Row{}), bump(f.key("nobody"), actor.Row{}))
		c = recording(c, record("k", "x"), of(f.key("new"), record("k", "y")), of(f.key("elsewhere"), record("k", "z")))
		f.ok(f.commit(c))
		f.changed(c, `{"n":2}`, `{"n":2}`, "", `{"n":1}`, "moved", `{"n":2}`, "", "moved")
		f.same(f.load(f.key("read")), looked)
		f.same(f.load(f.key("none")), actor.Row{})
		moved := bump(f.key("fenced"), fenced)
		moved.ID = c.ID
		f.moved(f.load(f.key("fenced")), moved, fenced)
		f.has(f.key("live"), record("k", "x"))
		f.has(f.key("new"), record("k", "y"))
		f.has(f.key("elsewhere"), record("k", "z"))
		f.ok(f.s.Settle(f.ctx(), c))
	}},
	{"one stale member refuses all, and its neighbours never notice", func(f *fixture) {
		rows := f.insertMany(30)
		stale := f.apply(write(f.key("moved"), actor.Row{}, `{"n":1}`))
		f.apply(touch(f.key("moved"), stale))
		neighbour := func(i int) actor.Commit { return write(f.key(manyID(i)), rows[i], `{"second":1}`) }
		wrong := []actor.Commit{
			write(f.key("moved"), stale, `{"n":3}`), read(f.key("moved"), stale), remove(f.key("moved"), stale),
			write(f.key("moved"), actor.Row{}, `{"n":3}`), read(f.key("moved"), actor.Row{}),
			write(f.key("never"), actor.Row{Version: 7}, `{}`), read(f.key("never"), actor.Row{Version: 7}),
		}
		for i, w := range wrong {
			// The stale one is last, first among the others, and in the middle.
			members := []actor.Commit{neighbour(0), write(f.key("new"), actor.Row{}, `{}`), read(f.key(manyID(1)), rows[1]), read(f.key("none"), actor.Row{})}
			at := 1 + i%len(members)
			members = append(members[:at:at], append([]actor.Commit{w}, members[at:]...)...)
			c := recording(setOf(members...), record("k", "x"))
			alone, other := neighbour(2+3*i), setOf(neighbour(3+3*i), read(f.key(manyID(4+3*i)), rows[4+3*i]))
			errs := f.s.Commit(f.ctx(), []actor.Commit{alone, c, other})
			f.ok(errs[0])
			f.is(errs[1], actor.ErrStale)
			f.ok(errs[2])
			f.wrote(f.load(alone.Anchor().Key), alone, `{"second":1}`)
			f.changed(other, `{"second":1}`)
			f.same(f.load(f.key(manyID(0))), rows[0])
			f.same(f.load(f.key("new")), actor.Row{})
			f.same(f.load(f.key("none")), actor.Row{})
			f.same(f.load(f.key("never")), actor.Row{})
			f.hasNone(c.Anchor().Key, record("k", ""))
		}
	}},
	{"a set whose own row is stale is refused whole", func(f *fixture) {
		old := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		b := f.apply(write(f.key("b"), actor.Row{}, `{"n":1}`))
		f.apply(touch(f.key("a"), old))
		f.is(f.commit(setOf(write(f.key("a"), old, `{"n":2}`), write(f.key("b"), b, `{"n":2}`))), actor.ErrStale)
		f.is(f.commit(setOf(write(f.key("a"), actor.Row{}, `{"n":2}`), write(f.key("b"), b, `{"n":2}`))), actor.ErrStale)
		f.same(f.load(f.key("b")), b)
	}},
	{"a key that exists refuses a set whole", func(f *fixture) {
		a := f.apply(recording(write(f.key("a"), actor.Row{}, `{"n":1}`), record("k", "first")))
		b := f.apply(write(f.key("b"), actor.Row{}, `{"n":1}`))
		for _, c := range []actor.Commit{
			recording(setOf(write(f.key("a"), a, `{"n":2}`), write(f.key("b"), b, `{"n":2}`)), record("l", "x"), record("k", "x")),
			recording(setOf(write(f.key("b"), b, `{"n":2}`), write(f.key("new"), actor.Row{}, `{}`)), of(f.key("a"), record("k", "x"))),
		} {
			neighbour := setOf(write(f.key("n"), f.load(f.key("n")), `{"n":1}`), read(f.key("none"), actor.Row{}))
			errs := f.s.Commit(f.ctx(), []actor.Commit{c, neighbour})
			f.is(errs[0], actor.ErrKeyExists)
			f.ok(errs[1])
			f.same(f.load(f.key("a")), a)
			f.same(f.load(f.key("b")), b)
			f.same(f.load(f.key("new")), actor.Row{})
			f.hasNone(f.key("a"), record("l", ""))
		}
	}},
	{"a set sent again is refused, or found to be applied by its records", func(f *fixture) {
		c := setOf(write(f.key("a"), actor.Row{}, `{"n":1}`), write(f.key("b"), actor.Row{}, `{"n":1}`))
		f.ok(f.commit(c))
		f.is(f.commit(c), actor.ErrStale)
		c = recording(setOf(write(f.key("c"), actor.Row{}, `{"n":1}`), write(f.key("d"), actor.Row{}, `{"n":1}`)), record("k", "x"))
		f.ok(f.commit(c))
		f.ok(f.commit(c))
		f.changed(c, `{"n":1}`, `{"n":1}`)
	}},
	{"sets that overlap in a group are refused", func(f *fixture) {
		a, b := write(f.key("a"), actor.Row{}, `{"n":1}`), write(f.key("b"), actor.Row{}, `{"n":1}`)
		first := setOf(a, b)
		for _, second := range []actor.Commit{
			setOf(write(f.key("c"), actor.Row{}, `{}`), write(f.key("b"), actor.Row{}, `{}`)),
			setOf(write(f.key("c"), actor.Row{}, `{}`), read(f.key("a"), actor.Row{})),
			setOf(write(f.key("b"), actor.Row{}, `{}`), read(f.key("c"), actor.Row{})),
			write(f.key("b"), actor.Row{}, `{}`),
		} {
			third := write(f.key("c"), f.load(f.key("c")), `{"n":3}`) // which the second does not keep out
			errs := f.s.Commit(f.ctx(), []actor.Commit{first, second, third})
			f.ok(errs[0])
			f.argument(errs[1])
			f.ok(errs[2])
			f.changed(first, `{"n":1}`, `{"n":1}`)
			f.wrote(f.load(third.Anchor().Key), third, `{"n":3}`)
			first = setOf(write(f.key("a"), f.load(f.key("a")), `{"n":1}`), write(f.key("b"), f.load(f.key("b")), `{"n":1}`))
		}
	}},
	{"sets that overlap and come at once are one after the other", func(f *fixture) {
		// Each moves all of its counters on, in an order of its own, or none.
		const goroutines, each, counters = 6, 10, 4
		f.inParallel(goroutines, func(i int) error {
			for n := 0; n < each; {
				var members []actor.Commit
				for j := range counters {
					k := f.key(manyID((j*(2*i+1) + i) % counters))
					row := f.load(k)
					members = append(members, counted(k, row, count(row)+1))
				}
				if i%3 == 0 { // some only read one of them
					k := f.key("watched")
					members = append(members, read(k, f.load(k)))
				}
				switch err := f.commit(setOf(members...)); {
				case err == nil:
					n++
				case !errors.Is(err, actor.ErrStale):
					return err
				}
			}
			return nil
		})
		for j := range counters {
			f.counts(f.key(manyID(j)), goroutines*each)
		}
	}},
	{"a large group of sets and others applies", func(f *fixture) {
		const n, size = 90, 5 // 450 rows, so that it is cut
		rows := f.insertMany(n * size)
		var commits []actor.Commit
		for i := range n {
			var members []actor.Commit
			for j := range size - 1 {
				members = append(members, write(f.key(manyID(i*size+j)), rows[i*size+j], `{"second":1}`))
			}
			members = append(members, read(f.key(manyID(i*size+size-1)), rows[i*size+size-1]))
			commits = append(commits, recording(setOf(members...), record("k", fmt.Sprint(i))))
		}
		for _, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
		}
		for _, c := range commits {
			f.changed(c, `{"second":1}`, `{"second":1}`, `{"second":1}`, `{"second":1}`)
			f.has(c.Anchor().Key, c.Records[0])
		}
	}},
	{"a set is settled by any row", func(f *fixture) {
		for i := range 4 {
			ids := []string{fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i)}
			rows := make([]actor.Row, len(ids))
			var members []actor.Commit
			for j, id := range ids {
				if i%2 == 1 {
					rows[j] = f.apply(write(f.key(id), actor.Row{}, `{"n":1}`))
				}
				members = append(members, write(f.key(id), rows[j], `{"n":2}`))
			}
			c := setOf(members...)
			if i < 2 {
				// Applied: each row tells, also when the others have moved on.
				f.ok(f.commit(c))
				for _, id := range ids[:2] {
					f.apply(touch(f.key(id), f.load(f.key(id))))
					f.ok(f.s.Settle(f.ctx(), c))
				}
				f.apply(touch(f.key(ids[2]), f.load(f.key(ids[2]))))
				f.is(f.s.Settle(f.ctx(), c), actor.ErrAmbiguous)
				continue
			}
			// Not applied: settling keeps all of it out by its own row alone.
			f.is(f.s.Settle(f.ctx(), c), actor.ErrStale)
			for j, id := range ids[1:] {
				f.same(f.load(f.key(id)), rows[j+1])
			}
			f.is(f.commit(c), actor.ErrStale)
			f.is(f.s.Settle(f.ctx(), c), actor.ErrStale)
			for j, id := range ids[1:] {
				f.same(f.load(f.key(id)), rows[j+1])
			}
		}
	}},
	{"a set that another writer came before was never applied", func(f *fixture) {
		a, b := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`)), f.apply(write(f.key("b"), actor.Row{}, `{"n":1}`))
		lost := setOf(write(f.key("a"), a, `{"n":2}`), write(f.key("b"), b, `{"n":2}`))
		won := f.apply(touch(f.key("a"), a))
		f.is(f.s.Settle(f.ctx(), lost), actor.ErrStale)
		// Its own row is far past it, but the other is where it was.
		far := touch(f.key("a"), won)
		far.Rows[0].NewVersion += 100
		f.apply(far)
		f.is(f.s.Settle(f.ctx(), lost), actor.ErrStale)
		f.same(f.load(f.key("b")), b)
	}},
	{"settling a set against its commit ends with one truth", func(f *fixture) {
		for i := range 30 {
			ka, kb := f.key("a"+manyID(i)), f.key("b"+manyID(i))
			var a, b actor.Row
			if i%2 == 1 {
				a, b = f.apply(write(ka, a, `{"n":0}`)), f.apply(write(kb, b, `{"n":0}`))
			}
			c := setOf(write(ka, a, `{"n":1}`), write(kb, b, `{"n":1}`))
			var committed, settled error
			f.together(func() { committed = f.commit(c) }, func() { settled = f.s.Settle(f.ctx(), c) })
			if committed == nil {
				f.ok(settled)
				f.changed(c, `{"n":1}`, `{"n":1}`)
				continue
			}
			f.is(committed, actor.ErrStale)
			f.is(settled, actor.ErrStale)
			f.same(f.load(kb), b)
		}
	}},
	{"a locked turn and a set exclude each other", func(f *fixture) {
		a := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		_, err := f.s.LockedTurn(f.ctx(), f.key("a"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			c := setOf(write(f.key("a"), row, `{"n":2}`), write(f.key("b"), actor.Row{}, `{"n":2}`))
			return &c, nil
		})
		f.argument(err)
		f.same(f.load(f.key("a")), a)
		const goroutines, each = 4, 10
		f.inParallel(goroutines, func(i int) error {
			for n := 0; n < each; {
				var err error
				if i%2 == 0 {
					row, other := f.load(f.key("x")), f.load(f.key("y"))
					err = f.commit(setOf(counted(f.key("x"), row, count(row)+1), counted(f.key("y"), other, count(other)+1)))
				} else {
					_, err = f.s.LockedTurn(f.ctx(), f.key("x"), func(_ context.Context, row actor.Row) (*actor.Commit, error) {
						c := counted(f.key("x"), row, count(row)+1)
						return &c, nil
					})
				}
				switch {
				case err == nil:
					n++
				case !errors.Is(err, actor.ErrStale):
					return err
				}
			}
			return nil
		})
		f.counts(f.key("x"), goroutines*each)
		f.counts(f.key("y"), goroutines/2*each)
	}},
	{"malformed sets are refused before anything applies", func(f *fixture) {
		a, b := write(f.key("a"), actor.Row{}, `{}`), write(f.key("b"), actor.Row{}, `{}`)
		twice, both, badKey, badFence, notAbove, tooHigh, nothing := setOf(a, b), setOf(a, b), setOf(a, b), setOf(a, b), setOf(a, b), setOf(a, b), setOf(a, b)
		twice.Rows = append(twice.Rows, twice.Rows[1])
		both.Fences = fenceOf(both.Rows[1].Key, actor.Row{})
		badKey.Rows[1].Key.ID = ""
		badFence.Fences = []actor.RowFence{{}}
		notAbove.Rows[1].ReadVersion = notAbove.Rows[1].NewVersion
		tooHigh.Fences = fenceOf(f.key("c"), actor.Row{Version: 1 << 63})
		nothing.Rows, nothing.Fences = nil, fenceOf(f.key("c"), actor.Row{})
		for _, c := range []actor.Commit{twice, both, badKey, badFence, notAbove, tooHigh, nothing} {
			f.argument(f.commit(c))
			f.argument(f.s.Settle(f.ctx(), c))
		}
		f.same(f.load(f.key("a")), actor.Row{})
		f.same(f.load(f.key("b")), actor.Row{})
	}},
}}

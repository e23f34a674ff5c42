package storetest

import (
	"bytes"
	"context"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
)

var fences = suite{"Fences", []testCase{
	{"an insert makes a row at its own version", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		f.wrote(f.apply(c), c, `{"n":1}`)
	}},
	{"an update moves the row to the new version", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := write(f.key("a"), row, `{"n":2}`)
		c.Rows[0].NewVersion += 41
		c.Rows[0].Generation, c.Rows[0].StateSchema = 9, 2
		f.wrote(f.apply(c), c, `{"n":2}`)
	}},
	{"an update without state keeps the state", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := touch(f.key("a"), row)
		f.wrote(f.apply(c), c, `{"n":1}`)
	}},
	{"an insert without state makes a row of no format", func(f *fixture) {
		c := touch(f.key("a"), actor.Row{})
		row := f.apply(c)
		f.wrote(row, c, "")
		next := write(f.key("a"), row, `{}`)
		f.wrote(f.apply(next), next, `{}`)
	}},
	{"an update can take the state away", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := touch(f.key("a"), row)
		c.Rows[0].State = &actor.EncodedState{}
		f.wrote(f.apply(c), c, "")
	}},
	{"an empty state keeps its format", func(f *fixture) {
		c := touch(f.key("a"), actor.Row{})
		c.Rows[0].State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: []byte{}}
		if row := f.apply(c); row.State.Format != actor.FormatEnvelope || len(row.State.Data) != 0 {
			f.Fatalf("row is %s", describe(row))
		}
	}},
	{"a stale update is refused", func(f *fixture) {
		old := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.apply(write(f.key("a"), old, `{"n":2}`))
		f.refuse(write(f.key("a"), old, `{"n":3}`), actor.ErrStale)
		f.refuse(touch(f.key("a"), old), actor.ErrStale)
	}},
	{"a version from the future is refused", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		row.Version++
		f.refuse(write(f.key("a"), row, `{"n":3}`), actor.ErrStale)
	}},
	{"a version above 0 never inserts", func(f *fixture) {
		f.refuse(write(f.key("a"), actor.Row{Version: 5}, `{}`), actor.ErrStale)
		f.refuse(touch(f.key("a"), actor.Row{Version: 5}), actor.ErrStale)
		f.refuse(remove(f.key("a"), actor.Row{Version: 5}), actor.ErrStale)
	}},
	{"an insert is refused when a row exists", func(f *fixture) {
		f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.refuse(write(f.key("a"), actor.Row{}, `{"n":2}`), actor.ErrStale)
	}},
	{"a commit that applied is refused when it comes again", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{"n":1}`)
		row := f.apply(c)
		f.refuse(c, actor.ErrStale)
		c = write(f.key("a"), row, `{"n":2}`)
		f.apply(c)
		f.refuse(c, actor.ErrStale)
	}},
	{"a bump moves a live row's version on and leaves all else", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		earlier := write(f.key("a"), row, `{"n":2}`)
		c := bump(f.key("a"), row)
		c.Rows[0].Generation, c.Rows[0].StateSchema = 99, 99
		f.bumped(c, row)
		f.refuse(earlier, actor.ErrStale)
		f.refuse(c, actor.ErrStale)
		f.ok(f.s.Settle(f.ctx(), c))
	}},
	{"a bump leaves a tombstone a tombstone", func(f *fixture) {
		tomb := f.apply(remove(f.key("a"), f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))))
		earlier := write(f.key("a"), tomb, `{"n":2}`)
		f.bumped(bump(f.key("a"), tomb), tomb)
		f.refuse(earlier, actor.ErrStale)
		f.lists(nil, "", 10)
		f.sweepAll()
		f.same(f.load(f.key("a")), actor.Row{})
	}},
	{"a bump of an actor without a row leaves a tombstone", func(f *fixture) {
		earlier := write(f.key("a"), actor.Row{}, `{"n":1}`)
		c := bump(f.key("a"), actor.Row{})
		row := f.apply(c)
		f.moved(row, c, actor.Row{Deleted: true})
		f.refuse(earlier, actor.ErrStale)
		f.lists(nil, "", 10)
		f.ok(f.s.Settle(f.ctx(), c))
		f.sweepAll()
		f.same(f.load(f.key("a")), actor.Row{})
	}},
	{"a bump that is stale is refused, and one that is lost is settled", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.refuse(bump(f.key("a"), actor.Row{}), actor.ErrStale)
		f.refuse(bump(f.key("a"), actor.Row{Version: row.Version + 1}), actor.ErrStale)
		f.refuse(bump(f.key("b"), actor.Row{Version: 5}), actor.ErrStale)
		f.never(bump(f.key("a"), row))
		f.never(bump(f.key("c"), actor.Row{}))
	}},
	{"a locked turn may bump", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		turn := func(k actor.Key) actor.Commit {
			var c actor.Commit
			_, err := f.s.LockedTurn(f.ctx(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				c = bump(k, row)
				return &c, nil
			})
			f.ok(err)
			return c
		}
		c := turn(f.key("a"))
		f.moved(f.load(f.key("a")), c, row)
		c = turn(f.key("none"))
		f.moved(f.load(f.key("none")), c, actor.Row{Deleted: true})
	}},
	{"malformed commits are refused before anything applies", func(f *fixture) {
		var malformed []actor.Commit
		for _, spoil := range []func(c *actor.Commit, w *actor.RowWrite){
			func(c *actor.Commit, _ *actor.RowWrite) { c.ID = actor.CommitID{} },
			func(_ *actor.Commit, w *actor.RowWrite) { w.ReadVersion = w.NewVersion },
			func(_ *actor.Commit, w *actor.RowWrite) { w.NewVersion = 1 << 63 },
			func(_ *actor.Commit, w *actor.RowWrite) { w.Key.ID = "" },
			func(_ *actor.Commit, w *actor.RowWrite) { w.State = &actor.EncodedState{Data: []byte("x")} },
			func(_ *actor.Commit, w *actor.RowWrite) { w.Bump = true },
			func(_ *actor.Commit, w *actor.RowWrite) { w.State, w.Delete, w.Bump = nil, true, true },
			func(c *actor.Commit, _ *actor.RowWrite) { c.Rows = nil },
		} {
			c := write(f.key(strings.Repeat("x", len(malformed)+1)), actor.Row{}, `{}`)
			spoil(&c, &c.Rows[0])
			malformed = append(malformed, c)
		}
		for i, c := range malformed {
			neighbour := write(f.key("neighbour-"+strings.Repeat("x", i)), actor.Row{}, `{}`)
			errs := f.s.Commit(f.ctx(), []actor.Commit{c, neighbour})
			f.argument(errs[0])
			f.ok(errs[1])
		}
		first, second := write(f.key("twice"), actor.Row{}, `{"n":1}`), write(f.key("twice"), actor.Row{}, `{"n":2}`)
		errs := f.s.Commit(f.ctx(), []actor.Commit{first, second})
		f.ok(errs[0])
		f.argument(errs[1])
		f.wrote(f.load(first.Anchor().Key), first, `{"n":1}`)
	}},
	{"the highest version and generation are kept", func(f *fixture) {
		c := write(f.key("a"), actor.Row{}, `{}`)
		c.Rows[0].NewVersion, c.Rows[0].Generation, c.Rows[0].StateSchema = 1<<63-1, 1<<63-1, 1<<32-1
		f.wrote(f.apply(c), c, `{}`)
	}},
	{"a state of 1 MiB and an ID of 512 bytes are kept", func(f *fixture) {
		k := f.key(strings.Repeat("é", actor.MaxIDLen/2))
		c := touch(k, actor.Row{})
		data := bytes.Repeat([]byte{0x00, 0xff, 0x80, 'x'}, 1<<18)
		c.Rows[0].State = &actor.EncodedState{Format: actor.FormatEnvelope, Data: data}
		row := f.apply(c)
		if row.State.Format != actor.FormatEnvelope || !bytes.Equal(row.State.Data, data) {
			f.Fatalf("row is %s", describe(row))
		}
	}},
	{"JSON is kept byte for byte", func(f *fixture) {
		text := `{"b":1.0,"a":"\u00e9 é \u0000","c":12345678901234567890,"a":2}`
		c := write(f.key("a"), actor.Row{}, text)
		f.wrote(f.apply(c), c, text)
	}},
	{"UpdatedAt is database time of the commit", func(f *fixture) {
		before := f.now()
		first := f.apply(write(f.key("a"), actor.Row{}, `{}`))
		between := f.now()
		second := f.apply(touch(f.key("a"), first))
		after := f.now()
		if first.UpdatedAt.Before(before) || between.Before(first.UpdatedAt) ||
			second.UpdatedAt.Before(between) || after.Before(second.UpdatedAt) {
			f.Fatalf("times are not in order: %v, row %v, %v, row %v, %v", before, first.UpdatedAt, between, second.UpdatedAt, after)
		}
	}},
}}

var tombstones = suite{"Tombstones", []testCase{
	{"a delete leaves a row without state that fences", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := remove(f.key("a"), row)
		c.Rows[0].State = nil
		f.wrote(f.apply(c), c, "")
	}},
	{"a delete drops the state that comes with it", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := remove(f.key("a"), row)
		c.Rows[0].State = jsonState(`{"n":2}`)
		f.wrote(f.apply(c), c, "")
	}},
	{"deleting an actor without a row leaves a tombstone", func(f *fixture) {
		c := remove(f.key("a"), actor.Row{})
		f.wrote(f.apply(c), c, "")
	}},
	{"a stale owner cannot write after a delete", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.apply(remove(f.key("a"), row))
		f.refuse(write(f.key("a"), row, `{"n":2}`), actor.ErrStale)
		f.refuse(remove(f.key("a"), row), actor.ErrStale)
	}},
	{"an insert is refused when a tombstone exists", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.apply(remove(f.key("a"), row))
		f.refuse(write(f.key("a"), actor.Row{}, `{"n":2}`), actor.ErrStale)
		f.refuse(touch(f.key("a"), actor.Row{}), actor.ErrStale)
	}},
	{"a new actor goes on top of the tombstone", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		tomb := f.apply(remove(f.key("a"), row))
		c := write(f.key("a"), tomb, `{"n":2}`)
		row = f.apply(c)
		f.wrote(row, c, `{"n":2}`)
		if row.Version != tomb.Version+1 {
			f.Fatalf("version is %d after a tombstone of %d", row.Version, tomb.Version)
		}
	}},
	{"touching a tombstone makes a live row without state", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := touch(f.key("a"), f.apply(remove(f.key("a"), row)))
		f.wrote(f.apply(c), c, "")
	}},
	{"a tombstone can be deleted again", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := remove(f.key("a"), f.apply(remove(f.key("a"), row)))
		f.wrote(f.apply(c), c, "")
	}},
	{"a stale owner cannot write after the sweep", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		tomb := f.apply(remove(f.key("a"), row))
		f.sweepAll()
		if row := f.load(f.key("a")); row.Version != 0 {
			f.Fatalf("the tombstone is still there: %s", describe(row))
		}
		f.refuse(write(f.key("a"), row, `{"n":2}`), actor.ErrStale)
		f.refuse(write(f.key("a"), tomb, `{"n":2}`), actor.ErrStale)
		c := write(f.key("a"), actor.Row{}, `{"n":3}`)
		f.wrote(f.apply(c), c, `{"n":3}`)
		f.refuse(write(f.key("a"), row, `{"n":2}`), actor.ErrStale)
	}},
}}

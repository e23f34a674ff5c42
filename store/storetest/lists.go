package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// strangeIDs are legal, and hard to keep in byte order.
var strangeIDs = []string{
	"a", "a||", "a||state", "a!", "a|", "a||b", "a/b", "a/b/c", "a b", " a", "||", "|||", "state", "A", "Z", "_", "-", ".",
	"%2F", "ä", "a\u0301", "é", "日本", "😀", "😀😀", "\u00a0", "\uffff", "\U0010ffff", "\ue000", "\U00010000",
	"0", "00", "1", "10", "9", "'", `"`, `\`, "?", "#", "null", strings.Repeat("z", actor.MaxIDLen),
}

var lists = suite{"Lists", []testCase{
	{"an empty type lists nothing", func(f *fixture) {
		f.lists(nil, "", 10)
	}},
	{"actors come in byte order of their IDs, page by page", func(f *fixture) {
		f.insertIDs("Cart", strangeIDs)
		want := slices.Sorted(slices.Values(strangeIDs))
		for _, page := range []int{1, 2, 7, len(want), store.MaxList} {
			var got []string
			for after, more := "", true; more; {
				infos, next, err := f.s.ListActors(f.ctx(), store.ActorQuery{App: f.app, Type: "Cart", After: after, Limit: page})
				f.ok(err)
				for _, info := range infos {
					got = append(got, info.Key.ID)
				}
				after, more = next, next != ""
			}
			if !slices.Equal(got, want) {
				f.Fatalf("pages of %d give\n %q, want\n %q", page, got, want)
			}
		}
	}},
	{"a page may begin after an ID that does not exist", func(f *fixture) {
		f.insertIDs("Cart", []string{"b", "d"})
		f.lists([]string{"b", "d"}, "a", 10)
		f.lists([]string{"d"}, "c", 10)
		f.lists([]string{"d"}, "b", 10)
		f.lists(nil, "d", 10)
		f.lists([]string{"b"}, "", 1)
	}},
	{"a prefix selects IDs, also across pages", func(f *fixture) {
		f.insertIDs("Cart", strangeIDs)
		for _, prefix := range append([]string{"", "b", "a|", "zz", "\U0010ffff\U0010ffff", "\ud7ff"}, strangeIDs...) {
			var want []string
			for _, id := range slices.Sorted(slices.Values(strangeIDs)) {
				if strings.HasPrefix(id, prefix) {
					want = append(want, id)
				}
			}
			for _, page := range []int{1, 3, store.MaxList} {
				var got []string
				for after, more := "", true; more; {
					infos, next, err := f.s.ListActors(f.ctx(), store.ActorQuery{App: f.app, Type: "Cart", Prefix: prefix, After: after, Limit: page})
					f.ok(err)
					for _, info := range infos {
						got = append(got, info.Key.ID)
					}
					after, more = next, next != ""
				}
				if !slices.Equal(got, want) {
					f.Fatalf("prefix %q, pages of %d: %q, want %q", prefix, page, got, want)
				}
			}
		}
		infos, _, err := f.s.ListActors(f.ctx(), store.ActorQuery{App: f.app, Type: "Cart", Prefix: "a", After: "b", Limit: 10})
		f.ok(err)
		if len(infos) != 0 {
			f.Fatalf("after all of the prefix there is %v", infos)
		}
	}},
	{"types and apps are kept apart", func(f *fixture) {
		f.insertIDs("Cart", []string{"x"})
		f.insertIDs("Cart2", []string{"y"})
		f.insertIDs("Car", []string{"t||z"})
		f.lists([]string{"x"}, "", 10)
	}},
	{"tombstones are not listed", func(f *fixture) {
		f.insertIDs("Cart", []string{"a", "b", "c"})
		tomb := f.apply(remove(f.key("b"), f.load(f.key("b"))))
		f.lists([]string{"a", "c"}, "", 2)
		f.apply(touch(f.key("b"), tomb))
		f.lists([]string{"a", "b"}, "", 2)
	}},
	{"one step passes a bounded number of tombstones", func(f *fixture) {
		ids := make([]string, store.MaxExamined+1)
		for i := range ids {
			ids[i] = manyID(i)
		}
		last := ids[len(ids)-1]
		for part := range slices.Chunk(ids[:len(ids)-1], 500) {
			commits := make([]actor.Commit, len(part))
			for i, id := range part {
				commits[i] = remove(f.key(id), actor.Row{})
			}
			for _, err := range f.s.Commit(f.ctx(), commits) {
				f.ok(err)
			}
		}
		f.insertIDs("Cart", []string{last})
		q := store.ActorQuery{App: f.app, Type: "Cart", Limit: 1}
		infos, next, err := f.s.ListActors(f.ctx(), q)
		f.ok(err)
		if len(infos) != 0 || next != ids[len(ids)-2] {
			f.Fatalf("the first step has %d actors and goes on after %q", len(infos), next)
		}
		f.lists([]string{last}, next, 2)
	}},
	{"an entry says what the row has", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":12345}`))
		infos, _, err := f.s.ListActors(f.ctx(), store.ActorQuery{App: f.app, Type: "Cart", Limit: 10})
		f.ok(err)
		if len(infos) != 1 {
			f.Fatalf("%d entries", len(infos))
		}
		got := infos[0]
		if !got.UpdatedAt.Equal(row.UpdatedAt) {
			f.Fatalf("UpdatedAt is %v, want %v", got.UpdatedAt, row.UpdatedAt)
		}
		got.UpdatedAt = time.Time{}
		want := store.ActorInfo{Key: f.key("a"), Version: row.Version, Generation: 3, StateSchema: 7, StateSize: int64(len(`{"n":12345}`))}
		if got != want {
			f.Fatalf("entry is %+v, want %+v", got, want)
		}
	}},
	{"limits outside 1 to MaxList are refused", func(f *fixture) {
		for _, limit := range []int{-1, 0, store.MaxList + 1} {
			_, _, err := f.s.ListActors(f.ctx(), store.ActorQuery{App: f.app, Type: "Cart", Limit: limit})
			f.argument(err)
		}
	}},
}}

var sweeps = suite{"Sweeps", []testCase{
	{"only tombstones older than the bound go", func(f *fixture) {
		f.sweepAll()
		old := f.apply(remove(f.key("old"), actor.Row{}))
		f.apply(write(f.key("live"), actor.Row{}, `{}`))
		back := f.apply(write(f.key("back"), f.apply(remove(f.key("back"), actor.Row{})), `{}`))
		f.untilAfter(old.UpdatedAt)
		f.untilAfter(back.UpdatedAt)
		bound := f.now()
		f.untilAfter(bound)
		young := f.apply(remove(f.key("young"), actor.Row{}))
		n, err := f.s.SweepTombstones(f.ctx(), bound, 100)
		f.ok(err)
		if n != 1 {
			f.Fatalf("%d tombstones swept, want 1", n)
		}
		f.same(f.load(f.key("old")), actor.Row{})
		f.same(f.load(f.key("young")), young)
		f.same(f.load(f.key("back")), back)
		if f.load(f.key("live")).Version == 0 {
			f.Fatal("a live row was swept")
		}
	}},
	{"a tombstone written again is as old as its last write", func(f *fixture) {
		f.sweepAll()
		first := f.apply(remove(f.key("a"), actor.Row{}))
		f.untilAfter(first.UpdatedAt)
		bound := f.now()
		f.untilAfter(bound)
		second := f.apply(remove(f.key("a"), first))
		n, err := f.s.SweepTombstones(f.ctx(), bound, 100)
		f.ok(err)
		if n != 0 {
			f.Fatalf("%d tombstones swept, want none", n)
		}
		f.same(f.load(f.key("a")), second)
	}},
	{"the limit bounds one sweep", func(f *fixture) {
		f.sweepAll()
		for i := range 5 {
			f.apply(remove(f.key(manyID(i)), actor.Row{}))
		}
		for _, want := range []int{2, 2, 1, 0} {
			n, err := f.s.SweepTombstones(f.ctx(), f.now().Add(time.Minute), 2)
			f.ok(err)
			if n != want {
				f.Fatalf("%d tombstones swept, want %d", n, want)
			}
		}
		for _, limit := range []int{0, store.MaxList + 1} {
			_, err := f.s.SweepTombstones(f.ctx(), f.now(), limit)
			f.argument(err)
		}
	}},
}}

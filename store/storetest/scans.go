package storetest

import (
	"slices"
	"strings"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// visitAll wants every row.
func visitAll(*store.ScannedActor) bool { return true }

func idsOf(rows []store.ScannedActor) (ids []string) {
	for _, row := range rows {
		ids = append(ids, row.Key.ID)
	}
	return ids
}

var scans = suite{"Scans", []testCase{
	{"an empty type has nothing to scan", func(f *fixture) {
		rows, examined, next := f.scanned(store.ActorScan{States: true})
		if rows != nil || examined != 0 || next != "" {
			f.Fatalf("%d rows, %d examined, goes on after %q", len(rows), examined, next)
		}
	}},
	{"rows come in byte order of their IDs, step by step", func(f *fixture) {
		f.insertIDs("Cart", strangeIDs)
		f.insertIDs("Cart2", []string{"y"})
		f.insertIDs("Car", []string{"t||z"})
		want := slices.Sorted(slices.Values(strangeIDs))
		for _, limit := range []int{1, 2, 7, len(want), store.MaxExamined} {
			var got []string
			total := 0
			for after, more := "", true; more; {
				rows, examined, next := f.scanned(store.ActorScan{After: after, Limit: limit, States: true})
				got = append(got, idsOf(rows)...)
				total += examined
				if examined > limit {
					f.Fatalf("%d rows examined, at most %d wanted", examined, limit)
				}
				after, more = next, next != ""
			}
			if !slices.Equal(got, want) || total != len(want) {
				f.Fatalf("steps of %d: %d examined,\n %q, want\n %q", limit, total, got, want)
			}
		}
	}},
	{"a range selects IDs by their bytes", func(f *fixture) {
		f.insertIDs("Cart", strangeIDs)
		bounds := append([]string{"", "b", "a|", "a\x01", "zz", "\U0010ffff\U0010ffff", strings.Repeat("z", actor.MaxIDLen+1)}, strangeIDs...)
		for _, from := range bounds {
			for _, before := range bounds {
				var want []string
				for _, id := range slices.Sorted(slices.Values(strangeIDs)) {
					if id >= from && (before == "" || id < before) && id > "A" {
						want = append(want, id)
					}
				}
				rows, examined, next := f.scanned(store.ActorScan{From: from, Before: before, After: "A"})
				if got := idsOf(rows); !slices.Equal(got, want) || examined != len(want) || next != "" {
					f.Fatalf("from %q to %q: %q, want %q; %d examined, goes on after %q", from, before, got, want, examined, next)
				}
			}
		}
	}},
	{"a row has all that was written", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":12345}`))
		rows, _, _ := f.scanned(store.ActorScan{States: true})
		if len(rows) != 1 || !rows[0].UpdatedAt.Equal(row.UpdatedAt) {
			f.Fatalf("the rows are %+v", rows)
		}
		got := rows[0]
		if string(got.State.Data) != `{"n":12345}` || got.State.Format != actor.FormatJSON {
			f.Fatalf("the state is %q, of format %d", got.State.Data, got.State.Format)
		}
		want := store.ActorInfo{Key: f.key("a"), Version: row.Version, Generation: 3, StateSchema: 7, StateSize: int64(len(`{"n":12345}`)), UpdatedAt: got.UpdatedAt}
		if got.ActorInfo != want || got.Life != row.Life || got.Spawned || got.MethodSet != "" {
			f.Fatalf("the row is %+v, want %+v", got, want)
		}
		f.apply(spawn(f.key("b")))
		f.apply(become(touch(f.key("c"), actor.Row{}), "open"))
		rows, _, _ = f.scanned(store.ActorScan{States: true, After: "a"})
		if len(rows) != 2 || !rows[0].Spawned || rows[1].MethodSet != "open" || rows[0].State.Format != actor.FormatNone {
			f.Fatalf("the rows are %+v", rows)
		}
		rows, _, _ = f.scanned(store.ActorScan{Limit: 1})
		if len(rows) != 1 || rows[0].State.Data != nil || rows[0].StateSize != want.StateSize {
			f.Fatalf("without states the row is %+v", rows)
		}
	}},
	{"tombstones are examined and not visited", func(f *fixture) {
		f.insertIDs("Cart", []string{"a", "b", "c", "d"})
		for _, id := range []string{"b", "c"} {
			f.apply(remove(f.key(id), f.load(f.key(id))))
		}
		for _, c := range []struct {
			limit int
			after string
			want  []string
			next  string
		}{
			{limit: 4, want: []string{"a", "d"}, next: "d"}, {limit: 5, want: []string{"a", "d"}},
			{limit: 3, want: []string{"a"}, next: "c"}, {limit: 2, after: "a", next: "c"}, {limit: 1, after: "a", next: "b"},
		} {
			rows, examined, next := f.scanned(store.ActorScan{Limit: c.limit, After: c.after})
			if !slices.Equal(idsOf(rows), c.want) || next != c.next || examined != min(c.limit, 4) {
				f.Fatalf("after %q, limit %d: %q, %d examined, goes on after %q", c.after, c.limit, idsOf(rows), examined, next)
			}
		}
	}},
	{"a visitor ends the scan where it likes", func(f *fixture) {
		f.insertIDs("Cart", []string{"a", "b", "c"})
		var got []string
		examined, next, err := f.s.ScanActors(f.ctx(), store.ActorScan{App: f.app, Type: "Cart", Limit: 10}, func(row *store.ScannedActor) bool {
			got = append(got, row.Key.ID)
			return row.Key.ID != "b"
		})
		f.ok(err)
		if !slices.Equal(got, []string{"a", "b"}) || examined != 2 || next != "b" {
			f.Fatalf("%q, %d examined, goes on after %q", got, examined, next)
		}
	}},
	{"bytes of states bound a scan", func(f *fixture) {
		for _, id := range []string{"a", "b", "c", "d"} {
			f.apply(write(f.key(id), actor.Row{}, `{"n":"`+strings.Repeat("x", 92)+`"}`)) // 100 bytes
		}
		for most, want := range map[int64]struct {
			n    int
			next string
		}{1: {1, "a"}, 100: {1, "a"}, 101: {2, "b"}, 300: {3, "c"}, 400: {4, "d"}, 401: {4, ""}, 0: {4, ""}} {
			rows, examined, next := f.scanned(store.ActorScan{States: true, MaxBytes: most})
			if len(rows) != want.n || examined != want.n || next != want.next {
				f.Fatalf("%d bytes: %d rows, %d examined, goes on after %q", most, len(rows), examined, next)
			}
		}
	}},
	{"exclusions leave out nothing but what they rule out", func(f *fixture) {
		for id, state := range excludable {
			f.apply(write(f.key(id), actor.Row{}, state))
		}
		for _, c := range exclusions {
			rows, examined, next := f.scanned(store.ActorScan{States: true, Exclusions: []store.Exclusion{c.exclusion}})
			if examined != len(excludable) || next != "" {
				f.Fatalf("%+v: %d examined, goes on after %q", c.exclusion, examined, next)
			}
			for id := range excludable {
				if got := slices.Contains(idsOf(rows), id); !got && !slices.Contains(c.excludes, id) {
					f.Errorf("%+v leaves out %s, which has %s", c.exclusion, id, excludable[id])
				}
			}
		}
	}},
	{"what is stale will do", func(f *fixture) {
		f.insertIDs("Cart", []string{"a"})
		rows, _, _ := f.scanned(store.ActorScan{AllowStale: true}) // a row as young as this need not be there
		if len(rows) > 1 {
			f.Fatalf("%d rows", len(rows))
		}
	}},
	{"limits and names are checked", func(f *fixture) {
		for _, q := range []store.ActorScan{
			{App: f.app, Type: "Cart", Limit: 0}, {App: f.app, Type: "Cart", Limit: store.MaxExamined + 1},
			{App: "", Type: "Cart", Limit: 1}, {App: f.app, Type: "a/b", Limit: 1},
		} {
			_, _, err := f.s.ScanActors(f.ctx(), q, visitAll)
			f.argument(err)
		}
	}},
}}

// excludable are states by the IDs of their actors.
var excludable = map[string]string{
	"none": `{}`, "null": `{"m":null}`, "one": `{"m":1}`, "one.0": `{"m":1.0}`, "string": `{"m":"1"}`, "true": `{"m":true}`,
	"false": `{"m":false}`, "list": `{"m":[1]}`, "object": `{"m":{"m":1}}`, "empty": `{"m":{}}`, "twice": `{"m":{"m":1,"m":9}}`, "large": `{"m":18446744073709551616}`,
	"near": `{"m":1.0000000000000000000001}`, "huge": `{"m":1e400}`, "tiny": `{"m":-1e-400}`, "escaped": `{"m":"\u00e4\ud83d\ude00"}`,
	"zero": `{"m":"\u0000"}`, "half": `{"m":"\ud800"}`, "enormous": `{"m":1e200000}`,
}

// exclusions have the IDs that each of them may leave out.
var exclusions = []struct {
	exclusion store.Exclusion
	excludes  []string
}{
	{store.Exclusion{Path: []string{"m"}, Test: store.NumberBetween, Low: "1", High: "1"}, []string{"one", "one.0"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.NumberBetween, High: "1"}, []string{"one", "one.0", "tiny"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.NumberBetween, Low: "1.00"}, []string{"one", "one.0", "near", "large", "huge", "enormous"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.NumberBetween, Low: "2e308"}, []string{"huge", "enormous"}},
	{store.Exclusion{Path: []string{"m", "m"}, Test: store.NumberBetween}, []string{"object", "twice"}},
	{store.Exclusion{Path: []string{"m", "m"}, Test: store.NumberBetween, High: "8"}, []string{"object"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.StringIs, Text: "1"}, []string{"string"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.StringIs, Text: "ä😀"}, []string{"escaped"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.StringOtherThan, Text: "1"}, []string{"escaped", "zero", "half"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.BoolTrue}, []string{"true"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.BoolFalse}, []string{"false"}},
	{store.Exclusion{Path: []string{"m"}, Test: store.Absent}, []string{"none"}},
	{store.Exclusion{Path: []string{"m", "m"}, Test: store.Absent}, []string{"empty"}},
	{store.Exclusion{Path: []string{"0"}, Test: store.Absent}, keysOf(excludable)},
	{store.Exclusion{Path: []string{"m", "0"}, Test: store.NumberBetween}, nil}, // no index of a list
}

func keysOf(m map[string]string) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}

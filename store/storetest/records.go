package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

var records = suite{"Records", []testCase{
	{"a record is loaded as it was committed, with what is left of its time", func(f *fixture) {
		r := record("k", "hello")
		r.Payload = actor.PayloadSum(actor.Payload{Data: []byte("in")})
		r.Reply.ContentType, r.Version = "text/plain; charset=\"x\"", 1<<62
		c := recording(write(f.key("a"), actor.Row{}, `{"n":1}`), r)
		f.wrote(f.apply(c), c, `{"n":1}`)
		f.has(c.Anchor().Key, r)
	}},
	{"replies of any bytes, of none and of many", func(f *fixture) {
		for i, r := range []actor.IdempotencyRecord{
			{Reply: actor.Payload{}},
			{Reply: actor.Payload{Data: []byte{0, 0xff, '\'', '"', 0}}},
			{Reply: actor.Payload{ContentType: "\x00\xff not a media type", Data: []byte("x")}},
			{Reply: actor.Payload{Data: []byte(strings.Repeat("z", 2<<20))}},
		} {
			r.Method, r.Key, r.TTL = "Add", fmt.Sprint(i), time.Hour
			c := recording(write(f.key("a"), f.load(f.key("a")), `{}`), r)
			f.apply(c)
			f.has(c.Anchor().Key, r)
		}
	}},
	{"a mark of a call of another actor, and its reply beside it", func(f *fixture) {
		r := record("k", "")
		r.Reply.Data, r.Mark = nil, &actor.KeyedCall{Actor: f.key("called"), Method: "Credit", Key: "chain:1"}
		c := write(f.key("called"), actor.Row{}, `{}`)
		r.Actor = f.key("caller")
		c.Records = append(c.Records, r)
		f.apply(c)
		f.has(r.Actor, r)
		taken := recording(write(r.Actor, actor.Row{}, `{}`), record("k", "hello"))
		f.refuse(taken, actor.ErrKeyExists)
		done := record("k", "hello")
		done.Method = r.Call().Done().Method
		f.apply(recording(write(r.Actor, actor.Row{}, `{}`), done))
		f.has(r.Actor, done)
		f.has(r.Actor, r)
	}},
	{"records are loaded in groups, in the order of the calls", func(f *fixture) {
		const n = 600
		commits := make([]actor.Commit, n)
		calls := []actor.KeyedCall{{Actor: f.key("nobody"), Method: "Add", Key: "k"}}
		for i := range commits {
			commits[i] = recording(write(f.key(manyID(i)), actor.Row{}, `{}`), record("k", fmt.Sprint(i)))
			calls = append(calls, actor.KeyedCall{Actor: commits[i].Anchor().Key, Method: "Add", Key: "k"},
				actor.KeyedCall{Actor: commits[i].Anchor().Key, Method: "Sub", Key: "k"})
		}
		for _, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
		}
		calls = append(calls, calls[1]) // the same twice
		found, err := f.s.LoadIdempotency(f.ctx(), calls)
		f.ok(err)
		if len(found) != len(calls) {
			f.Fatalf("%d records for %d calls", len(found), len(calls))
		}
		for i, r := range found {
			f.ok(r.Err)
			want := ""
			switch {
			case i == len(found)-1:
				want = "0"
			case i%2 == 1:
				want = fmt.Sprint(i / 2)
			}
			if r.Found != (want != "") || string(r.Record.Reply.Data) != want || r.Found && (r.Record.Method != "Add" || r.Record.Key != "k") {
				f.Fatalf("call %d of %s: %+v, want %q", i, calls[i], r, want)
			}
		}
		none, err := f.s.LoadIdempotency(f.ctx(), nil)
		f.ok(err)
		if len(none) != 0 {
			f.Fatalf("no calls gave %d records", len(none))
		}
	}},
	{"a key belongs to an actor and a method", func(f *fixture) {
		first := recording(write(f.key("a"), actor.Row{}, `{}`), record("k", "a.Add"))
		f.apply(first)
		sub := record("k", "a.Sub")
		sub.Method = "Sub"
		f.apply(recording(write(f.key("a"), f.load(f.key("a")), `{}`), sub))
		f.apply(recording(write(f.key("b"), actor.Row{}, `{}`), record("k", "b.Add")))
		other := actor.Key{App: f.app, Type: "Cart2", ID: "a"}
		f.apply(recording(write(other, actor.Row{}, `{}`), record("k", "other")))
		f.has(f.key("a"), record("k", "a.Add"))
		f.has(f.key("a"), sub)
		f.has(f.key("b"), record("k", "b.Add"))
		f.has(other, record("k", "other"))
		f.hasNone(f.key("a"), record("K", ""))
		f.hasNone(f.key("A"), record("k", ""))
	}},
	{"a key that exists refuses an update, an insert, a touch and a delete whole", func(f *fixture) {
		row := f.apply(recording(write(f.key("a"), actor.Row{}, `{"n":1}`), record("k", "first")))
		f.refuse(recording(write(f.key("a"), row, `{"n":2}`), record("k", "second")), actor.ErrKeyExists)
		f.refuse(recording(remove(f.key("a"), row), record("k", "second")), actor.ErrKeyExists)
		f.refuse(recording(touch(f.key("a"), row), record("k", "second")), actor.ErrKeyExists)
		f.apply(recording(touch(f.key("b"), actor.Row{}), record("k", "alone")))
		f.refuse(recording(write(f.key("b"), actor.Row{}, `{}`), record("k", "second")), actor.ErrKeyExists)
		f.has(f.key("a"), record("k", "first"))
		f.has(f.key("b"), record("k", "alone"))
	}},
	{"one key of several that exists refuses all", func(f *fixture) {
		row := f.apply(recording(write(f.key("a"), actor.Row{}, `{"n":1}`), record("k1", "first")))
		f.refuse(recording(write(f.key("a"), row, `{"n":2}`), record("k0", "x"), record("k1", "x"), record("k2", "x")), actor.ErrKeyExists)
		f.refuse(recording(touch(f.key("a"), row), record("k2", "x"), record("k1", "x")), actor.ErrKeyExists)
		f.hasNone(f.key("a"), record("k0", ""))
		f.hasNone(f.key("a"), record("k2", ""))
		f.apply(recording(write(f.key("a"), row, `{"n":2}`), record("k0", "x"), record("k2", "x")))
		f.has(f.key("a"), record("k2", "x"))
	}},
	{"an existing key says more than a version that moved on", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.apply(recording(write(f.key("a"), row, `{"n":2}`), record("k", "first")))
		f.refuse(recording(write(f.key("a"), row, `{"n":3}`), record("k", "second")), actor.ErrKeyExists)
		f.refuse(recording(touch(f.key("a"), row), record("k", "second")), actor.ErrKeyExists)
	}},
	{"a stale commit leaves no record", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		f.apply(write(f.key("a"), row, `{"n":2}`))
		f.refuse(recording(write(f.key("a"), row, `{"n":3}`), record("k", "x")), actor.ErrStale)
		f.refuse(recording(write(f.key("a"), actor.Row{}, `{"n":3}`), record("k", "x")), actor.ErrStale)
		f.refuse(recording(remove(f.key("a"), row), record("k", "x")), actor.ErrStale)
		f.refuse(recording(touch(f.key("a"), row), record("k", "x")), actor.ErrStale)
		f.refuse(recording(touch(f.key("a"), actor.Row{}), record("k", "x")), actor.ErrStale)
		f.hasNone(f.key("a"), record("k", ""))
	}},
	{"records alone leave the row as it is", func(f *fixture) {
		row := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
		c := recordOnly(f.key("a"), row, record("k", "x"), record("k2", "y"))
		f.same(f.apply(c), row)
		f.has(c.Anchor().Key, record("k", "x"))
		f.has(c.Anchor().Key, record("k2", "y"))
		next := write(f.key("a"), row, `{"n":2}`)
		f.wrote(f.apply(next), next, `{"n":2}`)
	}},
	{"records alone of an actor without a row make none", func(f *fixture) {
		c := recordOnly(f.key("a"), actor.Row{}, record("k", "x"))
		f.same(f.apply(c), actor.Row{})
		f.has(c.Anchor().Key, record("k", "x"))
		f.refuse(recordOnly(f.key("a"), actor.Row{}, record("k", "y")), actor.ErrKeyExists)
		f.same(f.apply(recordOnly(f.key("a"), actor.Row{}, record("k2", "y"))), actor.Row{})
		f.lists(nil, "", 10)
		f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`))
	}},
	{"records alone of a tombstone", func(f *fixture) {
		tomb := f.apply(remove(f.key("a"), actor.Row{}))
		f.same(f.apply(recordOnly(f.key("a"), tomb, record("k", "x"))), tomb)
		f.has(f.key("a"), record("k", "x"))
	}},
	{"deleting and sweeping the actor leaves its records", func(f *fixture) {
		row := f.apply(recording(write(f.key("a"), actor.Row{}, `{"n":1}`), record("k", "x")))
		f.apply(remove(f.key("a"), row))
		f.has(f.key("a"), record("k", "x"))
		f.sweepAll()
		f.has(f.key("a"), record("k", "x"))
		f.refuse(recording(write(f.key("a"), actor.Row{}, `{}`), record("k", "y")), actor.ErrKeyExists)
	}},
	{"an expired record is absent, and a new one takes its place", func(f *fixture) {
		row := f.apply(recording(write(f.key("a"), actor.Row{}, `{"n":1}`), brief("k", "first"), record("kept", "y")))
		f.expired(f.key("a"), "k")
		row = f.apply(recording(write(f.key("a"), row, `{"n":2}`), record("k", "second")))
		f.has(f.key("a"), record("k", "second"))
		f.has(f.key("a"), record("kept", "y"))
		f.refuse(recording(write(f.key("a"), row, `{"n":3}`), record("k", "third")), actor.ErrKeyExists)
		f.apply(recordOnly(f.key("b"), actor.Row{}, brief("k", "first")))
		f.expired(f.key("b"), "k")
		f.apply(recordOnly(f.key("b"), actor.Row{}, record("k", "second")))
		f.sweepRecords()
		f.has(f.key("a"), record("k", "second"))
		f.has(f.key("b"), record("k", "second"))
	}},
	{"the sweep removes expired records alone, in batches", func(f *fixture) {
		f.sweepRecords()
		const n = 7
		var row actor.Row
		for i := range n {
			row = f.apply(recording(write(f.key("a"), row, `{}`), brief(fmt.Sprint(i), "x")))
		}
		f.apply(recording(write(f.key("a"), row, `{}`), record("kept", "y")))
		for i := range n {
			f.expired(f.key("a"), fmt.Sprint(i))
		}
		swept, err := f.s.SweepIdempotency(f.ctx(), n-2)
		f.ok(err)
		if swept != n-2 {
			f.Fatalf("%d records swept, want the limit, %d", swept, n-2)
		}
		if swept = f.sweepRecords(); swept != 2 {
			f.Fatalf("%d more records swept, want 2", swept)
		}
		f.has(f.key("a"), record("kept", "y"))
	}},
	{"a refused key harms no neighbour in the group", func(f *fixture) {
		rows := f.insertMany(60)
		taken := f.apply(recording(write(f.key("taken"), actor.Row{}, `{}`), record("k", "first")))
		commits := []actor.Commit{recording(write(f.key("taken"), taken, `{"n":2}`), record("k", "second"))}
		for i, row := range rows {
			k := f.key(manyID(i))
			switch i % 6 {
			case 0:
				commits = append(commits, write(k, row, `{"second":1}`))
			case 1:
				commits = append(commits, recording(write(k, row, `{"second":1}`), record("k", "x"), record("l", "y")))
			case 2:
				commits = append(commits, recordOnly(k, row, record("k", "x"), record("l", "y")))
			case 3:
				commits = append(commits, recording(remove(k, row), record("k", "x"), record("l", "y")))
			case 4:
				commits = append(commits, recording(write(f.key("new"+manyID(i)), actor.Row{}, `{"second":1}`), record("k", "x"), record("l", "y")))
			case 5:
				commits = append(commits, recordOnly(f.key("none"+manyID(i)), actor.Row{}, record("k", "x"), record("l", "y")))
			}
		}
		stale := recording(write(f.key("stale"), actor.Row{Version: 9}, `{}`), record("k", "x"))
		commits = append(commits, stale)
		errs := f.s.Commit(f.ctx(), commits)
		f.is(errs[0], actor.ErrKeyExists)
		f.is(errs[len(errs)-1], actor.ErrStale)
		f.hasNone(stale.Anchor().Key, record("k", ""))
		f.same(f.load(f.key("taken")), taken)
		for i, c := range commits[1 : len(commits)-1] {
			f.ok(errs[i+1])
			row := f.load(c.Anchor().Key)
			switch {
			case len(c.Rows) > 0 && c.Rows[0].Delete:
				f.wrote(row, c, "")
			case len(c.Rows) > 0:
				f.wrote(row, c, `{"second":1}`)
			case row.Version != c.Fences[0].Version:
				f.Fatalf("records alone left %s", describe(row))
			}
			for _, r := range c.Records {
				f.has(c.Anchor().Key, r)
			}
		}
	}},
	{"a group with 1,000 keys", func(f *fixture) {
		const n = 1000
		commits := make([]actor.Commit, n)
		for i := range commits {
			commits[i] = recording(write(f.key(manyID(i)), actor.Row{}, `{"n":1}`), record("k", fmt.Sprint(i)))
		}
		for i, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
			commits[i] = recording(write(commits[i].Anchor().Key, actor.Row{Version: commits[i].Rows[0].NewVersion}, `{"n":2}`), record("k2", fmt.Sprint(i)))
		}
		for i, err := range f.s.Commit(f.ctx(), commits) {
			f.ok(err)
			key := "k3"
			if i%10 == 0 {
				key = "k"
			}
			commits[i] = recording(write(commits[i].Anchor().Key, actor.Row{Version: commits[i].Rows[0].NewVersion}, `{"n":3}`), record(key, "again"))
		}
		for i := range n {
			f.has(f.key(manyID(i)), record("k", fmt.Sprint(i)))
			f.has(f.key(manyID(i)), record("k2", fmt.Sprint(i)))
		}
		for i, err := range f.s.Commit(f.ctx(), commits) {
			if i%10 == 0 {
				f.is(err, actor.ErrKeyExists)
			} else {
				f.ok(err)
			}
		}
	}},
	{"a commit with 1,000 keys", func(f *fixture) {
		var all []actor.IdempotencyRecord
		for i := range 1000 {
			all = append(all, record(fmt.Sprint(i), fmt.Sprint("reply ", i)))
		}
		row := f.apply(recording(write(f.key("a"), actor.Row{}, `{}`), all...))
		for _, r := range all {
			f.has(f.key("a"), r)
		}
		f.refuse(recording(write(f.key("a"), row, `{}`), record("new", ""), all[999]), actor.ErrKeyExists)
	}},
	{"a commit sent again finds its own records, and is applied once", func(f *fixture) {
		for _, c := range []actor.Commit{
			recording(write(f.key("new"), actor.Row{}, `{}`), record("k", "x"), record("l", "y")),
			recording(write(f.key("old"), f.apply(write(f.key("old"), actor.Row{}, `{}`)), `{}`), record("k", "x"), record("l", "y")),
		} {
			row := f.apply(c)
			f.ok(f.commit(c))
			f.same(f.load(c.Anchor().Key), row)
			next := f.apply(write(c.Anchor().Key, row, `{"next":1}`))
			f.ok(f.commit(c))
			f.same(f.load(c.Anchor().Key), next)
		}
	}},
	{"of writers with the same key one wins", func(f *fixture) { f.race(recordingWrite) }},
	{"of records alone with the same key one wins", func(f *fixture) { f.race(recordOnly) }},
	{"of records alone and a write with the same key one wins", func(f *fixture) {
		n := 0
		f.race(func(k actor.Key, row actor.Row, r ...actor.IdempotencyRecord) actor.Commit {
			if n++; n%2 == 0 {
				return recordOnly(k, row, r...)
			}
			return recordingWrite(k, row, r...)
		})
	}},
	{"a locked turn records its calls", func(f *fixture) {
		for _, id := range []string{"new", "old"} {
			if id == "old" {
				f.apply(write(f.key(id), actor.Row{}, `{"n":1}`))
			}
			c := f.lockedCommit(f.key(id), nil, func(row actor.Row) actor.Commit {
				return recording(write(f.key(id), row, `{"n":2}`), record("k", "x"), record("l", "y"))
			})
			f.wrote(f.load(f.key(id)), c, `{"n":2}`)
			f.has(f.key(id), record("k", "x"))
			f.has(f.key(id), record("l", "y"))
			row := f.load(f.key(id))
			f.lockedCommit(f.key(id), actor.ErrKeyExists, func(row actor.Row) actor.Commit {
				return recording(write(f.key(id), row, `{"n":3}`), record("m", "x"), record("l", "z"))
			})
			f.same(f.load(f.key(id)), row)
			f.hasNone(f.key(id), record("m", ""))
			f.lockedCommit(f.key(id), nil, func(row actor.Row) actor.Commit { return recordOnly(f.key(id), row, record("alone", "x")) })
			f.same(f.load(f.key(id)), row)
			f.has(f.key(id), record("alone", "x"))
		}
		f.lockedCommit(f.key("none"), nil, func(row actor.Row) actor.Commit { return recordOnly(f.key("none"), row, record("k", "x")) })
		f.same(f.load(f.key("none")), actor.Row{})
		f.has(f.key("none"), record("k", "x"))
		f.lockedCommit(f.key("none"), actor.ErrKeyExists, func(row actor.Row) actor.Commit { return recordOnly(f.key("none"), row, record("k", "x")) })
		f.same(f.load(f.key("none")), actor.Row{})
	}},
	{"settling a commit with records", func(f *fixture) {
		c := recording(write(f.key("a"), actor.Row{}, `{"n":1}`), record("k", "x"))
		row := f.apply(c)
		f.ok(f.s.Settle(f.ctx(), c))
		f.never(recording(write(f.key("a"), row, `{"n":2}`), record("l", "x")))
		f.hasNone(f.key("a"), record("l", ""))
		f.never(recording(write(f.key("b"), actor.Row{}, `{"n":1}`), record("k", "x")))
		f.hasNone(f.key("b"), record("k", ""))
	}},
	{"a commit without a row records calls of any actors, once", func(f *fixture) {
		row := f.apply(write(f.key("live"), actor.Row{}, `{"n":1}`))
		c := rowless(of(f.key("live"), record("k", "x")), of(f.key("none"), record("k", "y")))
		taken := rowless(of(f.key("other"), record("l", "z")), of(f.key("live"), record("k", "z")))
		f.ok(f.commit(c))
		neighbour := write(f.key("neighbour"), actor.Row{}, `{"n":1}`)
		errs := f.s.Commit(f.ctx(), []actor.Commit{taken, neighbour, rowless(of(f.key("third"), record("k", "x")))})
		f.is(errs[0], actor.ErrKeyExists)
		f.ok(errs[1])
		f.ok(errs[2])
		f.same(f.load(f.key("live")), row)
		f.same(f.load(f.key("none")), actor.Row{})
		f.has(f.key("live"), record("k", "x"))
		f.has(f.key("none"), record("k", "y"))
		f.has(f.key("third"), record("k", "x"))
		f.hasNone(f.key("other"), record("l", ""))
		f.ok(f.commit(c)) // which finds its own
		f.ok(f.s.Settle(f.ctx(), c))
		f.is(f.s.Settle(f.ctx(), taken), actor.ErrAmbiguous)
		f.argument(f.s.Commit(f.ctx(), []actor.Commit{rowless(of(f.key("a"), record("m", "x"))), rowless(of(f.key("a"), record("m", "y")))})[1])
		f.has(f.key("a"), record("m", "x"))
	}},
	{"of commits without a row with the same key one wins", func(f *fixture) {
		for i := range 20 {
			k := f.key(manyID(i))
			commits := [2]actor.Commit{rowless(of(k, record("k", "0")), of(k, record("0", ""))), rowless(of(k, record("k", "1")), of(k, record("1", "")))}
			var errs [2]error
			f.together(func() { errs[0] = f.commit(commits[0]) }, func() { errs[1] = f.commit(commits[1]) })
			won := 0
			if errs[0] != nil {
				won = 1
			}
			f.ok(errs[won])
			f.is(errs[1-won], actor.ErrKeyExists)
			f.has(k, commits[won].Records[0])
			f.hasNone(k, commits[1-won].Records[1])
		}
	}},
	{"fences of several rows with records hold together, and write none", func(f *fixture) {
		a, b := f.apply(write(f.key("a"), actor.Row{}, `{"n":1}`)), f.apply(write(f.key("b"), actor.Row{}, `{"n":1}`))
		c := setOf(recordOnly(f.key("a"), a, record("k", "x")), read(f.key("b"), b), read(f.key("none"), actor.Row{}))
		f.ok(f.commit(c))
		f.same(f.load(f.key("a")), a)
		f.same(f.load(f.key("b")), b)
		f.same(f.load(f.key("none")), actor.Row{})
		f.has(f.key("a"), record("k", "x"))
		f.apply(touch(f.key("b"), b))
		f.is(f.commit(setOf(recordOnly(f.key("a"), a, record("l", "x")), read(f.key("b"), b))), actor.ErrStale)
		f.hasNone(f.key("a"), record("l", ""))
		f.never(setOf(recordOnly(f.key("a"), a, record("l", "x")), read(f.key("none"), actor.Row{})))
	}},
	{"a record tells that its commit applied when the row has moved on", func(f *fixture) {
		c := recording(write(f.key("a"), actor.Row{}, `{"n":1}`), record("k", "x"))
		f.apply(write(f.key("a"), f.apply(c), `{"n":2}`))
		f.ok(f.s.Settle(f.ctx(), c))
		lost := recording(write(f.key("a"), actor.Row{}, `{"n":1}`), record("l", "x"))
		lost.Rows[0].NewVersion = 1 // so that the row is past it for sure
		f.is(f.s.Settle(f.ctx(), lost), actor.ErrAmbiguous)
	}},
	{"settling records alone", func(f *fixture) {
		for _, id := range []string{"none", "live"} {
			var row actor.Row
			if id == "live" {
				row = f.apply(write(f.key(id), row, `{"n":1}`))
			}
			c := recordOnly(f.key(id), row, record("k", "x"))
			f.same(f.apply(c), row)
			f.ok(f.s.Settle(f.ctx(), c))
			f.same(f.load(f.key(id)), row)
			lost := recordOnly(f.key(id), row, record("l", "x"))
			f.is(f.s.Settle(f.ctx(), lost), actor.ErrStale)
			f.is(f.commit(lost), actor.ErrStale)
			f.is(f.s.Settle(f.ctx(), lost), actor.ErrStale)
			f.hasNone(f.key(id), record("l", ""))
			f.ok(f.s.Settle(f.ctx(), c))
			// The actor lives on, and so does the key.
			row = f.apply(recording(write(f.key(id), f.load(f.key(id)), `{"n":2}`), record("l", "y")))
			f.has(f.key(id), record("l", "y"))
			f.apply(write(f.key(id), row, `{"n":3}`))
			f.ok(f.s.Settle(f.ctx(), c))
			f.is(f.s.Settle(f.ctx(), lost), actor.ErrStale)
		}
	}},
	{"settling records alone against their commit ends with one truth", func(f *fixture) {
		for i := range 30 {
			k := f.key(manyID(i))
			row := actor.Row{}
			if i%2 == 1 {
				row = f.apply(write(k, row, `{"n":0}`))
			}
			c := recordOnly(k, row, record("k", "x"))
			var committed, settled error
			f.together(func() { committed = f.commit(c) }, func() { settled = f.s.Settle(f.ctx(), c) })
			if committed == nil {
				f.ok(settled)
				f.has(k, record("k", "x"))
				continue
			}
			f.is(committed, actor.ErrStale)
			f.is(settled, actor.ErrStale)
			f.hasNone(k, record("k", ""))
		}
	}},
	{"calls that break the contract are refused", func(f *fixture) {
		k := f.key("a")
		for _, c := range []actor.Commit{
			recording(write(k, actor.Row{}, `{}`), record("", "x")),
			recording(write(k, actor.Row{}, `{}`), record("é", "x")),
			recording(write(k, actor.Row{}, `{}`), record("k", "x"), record("k", "y")),
			recording(write(k, actor.Row{}, `{}`), actor.IdempotencyRecord{Method: "Add", Key: "k"}),
		} {
			f.argument(f.commit(c))
		}
		for _, c := range []actor.KeyedCall{
			{Actor: k, Method: "Add"}, {Actor: k, Method: "a b", Key: "k"}, {Method: "Add", Key: "k"},
		} {
			_, err := f.s.LoadIdempotency(f.ctx(), []actor.KeyedCall{{Actor: k, Method: "Add", Key: "k"}, c})
			f.argument(err)
		}
		for _, limit := range []int{-1, 0, store.MaxList + 1} {
			_, err := f.s.SweepIdempotency(f.ctx(), limit)
			f.argument(err)
		}
	}},
}}

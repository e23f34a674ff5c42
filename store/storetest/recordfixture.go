package storetest

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// recordFixture tests recorded calls.
type recordFixture struct{ *base }

// record is a call of Add, recorded for longer than any test.
func record(key, reply string) actor.IdempotencyRecord {
	r := actor.IdempotencyRecord{Method: "Add", Key: key, Version: 5, TTL: time.Hour}
	if reply != "" {
		r.Reply.Data = []byte(reply)
	}
	return r
}

// brief is a record that expires at once.
func brief(key, reply string) actor.IdempotencyRecord {
	r := record(key, reply)
	r.TTL = time.Microsecond
	return r
}

// recording is c with records.
func recording(c actor.Commit, rs ...actor.IdempotencyRecord) actor.Commit {
	c.Records = slices.Clone(rs)
	for i := range c.Records {
		if r := &c.Records[i]; r.Actor == (actor.Key{}) {
			r.Actor = c.Anchor().Key
		}
	}
	return c
}

func recordingWrite(k actor.Key, row actor.Row, rs ...actor.IdempotencyRecord) actor.Commit {
	return recording(write(k, row, `{"won":true}`), rs...)
}

// rowless is a commit of records and no row.
func rowless(rs ...actor.IdempotencyRecord) actor.Commit {
	return actor.Commit{ID: actor.NewCommitID(), Records: rs}
}

// recordOnly is a commit of records alone on top of row.
func recordOnly(k actor.Key, row actor.Row, rs ...actor.IdempotencyRecord) actor.Commit {
	return recording(actor.Commit{ID: actor.NewCommitID(), Fences: fenceOf(k, row)}, rs...)
}

// of is a record of another actor than the commit's first.
func of(k actor.Key, r actor.IdempotencyRecord) actor.IdempotencyRecord {
	r.Actor = k
	return r
}

// has checks that a record is there as it was committed.
func (f *recordFixture) has(k actor.Key, want actor.IdempotencyRecord) {
	f.Helper()
	got, ok := f.recorded(k, want.Method, want.Key)
	if !ok {
		f.Fatalf("%s has no record of %s %q", k, want.Method, want.Key)
	}
	if got.TTL <= 0 || got.TTL > want.TTL {
		f.Fatalf("%v are left of %v", got.TTL, want.TTL)
	}
	got.TTL, want.Actor = want.TTL, k
	if !reflect.DeepEqual(got, want) {
		f.Fatalf("the record is\n  %+v, want\n  %+v", got, want)
	}
}

func (f *recordFixture) hasNone(k actor.Key, r actor.IdempotencyRecord) {
	f.Helper()
	if got, ok := f.recorded(k, r.Method, r.Key); ok {
		f.Fatalf("%s has a record that should not be: %+v", k, got)
	}
}

// expired waits until the record of Add under a key has expired.
func (f *recordFixture) expired(k actor.Key, key string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx(), 5*time.Minute)
	defer cancel()
	for {
		found, err := f.s.LoadIdempotency(ctx, []actor.KeyedCall{{Actor: k, Method: "Add", Key: key}})
		f.ok(err)
		if !found[0].Found {
			return
		}
	}
}

// recorded loads one record that can be read.
func (f *recordFixture) recorded(k actor.Key, method, key string) (actor.IdempotencyRecord, bool) {
	f.Helper()
	found, err := f.s.LoadIdempotency(f.ctx(), []actor.KeyedCall{{Actor: k, Method: method, Key: key}})
	f.ok(err)
	if len(found) != 1 {
		f.Fatalf("the load of one call gave %d records", len(found))
	}
	f.ok(found[0].Err)
	return found[0].Record, found[0].Found
}

// sweepRecords sweeps what has expired, and returns how much.
func (f *recordFixture) sweepRecords() (swept int) {
	f.Helper()
	for {
		n, err := f.s.SweepIdempotency(f.ctx(), store.MaxList)
		f.ok(err)
		swept += n
		if n < store.MaxList {
			return swept
		}
	}
}

// race sends two commits with one key at once, on a row and without one, again and again:
// exactly one applies, and the other gets the reason why it did not.
func (f *recordFixture) race(make func(actor.Key, actor.Row, ...actor.IdempotencyRecord) actor.Commit) {
	f.Helper()
	for i := range 40 {
		k := f.key(manyID(i))
		row := actor.Row{}
		if i%2 == 1 {
			row = f.apply(write(k, row, `{"n":0}`))
		}
		commits := [2]actor.Commit{
			make(k, row, record("k", "first"), record("first", "x")),
			make(k, row, record("k", "second"), record("second", "x")),
		}
		var errs [2]error
		f.together(func() { errs[0] = f.commit(commits[0]) }, func() { errs[1] = f.commit(commits[1]) })
		won := 0
		if errs[0] != nil {
			won = 1
		}
		f.is(errs[won], nil)
		f.is(errs[1-won], actor.ErrKeyExists)
		for _, r := range commits[won].Records {
			f.has(k, r)
		}
		f.hasNone(k, commits[1-won].Records[1])
		if got := f.load(k); len(commits[won].Rows) == 0 {
			f.same(got, row)
		} else {
			f.wrote(got, commits[won], `{"won":true}`)
		}
	}
}

// lockedCommit commits in a locked turn, and checks its answer.
func (f *recordFixture) lockedCommit(k actor.Key, want error, next func(actor.Row) actor.Commit) actor.Commit {
	f.Helper()
	var c actor.Commit
	_, err := f.s.LockedTurn(f.ctx(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
		c = next(row)
		return &c, nil
	})
	f.is(err, want)
	return c
}

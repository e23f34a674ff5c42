package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// recording is the insert of an actor that records a call.
func recording(id, key string, ttl time.Duration) actor.Commit {
	c := insert(actor.Key{App: "app", Type: "Cart", ID: id}, `{"n":1}`)
	c.Records = []actor.IdempotencyRecord{{Actor: c.Anchor().Key, Method: "Add", Key: key, TTL: ttl, Reply: actor.Payload{Data: []byte("1")}}}
	return c
}

// again is the commit that repeats the call of c on top of it.
func again(c actor.Commit) actor.Commit {
	row := c.Rows[0]
	row.ReadVersion, row.NewVersion = row.NewVersion, row.NewVersion+1
	next := actor.CommitOf(row)
	next.Records = c.Records
	return next
}

func commit(t *testing.T, s *embedded.Store, c actor.Commit, want error) {
	t.Helper()
	if err := s.Commit(t.Context(), []actor.Commit{c})[0]; !errors.Is(err, want) {
		t.Fatalf("commit of %s, key %q: %v, want %v", c.Anchor().Key, c.Records[0].Key, err, want)
	}
}

// learned waits until the writer knows what was recorded before the folder was
// opened.
func learned(t *testing.T, s *embedded.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for blind := true; blind; {
		var err error
		blind, err = s.Blind(ctx)
		must(t, err)
	}
}

// TestKeysRecordedBefore opens folders with recorded calls: their keys are taken
// before the writer has read which they are and after it, also where it cannot.
func TestKeysRecordedBefore(t *testing.T) {
	for name, garbage := range map[string]string{"sound": "", "an entry without a time": "\xff", "an entry with half an ID": "\xff1234567abcdefghijklmnop"} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := openSmall(t, fs)
			var before []actor.Commit
			for i := range 300 {
				c := recording(fmt.Sprint(i), "k", time.Hour)
				commit(t, s, c, nil)
				before = append(before, c)
			}
			if garbage != "" {
				must(t, s.PutExpiry(garbage, []byte("half")))
			}
			must(t, s.Close())
			for range 2 {
				s = openSmall(t, fs)
				for round := range 2 {
					for _, c := range before {
						commit(t, s, again(c), actor.ErrKeyExists)
					}
					commit(t, s, recording(actor.NewCommitID().String(), "k", time.Hour), nil)
					if garbage == "" && round == 0 {
						learned(t, s)
					}
				}
				must(t, s.Close())
			}
		})
	}
}

// TestExpiredKeyIsRecordedAnew writes a record over one that has expired, without
// looking for it: the index of expiries has both, and one is swept.
func TestExpiredKeyIsRecordedAnew(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := open(t, embedded.Config{Dir: "data", FS: vfs.NewMem(), Now: func() time.Time { return now }})
	c := recording("a", "k", time.Minute)
	commit(t, s, c, nil)
	commit(t, s, again(c), actor.ErrKeyExists)
	now = now.Add(time.Minute)
	c = again(c)
	c.Records[0].Reply.Data = []byte("2")
	commit(t, s, c, nil)
	commit(t, s, again(c), actor.ErrKeyExists)
	sweep := func(want int) {
		t.Helper()
		if n, err := s.SweepIdempotency(t.Context(), 100); n != want || err != nil {
			t.Fatalf("%d records were swept, %v; want %d", n, err, want)
		}
	}
	sweep(0)
	found, err := s.LoadIdempotency(t.Context(), []actor.KeyedCall{{Actor: c.Anchor().Key, Method: "Add", Key: "k"}})
	if err != nil || string(found[0].Record.Reply.Data) != "2" {
		t.Fatalf("the record is %+v, %v; want the second", found, err)
	}
	now = now.Add(time.Minute)
	sweep(1)
	sweep(0)
}

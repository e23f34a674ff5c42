package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// TestCommitsAreBoundedInBytes: states of all rows and replies of all records
// count together.
func TestCommitsAreBoundedInBytes(t *testing.T) {
	state := func(n int) *actor.EncodedState {
		return &actor.EncodedState{Format: actor.FormatEnvelope, Data: make([]byte, n)}
	}
	const third = actor.MaxCommitBytes / 3
	k := func(id string) actor.Key { return actor.Key{App: "a", Type: "T", ID: id} }
	commit := func(grow func(c *actor.Commit)) actor.Commit {
		c := actor.CommitOf(actor.RowWrite{Key: k("x"), NewVersion: 1, State: state(third)}, actor.RowWrite{Key: k("y"), NewVersion: 1, State: state(third)})
		c.Records = []actor.IdempotencyRecord{{Actor: k("x"), Method: "M", Key: "k", TTL: time.Second, Reply: actor.Payload{Data: make([]byte, third-100)}}}
		grow(&c)
		return c
	}
	if err := store.ValidateGroup([]actor.Commit{commit(func(*actor.Commit) {})})[0]; err != nil {
		t.Errorf("within the bound: %v", err)
	}
	over := []func(c *actor.Commit){
		func(c *actor.Commit) { c.Rows[0].State = state(third + 200) },
		func(c *actor.Commit) { c.Rows[1].State = state(third + 200) },
		func(c *actor.Commit) { c.Records[0].Reply.Data = make([]byte, third+200) },
	}
	for i, grow := range over {
		large := commit(grow)
		want := (*actor.ArgumentError)(nil)
		if err := store.ValidateGroup([]actor.Commit{large})[0]; !errors.As(err, &want) {
			t.Errorf("above the bound by %d: %v", i, err)
		}
	}
}

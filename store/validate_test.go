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
	c := actor.Commit{ID: actor.NewCommitID(), Key: actor.Key{App: "a", Type: "T", ID: "x"}, NewVersion: 1}
	c.Effects.State = state(third)
	c.Others = []actor.RowChange{{Key: actor.Key{App: "a", Type: "T", ID: "y"}, NewVersion: 1, State: state(third)}}
	c.Effects.Idempotency = []actor.IdempotencyRecord{{Method: "M", Key: "k", TTL: time.Second, Reply: actor.Payload{Data: make([]byte, third-100)}}}
	if err := store.ValidateGroup([]actor.Commit{c})[0]; err != nil {
		t.Errorf("within the bound: %v", err)
	}
	over := []func(c *actor.Commit){
		func(c *actor.Commit) { c.Effects.State = state(third + 200) },
		func(c *actor.Commit) {
			c.Others = []actor.RowChange{c.Others[0]}
			c.Others[0].State = state(third + 200)
		},
		func(c *actor.Commit) {
			c.Effects.Idempotency = []actor.IdempotencyRecord{c.Effects.Idempotency[0]}
			c.Effects.Idempotency[0].Reply.Data = make([]byte, third+200)
		},
	}
	for i, grow := range over {
		large := c
		grow(&large)
		want := (*actor.ArgumentError)(nil)
		if err := store.ValidateGroup([]actor.Commit{large})[0]; !errors.As(err, &want) {
			t.Errorf("above the bound by %d: %v", i, err)
		}
	}
}

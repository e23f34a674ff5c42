package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// keyed is c with a record of each key.
func keyed(c actor.Commit, keys ...string) actor.Commit {
	for _, k := range keys {
		c.Records = append(c.Records, actor.IdempotencyRecord{
			Actor: c.Anchor().Key, Method: "Add", Key: k, TTL: time.Hour, Reply: actor.Payload{Data: c.ID[:]}, // tells whose it is
		})
	}
	return c
}

// recorded checks that all records of a commit are there, and its own, or none.
func (b *broken) recorded(c actor.Commit, applied bool) {
	b.Helper()
	for _, want := range c.Records {
		found, err := b.around.LoadIdempotency(b.Context(), []actor.KeyedCall{{Actor: c.Anchor().Key, Method: want.Method, Key: want.Key}})
		if err != nil {
			b.Fatal(err)
		}
		got := found[0]
		if own := got.Found && string(got.Record.Reply.Data) == string(c.ID[:]); own != applied {
			b.Errorf("%s: the record of %s is there: %t, and its own: %t; applied should be %t", c.Anchor().Key.ID, want.Key, got.Found, own, applied)
		}
	}
}

// TestKeyedCommitFaults breaks groups whose commits record calls, of every form:
// what was answered is what is there, and sending all of it again never has a
// second effect.
func TestKeyedCommitFaults(t *testing.T) {
	faults := append(commitFaults[:len(commitFaults):len(commitFaults)], struct {
		name string
		pgproxy.Fault
		want error
	}{"done up to its Sync", pgproxy.Fault{Do: pgproxy.LoseSync}, actor.ErrStale})
	for _, repeated := range []bool{false, true} {
		t.Run(fmt.Sprintf("with a key that is taken %t", repeated), func(t *testing.T) {
			b := behindProxy(t, sqlstore.Config{})
			for n, c := range faults {
				t.Run(c.name, func(t *testing.T) {
					c.On = writeStatement
					b.of(t).keyedFault(n, repeated, c.Fault, c.want)
				})
			}
		})
	}
}

// keyedFault breaks one group, with a key in it that is taken if repeated.
func (b *broken) keyedFault(n int, repeated bool, fault pgproxy.Fault, want error) {
	b.Helper()
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, n) }
	alone := func(id string, row actor.Row) actor.Commit {
		return keyed(read(key(name(id)), row), "k", "l")
	}
	commits := []actor.Commit{
		keyed(write(key(name("old")), b.stored(name("old")), `{"n":2}`), "k", "l"),
		keyed(write(key(name("new")), actor.Row{}, `{"n":2}`), "k", "l"),
		alone("alone", b.stored(name("alone"))),
		alone("none", actor.Row{}),
	}
	all := commits[:len(commits):len(commits)]
	var taken, second actor.Commit
	if repeated {
		taken = keyed(write(key(name("taken")), actor.Row{}, `{"n":1}`), "k")
		if err := b.around.Commit(b.Context(), []actor.Commit{taken})[0]; err != nil {
			b.Fatal(err)
		}
		second = keyed(write(taken.Anchor().Key, b.load(taken.Anchor().Key), `{"n":2}`), "k")
		b.is("a taken key", b.s.Commit(b.Context(), []actor.Commit{second})[0], actor.ErrKeyExists)
		all = append(all, second)
	}
	b.proxy.Plan(b.T, fault)
	errs := b.s.Commit(b.Context(), all)
	for i, commit := range commits {
		b.is(commit.Anchor().Key.ID, errs[i], want)
		b.recorded(commit, want == nil)
	}
	b.became(commits[0], want == nil)
	b.became(commits[1], want == nil)
	if repeated {
		b.became(second, false)
		b.recorded(taken, true)
	}
	again := error(actor.ErrStale)
	if want == nil || errors.Is(want, actor.ErrUnavailable) {
		again = nil // in the first case they find their own records
	}
	errs = b.s.Commit(b.Context(), commits)
	for i, commit := range commits {
		b.is(commit.Anchor().Key.ID+" again", errs[i], again)
		b.recorded(commit, !errors.Is(again, actor.ErrStale))
	}
}

// TestKeyedLockedTurnFaults is the same for locked turns.
func TestKeyedLockedTurnFaults(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	for n, c := range commitFaults {
		t.Run(c.name, func(t *testing.T) {
			b := b.of(t)
			k := key(fmt.Sprintf("a-%d", n))
			b.stored(k.ID)
			c.On = pgproxy.Commit
			b.proxy.Plan(t, c.Fault)
			var last actor.Commit
			turn := func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				last = keyed(write(k, row, `{"n":2}`), "k")
				return &last, nil
			}
			_, err := b.s.LockedTurn(t.Context(), k, turn)
			b.is("turn", err, c.want)
			first := last
			b.recorded(first, c.want == nil)
			b.became(first, c.want == nil)
			again := error(nil)
			if c.want == nil {
				again = actor.ErrKeyExists
			}
			_, err = b.s.LockedTurn(t.Context(), k, turn)
			b.is("turn again", err, again)
			b.recorded(first, c.want == nil)
		})
	}
}

package sqlstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// set makes one commit of the rows and the fences of several.
func set(members ...actor.Commit) actor.Commit {
	c := actor.Commit{ID: actor.NewCommitID()}
	for _, m := range members {
		c.Rows = append(c.Rows, m.Rows...)
		c.Fences = append(c.Fences, m.Fences...)
	}
	return c
}

// read is a commit of a fence alone.
func read(k actor.Key, row actor.Row) actor.Commit {
	return actor.Commit{ID: actor.NewCommitID(), Fences: []actor.RowFence{{Key: k, Version: row.Version}}}
}

// whole checks that all rows that a set writes are there, or none.
func (b *broken) whole(c actor.Commit, applied bool) {
	b.Helper()
	for _, r := range c.Rows {
		if row := b.load(r.Key); (row.CommitID == c.ID) != applied {
			b.Errorf("%s is at version %d with commit %s; applied should be %t of %s", r.Key, row.Version, row.CommitID, applied, c.ID)
		}
	}
	for _, want := range c.Records {
		found, err := b.around.LoadIdempotency(b.Context(), []actor.KeyedCall{{Actor: c.Anchor().Key, Method: want.Method, Key: want.Key}})
		if err != nil || found[0].Found != applied {
			b.Errorf("the record of %s: %+v, %v; applied should be %t", want.Key, found, err, applied)
		}
	}
}

// TestSetFaults breaks groups that have commits of several rows in them, in every
// way that has a group go again as it is, in halves, one by one or after settling:
// each set is there whole and once, or not at all.
func TestSetFaults(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	faults := append(commitFaults[:len(commitFaults):len(commitFaults)], []struct {
		name string
		pgproxy.Fault
		want error
	}{
		{"done up to its Sync", pgproxy.Fault{Do: pgproxy.LoseSync}, actor.ErrStale},
		{"a locked row that is free again", pgproxy.Fault{Do: pgproxy.Refuse, Code: "55P03"}, nil},
		{"a fault in one commit's data", pgproxy.Fault{Do: pgproxy.Refuse, Code: "22021"}, nil},
	}...)
	for n, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			b := b.of(t)
			c.On = writeStatement
			id := func(name string) string { return fmt.Sprintf("%s-%d", name, n) }
			old := func(name string) actor.Commit { return write(key(id(name)), b.stored(id(name)), `{"n":2}`) }
			looked := read(key(id("read")), b.stored(id("read")))
			commits := []actor.Commit{
				old("alone"),
				keyed(set(old("a"), old("b"), write(key(id("new")), actor.Row{}, `{"n":2}`), looked), "k"),
				set(write(key(id("made")), actor.Row{}, `{"n":2}`), old("c")),
			}
			late := set(old("d"), old("late"))
			late.Rows[1].ReadVersion--
			b.proxy.Plan(t, c.Fault)
			errs := b.s.Commit(t.Context(), append(commits, late))
			for i, commit := range commits {
				b.is(commit.Anchor().Key.ID, errs[i], c.want)
				b.whole(commit, c.want == nil)
			}
			if c.want == nil {
				b.is("stale set", errs[len(commits)], actor.ErrStale)
			}
			b.whole(late, false)
			errs = b.s.Commit(t.Context(), commits)
			for i, commit := range commits {
				again := error(nil)
				if !errors.Is(c.want, actor.ErrUnavailable) && (c.want != nil || len(commit.Records) == 0) {
					again = actor.ErrStale
				}
				b.is(commit.Anchor().Key.ID+" again", errs[i], again)
				b.whole(commit, again == nil || c.want == nil)
			}
		})
	}
}

// TestSetAroundALockedRow: of a set whose row others hold nothing is written until
// they let go, and its neighbours do not wait for that.
func TestSetAroundALockedRow(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{LockWait: time.Minute})
	commits := b.group(9)
	held := write(key("held"), b.stored("held"), `{"n":2}`)
	waiting := set(write(key("x"), b.stored("x"), `{"n":2}`), write(key("y"), actor.Row{}, `{"n":2}`), held)
	free := set(write(key("z"), b.stored("z"), `{"n":2}`), write(key("w"), actor.Row{}, `{"n":2}`))
	tx := b.begin()
	b.lock(tx, held.Anchor().Key)
	answers := make(chan []error, 1)
	go func() { answers <- b.s.Commit(t.Context(), append(commits, waiting, free)) }()
	for _, c := range append(commits[:len(commits):len(commits)], free) {
		b.waitFor(c)
	}
	b.whole(waiting, false)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range <-answers {
		b.is(fmt.Sprint(i), err, nil)
	}
	b.whole(waiting, true)
	b.whole(free, true)
}

// TestLockedRowsOfSets: a commit is stuck if any row of it is locked, wherever that
// stands among its rows, and none is for rows of its neighbours.
func TestLockedRowsOfSets(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	old := func(id string) actor.Commit { return write(key(id), b.stored(id), `{"n":2}`) }
	fresh := func(id string) actor.Commit { return write(key(id), actor.Row{}, `{"n":2}`) }
	held, other := old("held"), old("other")
	tx := b.begin()
	b.lock(tx, held.Anchor().Key)
	b.lock(tx, other.Anchor().Key)
	commits := []actor.Commit{
		set(old("a"), old("b"), old("c")),
		set(held, old("d"), fresh("e")), // the first row
		set(fresh("f"), old("g")),
		set(old("h"), other, old("i")), // one between others
		old("j"),
		set(fresh("k"), fresh("l"), held), // the last
		set(old("m"), old("n")),
		fresh("o"),
		set(held, other),
		set(old("p"), fresh("q")),
	}
	stuck, err := b.s.Stuck(t.Context(), commits)
	if want := []int{1, 3, 5, 8}; err != nil || !slices.Equal(stuck, want) {
		t.Errorf("stuck are %v, %v; want %v", stuck, err, want)
	}
}

// TestSetsBehindALockedRow: sets none of whose rows is locked are written while the
// commit before them waits.
func TestSetsBehindALockedRow(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{LockWait: time.Minute})
	old := func(id string) actor.Commit { return write(key(id), b.stored(id), `{"n":2}`) }
	held := old("held")
	commits := []actor.Commit{
		held,
		set(old("a"), write(key("b"), actor.Row{}, `{"n":2}`), old("c")),
		set(write(key("d"), actor.Row{}, `{"n":2}`), old("e")),
		set(old("f"), old("g")),
	}
	tx := b.begin()
	b.lock(tx, held.Anchor().Key)
	answers := make(chan []error, 1)
	go func() { answers <- b.s.Commit(t.Context(), commits) }()
	for _, c := range commits[1:] {
		b.waitFor(c)
		b.whole(c, true)
	}
	b.became(held, false)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range <-answers {
		b.is(fmt.Sprint(i), err, nil)
	}
}

// TestSetWhoseRowStaysLocked is refused whole, and may go again.
func TestSetWhoseRowStaysLocked(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{LockWait: 50 * time.Millisecond})
	held := write(key("held"), b.stored("held"), `{"n":2}`)
	c := set(write(key("x"), b.stored("x"), `{"n":2}`), write(key("y"), actor.Row{}, `{"n":2}`), held)
	neighbour := write(key("n"), b.stored("n"), `{"n":2}`)
	tx := b.begin()
	b.lock(tx, held.Anchor().Key)
	errs := b.s.Commit(t.Context(), []actor.Commit{c, neighbour})
	b.is("the set", errs[0], actor.ErrUnavailable)
	b.is("its neighbour", errs[1], nil)
	b.became(neighbour, true)
	b.whole(c, false)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.is("again", b.s.Commit(t.Context(), []actor.Commit{c})[0], nil)
	b.whole(c, true)
}

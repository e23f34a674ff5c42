package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// Parts of statements, to name a moment by.
const (
	writeStatement = "updated_at = clock_timestamp()" // of groups and of locked turns
	fenceStatement = "version = a.version + 1"
	lockStatement  = "FOR UPDATE"
	probeStatement = "SKIP LOCKED"
)

// broken is a store behind a proxy, and one that goes around it to see what
// became of everything.
type broken struct {
	*testing.T
	s, around *sqlstore.Store
	proxy     *pgproxy.Proxy
	database  string
}

func behindProxy(t *testing.T, cfg sqlstore.Config) *broken {
	t.Helper()
	t.Parallel()
	return behindProxyTo(t, pgtest.URL(t), cfg)
}

func behindProxyTo(t *testing.T, database string, cfg sqlstore.Config) *broken {
	t.Helper()
	b := &broken{T: t, database: database}
	b.around = open(t, b.database)
	b.proxy, cfg.URL = pgproxy.Before(t, b.database)
	cfg.Logger = slog.New(slog.DiscardHandler)
	var err error
	if b.s, err = sqlstore.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.s.Close() })
	return b
}

func key(id string) actor.Key { return actor.Key{App: "shop", Type: "Cart", ID: id} }

// write is a commit of a state upon a row, the zero Row for an insert.
func write(k actor.Key, row actor.Row, text string) actor.Commit {
	w := actor.RowWrite{
		Key: k, ReadVersion: row.Version, NewVersion: row.Version + 1, Generation: 1,
		State: &actor.EncodedState{Format: actor.FormatJSON, Data: []byte(text)},
	}
	if row.Version == 0 {
		w.NewVersion = actor.FirstVersion()
	}
	return actor.CommitOf(w)
}

func (b *broken) load(k actor.Key) actor.Row {
	b.Helper()
	return load(b.T, b.around, k)
}

func load(t *testing.T, s *sqlstore.Store, k actor.Key) actor.Row {
	t.Helper()
	rows, err := s.LoadActors(t.Context(), []actor.Key{k}, actor.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return rows[0]
}

// stored writes an actor around the proxy.
func (b *broken) stored(id string) actor.Row {
	b.Helper()
	k := key(id)
	if err := b.around.Commit(b.Context(), []actor.Commit{write(k, b.load(k), `{"n":1}`)})[0]; err != nil {
		b.Fatal(err)
	}
	return b.load(k)
}

// connect returns a plain connection around the proxy.
func (b *broken) connect() *pgx.Conn {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.database)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(context.WithoutCancel(b.Context())) })
	return conn
}

// exec runs SQL around the proxy.
func (b *broken) exec(sql string) {
	b.Helper()
	if _, err := b.connect().Exec(b.Context(), sql); err != nil {
		b.Fatal(err)
	}
}

func (b *broken) is(what string, err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("%s: error is %v, want %v", what, err, want)
	}
}

// became checks that a commit is there, whole and once, or not at all.
func (b *broken) became(c actor.Commit, applied bool) {
	b.Helper()
	row := b.load(c.Anchor().Key)
	switch {
	case (row.CommitID == c.ID) != applied:
		b.Errorf("%s is at version %d with commit %s; applied should be %t of %s", c.Anchor().Key, row.Version, row.CommitID, applied, c.ID)
	case applied && (row.Version != c.Rows[0].NewVersion || string(row.State.Data) != string(c.Rows[0].State.Data)):
		b.Errorf("%s is at version %d with state %s, want %d with %s", c.Anchor().Key, row.Version, row.State.Data, c.Rows[0].NewVersion, c.Rows[0].State.Data)
	}
}

// commitFaults are what can happen to a commit on its way, and what its answer
// must be then: nil if it held, and why not otherwise.
var commitFaults = []struct {
	name string
	pgproxy.Fault
	want error
}{
	{"never arrives", pgproxy.Fault{Do: pgproxy.Lose}, actor.ErrStale},
	{"done, and the answer lost", pgproxy.Fault{Do: pgproxy.LoseAnswer}, nil},
	{"40001", pgproxy.Fault{Do: pgproxy.Refuse, Code: "40001"}, nil},
	{"40001 five times", pgproxy.Fault{Do: pgproxy.Refuse, Code: "40001", Times: 5}, nil},
	{"40P01", pgproxy.Fault{Do: pgproxy.Refuse, Code: "40P01"}, nil},
	{"40003, not done", pgproxy.Fault{Do: pgproxy.Refuse, Code: "40003"}, actor.ErrStale},
	{"40003, done", pgproxy.Fault{Do: pgproxy.Deny, Code: "40003"}, nil},
	{"57P01, not done", pgproxy.Fault{Do: pgproxy.Terminate, Code: "57P01"}, actor.ErrStale},
	{"57P01, done", pgproxy.Fault{Do: pgproxy.TerminateDone, Code: "57P01"}, nil},
	{"an unknown error, not done", pgproxy.Fault{Do: pgproxy.Refuse, Code: "XX000"}, actor.ErrStale},
	{"an unknown error, done", pgproxy.Fault{Do: pgproxy.Deny, Code: "XX000"}, nil},
	{"disk full", pgproxy.Fault{Do: pgproxy.Refuse, Code: "53100"}, actor.ErrUnavailable},
	{"read only", pgproxy.Fault{Do: pgproxy.Refuse, Code: "25006"}, actor.ErrUnavailable},
	{"statement timeout", pgproxy.Fault{Do: pgproxy.Refuse, Code: "57014"}, actor.ErrUnavailable},
}

func TestCommitFaults(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	faults := append(commitFaults[:len(commitFaults):len(commitFaults)], []struct {
		name string
		pgproxy.Fault
		want error
	}{
		{"done up to its Sync", pgproxy.Fault{Do: pgproxy.LoseSync}, actor.ErrStale},
		{"a locked row that is free again", pgproxy.Fault{Do: pgproxy.Refuse, Code: "55P03"}, nil},
	}...)
	for n, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			b := b.of(t)
			c.On = writeStatement
			b.proxy.Plan(t, c.Fault)
			old, late := b.stored(fmt.Sprintf("old-%d", n)), b.stored(fmt.Sprintf("late-%d", n))
			late.Version--
			commits := []actor.Commit{
				write(key(fmt.Sprintf("old-%d", n)), old, `{"n":2}`),
				write(key(fmt.Sprintf("new-%d", n)), actor.Row{}, `{"n":2}`),
				write(key(fmt.Sprintf("late-%d", n)), late, `{"n":2}`),
			}
			errs := b.s.Commit(t.Context(), commits)
			b.is("update", errs[0], c.want)
			b.is("insert", errs[1], c.want)
			if c.want == nil {
				b.is("stale update", errs[2], actor.ErrStale)
			} else {
				b.is("stale update", errs[2], c.want)
			}
			b.became(commits[0], c.want == nil)
			b.became(commits[1], c.want == nil)
			b.became(commits[2], false)
			// Not applied for want of room may go again as it is; all others are
			// over.
			var again error
			if !errors.Is(c.want, actor.ErrUnavailable) {
				again = actor.ErrStale
			}
			errs = b.s.Commit(t.Context(), commits)
			b.is("update again", errs[0], again)
			b.is("insert again", errs[1], again)
			b.is("stale update again", errs[2], actor.ErrStale)
		})
	}
}

// of returns b for a subtest.
func (b *broken) of(t *testing.T) *broken {
	sub := *b
	sub.T = t
	return &sub
}

// A group that is still on its way when its connection ends must not apply once
// it was said that it never will.
func TestCommitThatArrivesAfterItWasSettled(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	stranded := b.proxy.Plan(t, pgproxy.Fault{On: writeStatement, Do: pgproxy.Strand})
	commits := []actor.Commit{write(key("old"), b.stored("old"), `{"n":2}`), write(key("new"), actor.Row{}, `{"n":2}`)}
	for i, err := range b.s.Commit(t.Context(), commits) {
		b.is(commits[i].Anchor().Key.ID, err, actor.ErrStale)
	}
	stranded.Release()
	_ = b.s.Close()
	b.proxy.Wait()
	for _, c := range commits {
		b.became(c, false)
	}
}

// What the driver cannot settle itself is ambiguous, and Settle finds out later.
func TestCommitThatCannotBeSettledAtOnce(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	for n, c := range []struct {
		lose pgproxy.Action
		want error
	}{{pgproxy.Lose, actor.ErrStale}, {pgproxy.LoseSync, actor.ErrStale}, {pgproxy.LoseAnswer, nil}} {
		b.proxy.Plan(t, pgproxy.Fault{On: writeStatement, Do: c.lose})
		b.proxy.Plan(t, pgproxy.Fault{On: fenceStatement, Do: pgproxy.Refuse, Code: "53300"})
		commits := []actor.Commit{
			write(key(fmt.Sprintf("old-%d", n)), b.stored(fmt.Sprintf("old-%d", n)), `{"n":2}`),
			write(key(fmt.Sprintf("new-%d", n)), actor.Row{}, `{"n":2}`),
		}
		for i, err := range b.s.Commit(t.Context(), commits) {
			b.is(commits[i].Anchor().Key.ID, err, actor.ErrAmbiguous)
		}
		for _, c2 := range commits {
			b.is("settle "+c2.Anchor().Key.ID, b.s.Settle(t.Context(), c2), c.want)
			b.is("settle twice "+c2.Anchor().Key.ID, b.s.Settle(t.Context(), c2), c.want)
			b.became(c2, c.want == nil)
		}
	}
}

// Settling is itself cut, refused and left in doubt.
func TestSettleFaults(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	for n, c := range []struct {
		name string
		pgproxy.Fault
		want error
	}{
		{"fence never arrives", pgproxy.Fault{On: fenceStatement, Do: pgproxy.Lose}, actor.ErrStale},
		{"fence undone at its Sync", pgproxy.Fault{On: fenceStatement, Do: pgproxy.LoseSync}, actor.ErrStale},
		{"fence done, answer lost", pgproxy.Fault{On: fenceStatement, Do: pgproxy.LoseAnswer}, actor.ErrStale},
		{"fence 40001", pgproxy.Fault{On: fenceStatement, Do: pgproxy.Refuse, Code: "40001", Times: 3}, actor.ErrStale},
		{"fence 40003, done", pgproxy.Fault{On: fenceStatement, Do: pgproxy.Deny, Code: "40003"}, actor.ErrStale},
		{"fence 40003, not done", pgproxy.Fault{On: fenceStatement, Do: pgproxy.Refuse, Code: "40003", Times: 2}, actor.ErrStale},
		{"reading lost", pgproxy.Fault{On: "SELECT c.n, a.version, a.commit_id,", Do: pgproxy.LoseAnswer}, actor.ErrStale},
		{"no room for the fence", pgproxy.Fault{On: fenceStatement, Do: pgproxy.Refuse, Code: "53100"}, actor.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.of(t)
			commit := write(key(fmt.Sprint("a-", n)), b.stored(fmt.Sprint("a-", n)), `{"n":2}`)
			b.proxy.Plan(t, c.Fault)
			b.is("settle", b.s.Settle(t.Context(), commit), c.want)
			b.is("settle again", b.s.Settle(t.Context(), commit), actor.ErrStale)
			b.is("commit", b.s.Commit(t.Context(), []actor.Commit{commit})[0], actor.ErrStale)
			b.became(commit, false)
		})
	}
}

// TestSettleFaultsTogether: one trouble after the other is as little in the way.
func TestSettleFaultsTogether(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	commit := write(key("a"), b.stored("a"), `{"n":2}`)
	for _, f := range []pgproxy.Fault{
		{Do: pgproxy.Refuse, Code: "40001"}, {Do: pgproxy.Deny, Code: "40003"}, {Do: pgproxy.LoseAnswer}, {Do: pgproxy.Refuse, Code: "40003"},
	} {
		f.On = fenceStatement
		b.proxy.Plan(t, f)
	}
	b.is("settle", b.s.Settle(t.Context(), commit), actor.ErrStale)
	b.became(commit, false)
}

func TestLockedTurnFaults(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	for n, c := range commitFaults {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/first turn %t", c.name, first), func(t *testing.T) {
				b := b.of(t)
				k := key(fmt.Sprintf("a-%d-%t", n, first))
				var before actor.Row
				if !first {
					before = b.stored(k.ID)
				}
				c.On = pgproxy.Commit
				b.proxy.Plan(t, c.Fault)
				var made []actor.Commit
				got, err := b.s.LockedTurn(t.Context(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
					if row.Version != before.Version {
						t.Errorf("turn %d saw version %d, want %d", len(made)+1, row.Version, before.Version)
					}
					made = append(made, write(k, row, fmt.Sprintf(`{"turn":%d}`, len(made))))
					return &made[len(made)-1], nil
				})
				b.is("turn", err, c.want)
				turns := 1
				if c.Code == "40001" || c.Code == "40P01" {
					turns += max(1, c.Times)
				}
				if len(made) != turns {
					t.Errorf("%d turns ran, want %d", len(made), turns)
				}
				last := made[len(made)-1]
				if err == nil && (got == nil || got.ID != last.ID) {
					t.Errorf("the commit returned is %v, want the last one", got)
				}
				b.became(last, c.want == nil)
				if errors.Is(err, actor.ErrUnavailable) && b.load(k).Version != before.Version {
					t.Errorf("a turn that was not applied left version %d", b.load(k).Version)
				}
				// No lock and no broken connection is left behind.
				_, err = b.s.LockedTurn(t.Context(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
					c := write(k, row, `{"after":true}`)
					return &c, nil
				})
				b.is("turn after it", err, nil)
			})
		}
	}
}

// Before its COMMIT, a turn that loses its connection has done nothing.
func TestLockedTurnCutBeforeItsCommit(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	for n, f := range []pgproxy.Fault{
		{On: lockStatement, Do: pgproxy.Lose}, {On: lockStatement, Do: pgproxy.LoseAnswer},
		{On: lockStatement, Do: pgproxy.Terminate, Code: "57P01"},
		{On: writeStatement, Do: pgproxy.Lose}, {On: writeStatement, Do: pgproxy.LoseAnswer},
		{On: writeStatement, Do: pgproxy.Deny, Code: "40003"}, {On: writeStatement, Do: pgproxy.TerminateDone, Code: "57P01"},
	} {
		k := key(fmt.Sprint("a-", n))
		before := b.stored(k.ID)
		b.proxy.Plan(t, f)
		turns := 0
		got, err := b.s.LockedTurn(t.Context(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			turns++
			c := write(k, row, `{"n":2}`)
			return &c, nil
		})
		b.is(fmt.Sprintf("%d", n), err, actor.ErrUnavailable)
		if want := 1; f.On == writeStatement && turns != want || f.On == lockStatement && turns != 0 {
			t.Errorf("fault %d: %d turns ran", n, turns)
		}
		if got != nil {
			t.Errorf("fault %d: a commit is returned for a turn that left none", n)
		}
		if after := b.load(k); after.Version != before.Version || after.CommitID != before.CommitID {
			t.Errorf("fault %d: version %d became %d", n, before.Version, after.Version)
		}
	}
}

// A COMMIT that is still on its way holds the row: its session is ended, so that it never
// arrives.
func TestLockedTurnWhoseCommitArrivesLater(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	k := key("a")
	row := b.stored("a")
	stranded := b.proxy.Plan(t, pgproxy.Fault{On: pgproxy.Commit, Do: pgproxy.Strand})
	c, err := b.s.LockedTurn(t.Context(), k, func(context.Context, actor.Row) (*actor.Commit, error) {
		c := write(k, row, `{"n":2}`)
		return &c, nil
	})
	b.is("turn", err, actor.ErrStale)
	stranded.Release()
	_ = b.s.Close()
	b.proxy.Wait()
	b.became(*c, false)
}

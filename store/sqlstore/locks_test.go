package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/sqlstore"
	"github.com/greenroom-run/greenroom/store/sqlstore/internal/pgproxy"
)

// begin opens a transaction that another program might hold.
func (b *broken) begin() pgx.Tx {
	b.Helper()
	tx, err := b.connect().Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.Context())) })
	return tx
}

func (b *broken) lock(tx pgx.Tx, k actor.Key) {
	b.Helper()
	var version int64
	if err := tx.QueryRow(b.Context(), `SELECT version FROM greenroom_actor WHERE app = $1 AND type = $2 AND id = $3 FOR UPDATE`,
		k.App, k.Type, k.ID).Scan(&version); err != nil {
		b.Fatal(err)
	}
}

// waitFor waits until a commit is there, while something else goes on.
func (b *broken) waitFor(c actor.Commit) {
	b.Helper()
	for b.load(c.Anchor().Key).CommitID != c.ID {
		if b.Context().Err() != nil {
			b.Fatalf("%s was never applied", c.Anchor().Key)
		}
	}
}

// group is commits of existing actors and of one new one.
func (b *broken) group(n int) []actor.Commit {
	b.Helper()
	var commits []actor.Commit
	for i := range n - 1 {
		k := key(fmt.Sprintf("%02d", i))
		commits = append(commits, write(k, b.stored(k.ID), `{"n":2}`))
	}
	return append(commits, write(key("new"), actor.Row{}, `{"n":2}`))
}

// The neighbours of a locked row are durable while it is still locked, and it
// is committed once it is free.
func TestLockedRowHoldsUpNobodyElse(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{LockWait: time.Minute})
	commits := b.group(9)
	tx := b.begin()
	for _, i := range []int{2, 3, 6} {
		b.lock(tx, commits[i].Anchor().Key)
	}
	answers := make(chan []error, 1)
	go func() { answers <- b.s.Commit(t.Context(), commits) }()
	for i, c := range commits {
		if i != 2 && i != 3 && i != 6 {
			b.waitFor(c)
		}
	}
	for _, i := range []int{2, 3, 6} {
		b.became(commits[i], false)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range <-answers {
		b.is(commits[i].Anchor().Key.ID, err, nil)
		b.became(commits[i], true)
	}
}

// A row that stays locked is refused as unavailable, was not written, and may
// go again. Its neighbours are written although that takes longer than LockWait.
func TestRowThatStaysLocked(t *testing.T) {
	const lockWait = 50 * time.Millisecond
	b := behindProxy(t, sqlstore.Config{LockWait: lockWait})
	commits := b.group(5)
	tx := b.begin()
	b.lock(tx, commits[1].Anchor().Key)
	slow := b.proxy.Plan(t, pgproxy.Fault{On: probeStatement, Do: pgproxy.Hold})
	answers := make(chan []error, 1)
	go func() { answers <- b.s.Commit(t.Context(), commits) }()
	<-slow.Struck()
	<-time.After(2 * lockWait) // of the store's time
	slow.Release()
	for i, err := range <-answers {
		if i == 1 {
			b.is("the locked one", err, actor.ErrUnavailable)
			continue
		}
		b.is(commits[i].Anchor().Key.ID, err, nil)
		b.became(commits[i], true)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.became(commits[1], false)
	b.is("again", b.s.Commit(t.Context(), commits[1:2])[0], nil)
	b.became(commits[1], true)
}

// A locked row that moves on before it is free is stale, not overwritten.
func TestLockedRowThatMovesOn(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{LockWait: time.Minute})
	commits := b.group(4)
	tx := b.begin()
	b.lock(tx, commits[1].Anchor().Key)
	if _, err := tx.Exec(t.Context(), `UPDATE greenroom_actor SET version = version + 1 WHERE id = $1`, commits[1].Anchor().Key.ID); err != nil {
		t.Fatal(err)
	}
	answers := make(chan []error, 1)
	go func() { answers <- b.s.Commit(t.Context(), commits) }()
	b.waitFor(commits[0])
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range <-answers {
		if i == 1 {
			b.is("the moved one", err, actor.ErrStale)
			b.became(commits[i], false)
			continue
		}
		b.is(commits[i].Anchor().Key.ID, err, nil)
		b.became(commits[i], true)
	}
}

// An insert that waits for a rival's uncommitted row gets in if the rival goes,
// and is stale if the rival stays.
func TestInsertBehindAnUncommittedOne(t *testing.T) {
	for _, rivalStays := range []bool{false, true} {
		t.Run(fmt.Sprintf("rival stays %t", rivalStays), func(t *testing.T) {
			b := behindProxy(t, sqlstore.Config{LockWait: time.Minute})
			commits := b.group(6)
			tx := b.begin()
			if _, err := tx.Exec(t.Context(), `INSERT INTO greenroom_actor
				(app, type, id, version, commit_id, generation, state_schema, format, updated_at, shard)
				VALUES ('shop', 'Cart', 'new', 7, gen_random_uuid(), 0, 0, 0, now(), 0)`); err != nil {
				t.Fatal(err)
			}
			answers := make(chan []error, 1)
			go func() { answers <- b.s.Commit(t.Context(), commits) }()
			for _, c := range commits[:5] {
				b.waitFor(c)
			}
			end, want := tx.Rollback, error(nil)
			if rivalStays {
				end, want = tx.Commit, actor.ErrStale
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.is("insert", (<-answers)[5], want)
			b.became(commits[5], want == nil)
		})
	}
}

// A context that ends while a row is waited for ends only that wait.
func TestContextEndsWhileARowIsLocked(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{LockWait: time.Minute})
	commits := b.group(4)
	tx := b.begin()
	b.lock(tx, commits[1].Anchor().Key)
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan []error, 1)
	go func() { answers <- b.s.Commit(ctx, commits) }()
	for i, c := range commits {
		if i != 1 {
			b.waitFor(c)
		}
	}
	cancel()
	errs := <-answers
	b.is("the locked one", errs[1], context.Canceled)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.became(commits[1], false)
}

// A client that dies inside a locked turn holds its row for TurnTimeout at most.
func TestDeadClientOfALockedTurn(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{TurnTimeout: time.Second})
	c := write(key("a"), b.stored("a"), `{"n":2}`)
	held := b.proxy.Plan(t, pgproxy.Fault{On: writeStatement, Do: pgproxy.Hold})
	turn := make(chan error, 1)
	go func() {
		for {
			_, err := b.s.LockedTurn(t.Context(), c.Anchor().Key, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
				c := write(c.Anchor().Key, row, `{"dead":true}`)
				return &c, nil
			})
			select {
			case <-held.Struck():
				turn <- err
				return
			default: // its second was over before it came to write
				if !errors.Is(err, actor.ErrUnavailable) {
					turn <- err
					return
				}
			}
		}
	}()
	select {
	case <-held.Struck():
	case err := <-turn:
		t.Fatalf("the turn ended before it wrote: %v", err)
	}
	// The server ends the dead client's session; until then, this waits.
	for {
		err := b.around.Commit(t.Context(), []actor.Commit{c})[0]
		if err == nil {
			break
		}
		if !errors.Is(err, actor.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	held.Release()
	b.is("the dead client's turn", <-turn, actor.ErrUnavailable)
	b.became(c, true)
}

// A statement that the server ends for its length has not applied.
func TestStatementTimeout(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{StatementTimeout: 5 * time.Second})
	b.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON greenroom_actor FOR EACH ROW WHEN (NEW.id = 'slow') EXECUTE FUNCTION slow()`)
	c := write(key("slow"), actor.Row{}, `{}`)
	b.is("commit", b.s.Commit(t.Context(), []actor.Commit{c})[0], actor.ErrUnavailable)
	b.became(c, false)
}

// A server that says nothing at all is given up, and the commit settled.
func TestSilentServer(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{StatementTimeout: 2 * time.Second})
	row := b.stored("a")
	b.proxy.Plan(t, pgproxy.Fault{On: writeStatement, Do: pgproxy.Hold})
	c := write(key("a"), row, `{"n":2}`)
	b.is("commit", b.s.Commit(t.Context(), []actor.Commit{c})[0], actor.ErrStale)
	b.became(c, false)
}

// An error that comes only at the end of the implicit transaction takes back
// commits whose IDs were already returned.
func TestErrorAtSync(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	b.exec(`CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE 'poison' USING ERRCODE = 'check_violation'; END $$;
		CREATE CONSTRAINT TRIGGER poison AFTER INSERT OR UPDATE ON greenroom_actor DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW WHEN (NEW.state = '{"poison":true}') EXECUTE FUNCTION poison()`)
	commits := b.group(5)
	commits[2].Rows[0].State.Data = []byte(`{"poison":true}`)
	for i, err := range b.s.Commit(t.Context(), commits) {
		if i == 2 {
			if err == nil || errors.Is(err, actor.ErrAmbiguous) || errors.Is(err, actor.ErrUnavailable) {
				t.Errorf("the poisoned one answered %v", err)
			}
			continue
		}
		b.is(commits[i].Anchor().Key.ID, err, nil)
		b.became(commits[i], true)
	}
	b.became(commits[2], false)
}

// Everyone adds to one actor, by groups and by locked turns, through two stores.
func TestHotRow(t *testing.T) {
	b := behindProxy(t, sqlstore.Config{})
	const writers = 64
	k := key("hot")
	next := func(row actor.Row) actor.Commit { return write(k, row, fmt.Sprintf(`{"n":%d}`, countOf(t, row)+1)) }
	var clients sync.WaitGroup
	for i := range writers {
		s := b.s
		if i%4 >= 2 {
			s = b.around
		}
		clients.Go(func() {
			for {
				var err error
				if i%2 == 0 {
					_, err = s.LockedTurn(t.Context(), k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
						c := next(row)
						return &c, nil
					})
				} else {
					err = s.Commit(t.Context(), []actor.Commit{next(load(t, s, k))})[0]
				}
				if err == nil {
					return
				}
				if !errors.Is(err, actor.ErrStale) && !errors.Is(err, actor.ErrUnavailable) {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	if n := countOf(t, b.load(k)); n != writers {
		t.Errorf("the actor counted %d of %d", n, writers)
	}
}

// countOf reads {"n":…}; 0 of a row that is not there.
func countOf(t *testing.T, row actor.Row) (n int) {
	if row.State.Format == actor.FormatNone {
		return 0
	}
	if _, err := fmt.Sscanf(string(row.State.Data), `{"n":%d}`, &n); err != nil {
		t.Errorf("state %q: %v", row.State.Data, err)
	}
	return n
}

package sqlstore_test

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestSweepSparesAnActorRevivedMeanwhile revives an actor in a transaction that
// the sweep waits for: what the sweep then finds is no tombstone any more.
func TestSweepSparesAnActorRevivedMeanwhile(t *testing.T) {
	b := &broken{T: t, database: pgtest.URL(t)}
	b.around = open(t, b.database)
	k := key("revived")
	tomb := actor.CommitOf(actor.RowWrite{Key: k, NewVersion: actor.FirstVersion(), Delete: true})
	if err := b.around.Commit(t.Context(), []actor.Commit{tomb})[0]; err != nil {
		t.Fatal(err)
	}
	now, err := b.around.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx := b.begin()
	if _, err := tx.Exec(t.Context(), `UPDATE greenroom_actor SET deleted_at = NULL, version = version + 1 WHERE id = $1`, k.ID); err != nil {
		t.Fatal(err)
	}
	swept := make(chan error, 1)
	go func() {
		n, err := b.around.SweepTombstones(t.Context(), now.Add(time.Minute), 10)
		if n != 0 {
			t.Errorf("%d rows were swept", n)
		}
		swept <- err
	}()
	for waiting := false; !waiting; {
		if err := b.connect().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM greenroom_actor%')`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	if row := b.load(k); row.Version != tomb.Rows[0].NewVersion+1 || row.Deleted {
		t.Errorf("the revived actor is %+v", row)
	}
}

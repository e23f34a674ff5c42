package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
)

// lockedTurns runs turns that lock their rows.
type lockedTurns struct {
	*db
	outcomes *outcomes
	order    order
}

const (
	lockRow = `SELECT version, commit_id, life, deleted_at IS NOT NULL, generation, state_schema, format, state, updated_at, spawned, method_set, born_at
FROM greenroom_actor WHERE app = $1 AND type = $2 AND id = $3 FOR UPDATE`

	// placeRow makes a row to hold on to for an actor that has none. Others who
	// want the same wait for it, and it goes with the transaction unless the
	// turn commits.
	placeRow = `INSERT INTO greenroom_actor
	(app, type, id, version, commit_id, generation, state_schema, format, deleted_at, updated_at, shard)
VALUES ($1, $2, $3, $4, $5, 0, 0, 0, clock_timestamp(), clock_timestamp(), $6)
ON CONFLICT (app, type, id) DO NOTHING`

	// removeHeld takes the placed row away before the COMMIT of a turn that
	// records a call and leaves its actor without a row.
	removeHeld = `DELETE FROM greenroom_actor WHERE app = $1 AND type = $2 AND id = $3 AND version = $4`
)

// LockedTurn runs a turn inside the transaction that holds its row. The lock
// keeps other turns waiting; what keeps them apart is the version.
func (s *lockedTurns) LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var commit *actor.Commit
	turn := func(tx pgx.Tx) error {
		commit = nil
		row, held, err := s.lock(ctx, tx, key)
		if err != nil {
			return err
		}
		next, err := fn(ctx, row)
		if err != nil {
			return &finalError{err}
		}
		if next == nil {
			return &finalError{nil}
		}
		if err := s.check(ctx, key, row, next); err != nil {
			return &finalError{err}
		}
		commit = next
		return s.write(tx, held, next)
	}
	err := s.runTurn(ctx, turn)
	if err == nil {
		return commit, nil
	}
	var final *finalError
	if errors.As(err, &final) {
		return nil, final.cause
	}
	var lost *lostCommitError
	if errors.As(err, &lost) {
		a := attempt{commit: commit}
		s.outcomes.settleLost(ctx, []*attempt{&a}, lost.cause)
		return commit, a.err
	}
	return nil, asStoreError(ctx, "locked turn", err)
}

// runTurn is transact with a connection for turns. The connection is given back before an
// outcome that was lost is settled.
func (s *lockedTurns) runTurn(ctx context.Context, turn func(pgx.Tx) error) error {
	conn, err := s.turns.Acquire(ctx)
	if err != nil {
		return &notSentError{err}
	}
	defer conn.Release()
	return s.transact(ctx, conn, s.cfg.TurnTimeout, turn)
}

// check refuses what cannot be committed, before anything is written.
func (s *lockedTurns) check(ctx context.Context, key actor.Key, row actor.Row, c *actor.Commit) error {
	if err := ctx.Err(); err != nil {
		return err // the turn's time was over before it was sealed
	}
	return store.ValidateTurn(c, key, row.Version)
}

// lock locks the actor's row and returns it, with the version under which it is
// held: its own, or that of the row placed for an actor without one.
func (s *lockedTurns) lock(ctx context.Context, tx pgx.Tx, key actor.Key) (actor.Row, uint64, error) {
	// Twice: the row that was in the way of placing one is there to be locked,
	// except if it has gone again.
	for range 2 {
		var r storedRow
		err := tx.QueryRow(ctx, lockRow, key.App, key.Type, key.ID).Scan(r.targets()...)
		if err == nil {
			row, fault := r.row()
			if fault != "" {
				return actor.Row{}, 0, &finalError{&store.DamagedError{Rows: []store.DamagedRow{{Key: key, Version: addressable(r.version), Detail: fault}}}}
			}
			return row, row.Version, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return actor.Row{}, 0, err
		}
		placed := actor.FirstVersion()
		tag, err := tx.Exec(ctx, placeRow, key.App, key.Type, key.ID, int64(placed), uuid(newUUID()), shardOf(key))
		if err != nil {
			return actor.Row{}, 0, err
		}
		if tag.RowsAffected() == 1 {
			return actor.Row{}, placed, nil
		}
	}
	return actor.Row{}, 0, restartError{}
}

// write writes the turn's commit over the row that it holds.
func (s *lockedTurns) write(tx pgx.Tx, held uint64, c *actor.Commit) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.cfg.StatementTimeout)
	defer cancel()
	over := *c
	removes := false // the row that was placed
	var spawned []actor.RowWrite
	if len(c.Rows) > 0 {
		row := c.Rows[0]
		row.ReadVersion = held
		over.Rows = []actor.RowWrite{row}
		spawned = c.Rows[1:]
	} else {
		over.Fences = []actor.RowFence{{Key: c.Fences[0].Key, Version: held}}
		removes = c.Fences[0].Version == 0
	}
	if len(c.Records) > 0 {
		k := recordColumns{dialect: s.dialect}
		k.add(c)
		exists := false
		if err := tx.QueryRow(ctx, `SELECT EXISTS (`+taken+`)`, k.commitIDs, k.ids).Scan(&exists); err != nil {
			return fmt.Errorf("look for the keys of the turn: %w", err)
		}
		if exists {
			return &finalError{actor.ErrKeyExists}
		}
		if _, err := tx.Exec(ctx, removeExpired, k.ids); err != nil {
			return fmt.Errorf("make room for the keys of the turn: %w", err)
		}
	}
	taken, err := stepsTaken(ctx, tx, []*actor.Commit{c})
	if err != nil {
		return fmt.Errorf("look for the firing of the turn: %w", err)
	}
	if len(taken) > 0 {
		return &finalError{actor.ErrFiringTaken}
	}
	if err := s.order.check(ctx, tx, c); err != nil {
		return err
	}
	var b pgx.Batch
	deciding := queueGroup(&b, []*actor.Commit{&over}, newGroupParts(s.dialect))
	inserts := -1
	if len(spawned) > 0 {
		inserts = b.Len()
		queueSpawned(&b, c.ID, spawned)
	}
	if removes {
		key := c.Fences[0].Key
		b.Queue(removeHeld, key.App, key.Type, key.ID, int64(held))
	}
	results := tx.SendBatch(ctx, &b)
	fits := true
	for i := range b.Len() {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close()
			return fmt.Errorf("write the turn: %w", err)
		}
		fits = fits && (i >= deciding || tag.RowsAffected() == 1) && (i != inserts || tag.RowsAffected() == int64(len(spawned)))
	}
	if err := results.Close(); err != nil {
		return fmt.Errorf("write the turn: %w", err)
	}
	if !fits {
		// CockroachDB may lose a row lock when a range moves; the version decides.
		return &finalError{actor.ErrStale}
	}
	return nil
}

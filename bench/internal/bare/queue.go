package bare

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
)

// QueueRole makes a message of a row in a queue table: it is inserted beside an update of its
// sender, and consumed in a transaction that updates its receiver.
const QueueRole = "sql-queue"

const (
	createQueue = `CREATE TABLE IF NOT EXISTS bare_queue (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sender text NOT NULL, receiver text NOT NULL, payload bytea NOT NULL)`
	enqueue     = `INSERT INTO bare_queue (sender, receiver, payload) VALUES ($1, $2, $3)`
	dequeue     = `DELETE FROM bare_queue WHERE id = (SELECT id FROM bare_queue ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING receiver`
)

// Queue plays [QueueRole].
func Queue(ctx context.Context, s SQL) (load.Result, error) {
	pool := s.open(ctx)
	defer pool.Close()
	must.Get(pool.Exec(ctx, createQueue))
	add := func(ctx context.Context, tx pgx.Tx, actor string) error {
		var version int64
		var state []byte
		if err := tx.QueryRow(ctx, selectRow, "default", "Counter", actor).Scan(&version, &state); err != nil {
			return err
		}
		state[0]++
		_, err := tx.Exec(ctx, updateRow, "default", "Counter", actor, version+1, commitID(), state)
		return err
	}
	return load.Drive(ctx, s.Plan, func(ctx context.Context, _, target, n int) error {
		from, to := id(target), id((target+n)%s.Plan.Actors)
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := add(ctx, tx, from); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, enqueue, from, to, []byte("1"))
			return err
		})
		if err != nil {
			return err
		}
		for {
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				var receiver string
				if err := tx.QueryRow(ctx, dequeue).Scan(&receiver); err != nil {
					return err
				}
				return add(ctx, tx, receiver)
			})
			if !errors.Is(err, pgx.ErrNoRows) { // the row that it found was consumed by another one meanwhile
				return err
			}
		}
	})
}

package bare

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/bench/internal/load"
)

// The names of the roles that move an amount from one row to another in a transaction, which
// locks both in the order of their IDs.
const (
	// TransferRole makes a round trip for each statement: BEGIN, two SELECT FOR UPDATE,
	// two UPDATE, COMMIT.
	TransferRole = "sql-transfer"
	// PipelinedRole makes two round trips: what reads, and what writes.
	PipelinedRole = "sql-transfer-pipelined"
)

// Transfers plays [TransferRole].
func Transfers(ctx context.Context, s SQL) (load.Result, error) {
	return transfer(ctx, s, func(ctx context.Context, c *pgx.Conn, rows [2]row) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			for i := range rows {
				if err := tx.QueryRow(ctx, selectRow, rows[i].key()...).Scan(&rows[i].version, &rows[i].state); err != nil {
					return err
				}
			}
			for i := range rows {
				if _, err := tx.Exec(ctx, updateRow, rows[i].next()...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Pipelined plays [PipelinedRole].
func Pipelined(ctx context.Context, s SQL) (load.Result, error) {
	return transfer(ctx, s, func(ctx context.Context, c *pgx.Conn, rows [2]row) error {
		var read, write pgx.Batch
		read.Queue("BEGIN")
		for i := range rows {
			read.Queue(selectRow, rows[i].key()...).QueryRow(func(r pgx.Row) error { return r.Scan(&rows[i].version, &rows[i].state) })
		}
		if err := c.SendBatch(ctx, &read).Close(); err != nil {
			return err
		}
		for i := range rows {
			write.Queue(updateRow, rows[i].next()...)
		}
		write.Queue("COMMIT")
		return c.SendBatch(ctx, &write).Close()
	})
}

// row is one of the two of a transfer.
type row struct {
	id      string
	version int64
	state   []byte
}

func (r *row) key() []any { return []any{"default", "Counter", r.id} }

func (r *row) next() []any {
	r.state[0]++
	return append(r.key(), r.version+1, commitID(), r.state)
}

// transfer measures transfers, each on a connection of its own. A failed one ends the run.
func transfer(ctx context.Context, s SQL, move func(ctx context.Context, c *pgx.Conn, rows [2]row) error) (load.Result, error) {
	pool := s.open(ctx)
	defer pool.Close()
	return load.Drive(ctx, s.Plan, func(ctx context.Context, worker, _, n int) error {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		from, to := load.Pair(worker, n, s.Plan.Actors)
		if err := move(ctx, c.Conn(), [2]row{{id: id(from)}, {id: id(to)}}); err != nil {
			return fmt.Errorf("transfer from %d to %d: %w", from, to, err)
		}
		return nil
	})
}

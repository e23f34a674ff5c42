package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-run/greenroom/actor"
)

// errNotHeld ends the transaction of a commit that is refused.
var errNotHeld = errors.New("the commit does not hold")

// commitAlone decides a commit that changes services: in a transaction of its own, since a service
// that is taken must refuse this commit and no other. Such commits are rare.
func (s *commits) commitAlone(ctx context.Context, a *attempt) {
	conn, err := s.pools.commits.Acquire(ctx)
	if err != nil {
		a.err = asStoreError(ctx, "commit", unavailable("send", err))
		return
	}
	err = s.transact(ctx, conn, 2*s.cfg.StatementTimeout, func(tx pgx.Tx) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.StatementTimeout)
		defer cancel()
		if err := changeServices(ctx, tx, a.commit); err != nil {
			return err
		}
		if len(a.commit.Records) > 0 { // as in a locked turn
			k := recordColumns{dialect: s.dialect}
			k.add(a.commit)
			if _, err := tx.Exec(ctx, removeExpired, k.ids); err != nil {
				return fmt.Errorf("make room for the keys of the commit: %w", err)
			}
		}
		var b pgx.Batch
		deciding := queueGroup(&b, []*actor.Commit{a.commit}, newGroupParts(s.dialect))
		results, held := tx.SendBatch(ctx, &b), false
		for i := range b.Len() {
			rows, err := results.Query()
			if err != nil {
				return errors.Join(fmt.Errorf("commit: %w", err), results.Close())
			}
			for rows.Next() {
				held = held || i < deciding && string(rows.RawValues()[0]) == string(a.commit.ID[:])
			}
			rows.Close()
			if err := rows.Err(); err != nil {
				return errors.Join(fmt.Errorf("commit: %w", err), results.Close())
			}
		}
		if err := results.Close(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if !held {
			return &finalError{errNotHeld}
		}
		return nil
	})
	conn.Release()
	var final *finalError
	var lost *lostCommitError
	switch {
	case err == nil:
	case errors.As(err, &final) && errors.Is(final.cause, errNotHeld):
		s.outcomes.refusals(ctx, []*attempt{a})
	case errors.As(err, &final):
		a.err = final.cause
	case errors.As(err, &lost):
		s.outcomes.settleLost(ctx, []*attempt{a}, lost.cause)
	default:
		a.err = asStoreError(ctx, "commit", err)
	}
}

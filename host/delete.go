package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/residency"
)

// delete leaves a tombstone in place of the actor's state, and removes its reminders.
// Only the row's version matters: a state that cannot be decoded is removed like any
// other.
func (ts *turns) delete(ctx context.Context, a *activation, c *call, s *served, began time.Time) error {
	c.stats.lane = s.lane
	if s.lane != LaneLocked {
		return ts.warmDelete(ctx, a, s, began)
	}
	a.dropAll()
	leave, err := ts.locked.places.Enter(ctx, a.key.App, a.key.Type)
	if err != nil {
		return err
	}
	defer leave()
	if ts.reminders != nil { // they go before the row is locked
		l, err := ts.store.load(ctx, a.key, actor.LoadOptions{BesideLocks: true})
		if err == nil {
			err = ts.reminders.thin(ctx, a.key, l)
		}
		if err != nil {
			return err
		}
	}
	err = ts.locked.inTransaction(ctx, a.key, func(row actor.Row) (*actor.Commit, error) {
		if err := ts.locked.lockedHere(a.key, s); err != nil {
			return nil, err
		}
		if row.Version == 0 || row.Deleted {
			if err := ts.reminders.some(ctx, a.key); err != nil {
				return nil, err
			}
		}
		commit := actor.CommitOf(residency.NewRow(row).Tombstone(a.key, s.deployment.Generation))
		return &commit, nil
	})
	if version, ok := residency.DamagedVersion(err, a.key); ok {
		// The store cannot even hand the row over. Its version fences all the same.
		if err := ts.locked.lockedHere(a.key, s); err != nil {
			return err
		}
		return ts.store.commit(actor.CommitOf((&residency.Row{Version: version}).Tombstone(a.key, s.deployment.Generation)), LaneLocked)
	}
	return err
}

// warmDelete deletes under the version, for every lane that takes no lock.
func (ts *turns) warmDelete(ctx context.Context, a *activation, s *served, began time.Time) error {
	l, err := ts.ensureLoaded(ctx, a, s)
	if err == nil && s.lane == LaneStateless {
		err = ts.ownership.mayRun(a.key, s, time.Now())
	}
	if err != nil {
		return err
	}
	if l.Damage == nil && !l.Exists {
		outdated, err := ts.ownership.confirmTip(ctx, a, began)
		if err != nil {
			return err
		}
		if outdated {
			if l, err = ts.ensureLoaded(ctx, a, s); err != nil {
				return err
			}
		}
	}
	if !l.Exists { // drained, so it is not nil
		if err := ts.reminders.some(ctx, a.key); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ts.reminders.thin(ctx, a.key, l); err != nil {
		a.dropState()
		return err
	}
	w := l.Tombstone(a.key, s.deployment.Generation)
	sent := time.Now()
	if err := ts.commit(a, actor.CommitOf(w)); err != nil {
		a.dropState()
		return err
	}
	ts.table.keep(a, l.After(&w, residency.NoState), ts.table.revisions.Next(), sent)
	return nil
}

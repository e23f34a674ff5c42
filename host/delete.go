package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
)

// delete leaves a tombstone in place of the actor's state, and removes its reminders.
// Only the row's version matters: a state that cannot be decoded is removed like any
// other.
func (ts *turns) delete(ctx context.Context, a *activation.Activation, c *call.Call, s *serving.Type, began time.Time) error {
	c.Stats.Lane = s.Lane
	if s.Lane != serving.LaneLocked {
		return ts.warmDelete(ctx, a, s, began)
	}
	a.DropAll()
	leave, err := ts.locked.places.Enter(ctx, a.Key.App, a.Key.Type)
	if err != nil {
		return err
	}
	defer leave()
	if ts.reminders != nil { // they go before the row is locked
		l, err := ts.store.Load(ctx, a.Key, actor.LoadOptions{})
		if err == nil {
			err = ts.reminders.thin(ctx, a.Key, l)
		}
		if err != nil {
			return err
		}
	}
	err = ts.locked.inTransaction(ctx, a.Key, func(row actor.Row) (*actor.Commit, error) {
		if err := ts.locked.lockedHere(a.Key, s); err != nil {
			return nil, err
		}
		if row.Version == 0 || row.Deleted {
			if err := ts.reminders.some(ctx, a.Key); err != nil {
				return nil, err
			}
		}
		commit := actor.CommitOf(residency.NewRow(row).Tombstone(a.Key, s.Deployment.Generation))
		return &commit, nil
	})
	if version, ok := residency.DamagedVersion(err, a.Key); ok {
		// The store cannot even hand the row over. Its version fences all the same.
		if err := ts.locked.lockedHere(a.Key, s); err != nil {
			return err
		}
		return ts.store.Commit(actor.CommitOf((&residency.Row{Version: version}).Tombstone(a.Key, s.Deployment.Generation)), serving.LaneLocked)
	}
	return err
}

// warmDelete deletes under the version, for every lane that takes no lock.
func (ts *turns) warmDelete(ctx context.Context, a *activation.Activation, s *serving.Type, began time.Time) error {
	l, err := ts.ensureLoaded(ctx, a, s)
	if err == nil && s.Lane == serving.LaneStateless {
		err = ts.ownership.MayRun(a.Key, s, time.Now())
	}
	if err != nil {
		return err
	}
	if l.Damage == nil && !l.Exists {
		outdated, err := ts.ownership.ConfirmTip(ctx, a, began)
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
		if err := ts.reminders.some(ctx, a.Key); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ts.reminders.thin(ctx, a.Key, l); err != nil {
		a.DropState()
		return err
	}
	w := l.Tombstone(a.Key, s.Deployment.Generation)
	sent := time.Now()
	if err := ts.commit(a, actor.CommitOf(w)); err != nil {
		a.DropState()
		return err
	}
	ts.table.Keep(a, l.After(&w, residency.NoState), ts.table.Revisions.Next(), sent)
	return nil
}

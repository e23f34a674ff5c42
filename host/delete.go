package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// deleteTurn leaves a tombstone in place of the actor's state. Only the row's
// version matters: a state that cannot be decoded is removed like any other.
func (h *Host) deleteTurn(ctx context.Context, a *activation, c *call, s *served, began time.Time) error {
	c.stats.lane = s.lane
	if s.lane != LaneLocked {
		return h.warmDelete(ctx, a, s, began)
	}
	h.dropAll(a)
	place, err := h.lockedPlace(ctx)
	if err != nil {
		return err
	}
	defer place()
	err = h.inTransaction(ctx, a.key, func(row actor.Row) (*actor.Commit, error) {
		if row.Version == 0 || row.Deleted {
			return nil, actor.ErrActorNotFound
		}
		commit := tombstone(a.key, newLoaded(row), s)
		return &commit, nil
	})
	if version, ok := damagedVersion(err, a.key); ok {
		// The store cannot even hand the row over. Its version fences all the same.
		commit := tombstone(a.key, &loaded{version: version}, s)
		return h.commit(commit, LaneLocked)
	}
	return err
}

// warmDelete deletes under the version, for every lane that takes no lock.
func (h *Host) warmDelete(ctx context.Context, a *activation, s *served, began time.Time) error {
	l, err := h.ensureLoaded(ctx, a, s)
	if err != nil {
		return err
	}
	if l.damage == nil && !l.exists {
		outdated, err := h.confirmTip(ctx, a, began)
		if err != nil {
			return err
		}
		if outdated {
			if l, err = h.ensureLoaded(ctx, a, s); err != nil {
				return err
			}
		}
	}
	if !l.exists { // drained, so it is not nil
		return actor.ErrActorNotFound
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c := tombstone(a.key, l, s)
	sent := time.Now()
	if err := h.commit(c, LaneWarm); err != nil {
		h.dropState(a)
		return err
	}
	h.keep(a, l.after(&c, noState), h.revisions.Next(), sent)
	return nil
}

func tombstone(key actor.Key, l *loaded, s *served) actor.Commit {
	c := newCommit(key, l)
	c.Delete = true
	c.Generation = max(l.generation, s.deployment.Generation)
	c.StateSchema = l.stateSchema
	return c
}

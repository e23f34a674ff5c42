package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/residency"
)

// turns runs the calls of activations, in the lanes that have a mailbox.
type turns struct {
	memory      *callMemory
	table       *table
	store       *storage
	deployments *deployments
	ownership   *ownership
	records     *recordings
	runs        *runs
	reminders   *reminders
	timers      *timers
	locked      *lockedLane
	stateless   *statelessLane
}

// next returns what serves the activation's next turn, as serving does. It
// is for the worker.
func (ts *turns) next(a *activation) (*served, error) {
	changes := ts.deployments.modules.Changes()
	if a.serving != nil && a.checked == changes {
		return a.serving, nil
	}
	s, err := ts.deployments.serving(a.key.App, a.key.Type)
	if s == a.serving {
		a.checked = changes
	}
	return s, err
}

// ensureLoaded returns the activation's tip, reading it if it is cold. A damaged
// one is not kept. The result is nil if the state was dropped since the worker
// took the call: the calls before it go first. actor.ErrNotOwner: this host does not
// hold the actor any more.
func (ts *turns) ensureLoaded(ctx context.Context, a *activation, s *served) (*residency.Row, error) {
	sh := a.shard
	sh.mu.Lock()
	newer := ts.table.catchUp(a)
	tip, dropped := a.Tip, a.member.Dropped() != nil
	a.sticky, a.idleTimeout = s.sticky, s.limits.IdleTimeout
	unfenced := a.unfenced(s)
	sh.mu.Unlock()
	if dropped || tip != nil && !newer && !unfenced {
		return tip, nil //nolint:nilerr // why it was dropped is for the calls that go again
	}
	l, asked, rev := tip, time.Now(), a.rev
	var err error
	if tip == nil {
		// The lock of a turn of another host would hold up the group of the read, with other apps.
		l, err = ts.store.load(ctx, a.key, actor.LoadOptions{BesideLocks: s.lane == LaneLocked})
		rev = ts.table.revisions.Next()
	}
	if err == nil && !ts.ownership.stillHeld(a) {
		a.dropState()
		err = actor.ErrNotOwner
	}
	if err != nil || l.Damage != nil {
		return l, err
	}
	if unfenced {
		if l, asked, err = ts.fence(a, l); err != nil {
			return nil, err
		}
		if !ts.ownership.stillHeld(a) { // it took its time, and another owner may have begun since
			a.dropState()
			return nil, actor.ErrNotOwner
		}
	}
	if l != tip {
		ts.table.keep(a, l, rev, asked)
	}
	if tip == nil && !ts.table.evictToBudget() {
		a.dropState()
		return nil, ts.table.errFull()
	}
	return l, nil
}

// load is ensureLoaded for a turn that may be in a chain. The row of a type placed any is read anew
// for each turn, since no host keeps it; the activation has no batch then.
func (ts *turns) load(ctx context.Context, a *activation, s *served) (*residency.Row, error) {
	if s.lane == LaneLocked {
		a.dropAll()
	}
	l, err := ts.ensureLoaded(ctx, a, s)
	if err == nil && l != nil && s.lane == LaneLocked {
		err = ts.locked.lockedHere(a.key, s)
	}
	return l, err
}

// fence moves the version of an activation's row on from l, so that no commit of an
// earlier owner can land, and returns what l is then, and when that was asked for.
func (ts *turns) fence(a *activation, l *residency.Row) (next *residency.Row, asked time.Time, err error) {
	c := l.Bump(a.key)
	asked = time.Now()
	if err := ts.commit(a, c); err != nil {
		a.dropState()
		if errors.Is(err, actor.ErrAmbiguous) { // of the fence: no turn has begun
			err = fmt.Errorf("%w: fence out earlier owners: %v", actor.ErrUnavailable, err)
		}
		return nil, asked, err
	}
	return l.Bumped(&c.Rows[0]), asked, nil
}

// commit commits for the activation's worker, which waits for it. Errors are as those of
// storage.commit.
func (ts *turns) commit(a *activation, c actor.Commit) error {
	err := ts.store.commit(c, LaneWarm)
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	switch {
	case err == nil:
		ts.ownership.advanced(a)
	case errors.Is(err, actor.ErrAmbiguous):
		a.gaveUp(time.Now())
	}
	return err
}

// checkMemory says why no turn may begin now, nil if one may: what it would add is
// not known before it has run. States that nobody works on leave memory first.
func (ts *turns) checkMemory(app string) error {
	if err := ts.memory.checkOver(app); err != nil {
		return err
	}
	if ts.table.states.over() && !ts.table.evictToBudget() {
		return ts.table.errFull()
	}
	return nil
}

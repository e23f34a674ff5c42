package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
)

// turns runs the calls of activations, in the lanes that have a mailbox.
type turns struct {
	memory      *call.Memory
	table       *activation.Table
	store       *storage.Store
	deployments *serving.Deployments
	ownership   *activation.Ownership
	records     *recordings
	runs        *runs
	reminders   *reminders
	timers      *timers
	locked      *lockedLane
	stateless   *statelessLane
}

// next returns what serves the activation's next turn, as serving does. It
// is for the worker.
func (ts *turns) next(a *activation.Activation) (*serving.Type, error) {
	changes := ts.deployments.Changes()
	if a.Serving != nil && a.Checked == changes {
		return a.Serving, nil
	}
	s, err := ts.deployments.Of(a.Key.App, a.Key.Type)
	if s == a.Serving {
		a.Checked = changes
	}
	return s, err
}

// ensureLoaded returns the activation's tip, reading it if it is cold. A damaged
// one is not kept. The result is nil if the state was dropped since the worker
// took the call: the calls before it go first. actor.ErrNotOwner: this host does not
// hold the actor any more.
func (ts *turns) ensureLoaded(ctx context.Context, a *activation.Activation, s *serving.Type) (*residency.Row, error) {
	sh := a.Shard
	sh.Mu.Lock()
	newer := ts.table.CatchUp(a)
	tip, dropped := a.Tip, a.Member.Dropped() != nil
	a.Sticky, a.IdleTimeout = s.Sticky, s.Limits.IdleTimeout
	unfenced := a.Unfenced(s)
	sh.Mu.Unlock()
	if dropped || tip != nil && !newer && !unfenced {
		return tip, nil //nolint:nilerr // why it was dropped is for the calls that go again
	}
	l, asked, rev := tip, time.Now(), a.Rev
	var err error
	if tip == nil {
		l, err = ts.store.Load(ctx, a.Key, actor.LoadOptions{})
		rev = ts.table.Revisions.Next()
	}
	if err == nil && !ts.ownership.StillHeld(a) {
		a.DropState()
		err = actor.ErrNotOwner
	}
	if err != nil || l.Damage != nil {
		return l, err
	}
	if unfenced {
		if l, asked, err = ts.fence(a, l); err != nil {
			return nil, err
		}
		if !ts.ownership.StillHeld(a) { // it took its time, and another owner may have begun since
			a.DropState()
			return nil, actor.ErrNotOwner
		}
	}
	if l != tip {
		ts.table.Keep(a, l, rev, asked)
	}
	if tip == nil && !ts.table.EvictToBudget() {
		a.DropState()
		return nil, ts.table.ErrFull()
	}
	return l, nil
}

// fence moves the version of an activation's row on from l, so that no commit of an
// earlier owner can land, and returns what l is then, and when that was asked for.
func (ts *turns) fence(a *activation.Activation, l *residency.Row) (next *residency.Row, asked time.Time, err error) {
	c := l.Bump(a.Key)
	asked = time.Now()
	if err := ts.commit(a, c); err != nil {
		a.DropState()
		if errors.Is(err, actor.ErrAmbiguous) { // of the fence: no turn has begun
			err = fmt.Errorf("%w: fence out earlier owners: %v", actor.ErrUnavailable, err)
		}
		return nil, asked, err
	}
	return l.Bumped(&c.Rows[0]), asked, nil
}

// commit commits for the activation's worker, which waits for it. Errors are as those of
// [storage.Store.Commit].
func (ts *turns) commit(a *activation.Activation, c actor.Commit) error {
	err := ts.store.Commit(c, serving.LaneWarm)
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	switch {
	case err == nil:
		ts.ownership.Advanced(a)
	case errors.Is(err, actor.ErrAmbiguous):
		a.GaveUp(time.Now())
	}
	return err
}

// checkMemory says why no turn may begin now, nil if one may: what it would add is
// not known before it has run. States that nobody works on leave memory first.
func (ts *turns) checkMemory(app string) error {
	if err := ts.memory.CheckOver(app); err != nil {
		return err
	}
	if ts.table.Crowded() && !ts.table.EvictToBudget() {
		return ts.table.ErrFull()
	}
	return nil
}

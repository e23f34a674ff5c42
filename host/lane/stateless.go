package lane

import (
	"context"
	"errors"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Stateless runs the turns of types that have no state.
type Stateless struct {
	Store *storage.Store
	Runs  *Runs
}

// Turn runs a method of a type that has no state, and commits what the turn sends, and the step
// of the firing that asks for it: no row is read, and none keeps them from applying.
func (sl *Stateless) Turn(ctx *call.Context, c *call.Call, s *serving.Type, _ *residency.Row) (actor.Reply, error) {
	done, err := sl.run(ctx, c, s)
	if err == nil && !done.Reminders.Empty() {
		err = sl.commit(actor.CommitOf(), &done)
	}
	return done.Reply, err
}

func (sl *Stateless) run(ctx *call.Context, c *call.Call, s *serving.Type) (call.Sealed, error) {
	c.Stats.Lane = serving.LaneStateless
	m, err := c.MethodOf(s)
	if err != nil {
		return call.Sealed{}, err
	}
	return sl.Runs.apart(ctx, c, s, &residency.Row{State: residency.NoState}, m.ReadOnly)
}

// commit commits c with what a turn does to reminders and the messages that it sends.
func (sl *Stateless) commit(c actor.Commit, done *call.Sealed) error {
	c.Reminders = done.Reminders
	err := sl.Store.Commit(c, serving.LaneStateless)
	switch {
	case err == nil:
		sl.Runs.reminders.Committed(&c.Reminders)
	case !errors.Is(err, actor.ErrAmbiguous):
		sl.Runs.reminders.Refused(&c.Reminders)
	}
	return err
}

// keyedTurn runs a call with a key of a type that has no state, and commits its
// record alone: under the version that the row, which the actor may have all the
// same, had before the run, so that a fence of a later attempt keeps it out.
func (sl *Stateless) keyedTurn(ctx *call.Context, c *call.Call, s *serving.Type) (actor.Reply, error) {
	l, err := sl.Store.Load(ctx, c.Inv.Key, actor.LoadOptions{})
	if err != nil {
		return actor.Reply{}, err
	}
	done, err := sl.run(ctx, c, s)
	if err == nil {
		err = c.CheckMark() // of a run when the type was placed otherwise
	}
	switch {
	case err == nil:
		err = sl.commit(l.Record(c.Record(done.Reply, s.Limits.IdempotencyTTL)), &done)
	case call.Unrecorded(err):
		if other := sl.fence(ctx, c); other != nil {
			err = other
		}
	}
	return done.Reply, err
}

// fence fences out earlier attempts of a call that has no state.
func (sl *Stateless) fence(ctx context.Context, c *call.Call) error {
	l, err := sl.Store.Load(ctx, c.Inv.Key, actor.LoadOptions{})
	if err != nil {
		return err
	}
	return sl.Store.Commit(l.Bump(c.Inv.Key), serving.LaneStateless)
}

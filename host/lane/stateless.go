package lane

import (
	"context"

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

// Turn runs a method of a type that has no state.
func (sl *Stateless) Turn(ctx *call.Context, c *call.Call, s *serving.Type, _ *residency.Row) (actor.Reply, error) {
	c.Stats.Lane = serving.LaneStateless
	m, err := c.MethodOf(s)
	if err != nil {
		return actor.Reply{}, err
	}
	return sl.Runs.apart(ctx, c, s, &residency.Row{State: residency.NoState}, m.ReadOnly)
}

// firingTurn runs a turn that a reminder asks for, and commits the step alone: no row is
// read, and none keeps it from applying.
func (sl *Stateless) firingTurn(ctx *call.Context, c *call.Call, s *serving.Type) (actor.Reply, error) {
	reply, err := sl.Turn(ctx, c, s, nil)
	if err != nil {
		return reply, err
	}
	commit := actor.CommitOf()
	commit.Reminders.Steps = []actor.ReminderStep{c.Inv.Firing.Step}
	if err = sl.Store.Commit(commit, serving.LaneStateless); err == nil {
		sl.Runs.reminders.Committed(&commit.Reminders)
	}
	return reply, err
}

// keyedTurn runs a call with a key of a type that has no state, and commits its
// record alone: under the version that the row, which the actor may have all the
// same, had before the run, so that a fence of a later attempt keeps it out.
func (sl *Stateless) keyedTurn(ctx *call.Context, c *call.Call, s *serving.Type) (actor.Reply, error) {
	l, err := sl.Store.Load(ctx, c.Inv.Key, actor.LoadOptions{})
	if err != nil {
		return actor.Reply{}, err
	}
	reply, err := sl.Turn(ctx, c, s, nil)
	switch {
	case err == nil:
		err = sl.Store.Commit(l.Record(c.Record(reply, s.Limits.IdempotencyTTL)), serving.LaneStateless)
	case call.Unrecorded(err):
		if other := sl.fence(ctx, c); other != nil {
			err = other
		}
	}
	return reply, err
}

// fence fences out earlier attempts of a call that has no state.
func (sl *Stateless) fence(ctx context.Context, c *call.Call) error {
	l, err := sl.Store.Load(ctx, c.Inv.Key, actor.LoadOptions{})
	if err != nil {
		return err
	}
	return sl.Store.Commit(l.Bump(c.Inv.Key), serving.LaneStateless)
}

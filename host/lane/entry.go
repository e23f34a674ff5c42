package lane

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/throttle"
)

// RuledBy returns what the rules of a type look at of a call.
func RuledBy(c *call.Call, now time.Time) throttle.Call {
	return throttle.Call{
		Method: c.Inv.Method, ID: c.Inv.Key.ID, Token: c.Inv.Token, Now: now,
		Called: c.Op == call.OpEnlist || c.Inv.Origin != nil, Firing: c.Cause.Fires(),
		List: c.Inv.Method == actor.MethodAll,
	}
}

// Waits reports whether the turn of a call may have to wait in [Entry].
func Waits(c *call.Call, s *serving.Type) bool {
	return (c.Op == call.OpInvoke || c.Op == call.OpAll) && s.Rules.Waits(c.Inv.Method)
}

// Entry has a call wait until the rules of its type let a turn begin, for as long as a turn of the type
// may take. leave is to be called when the turn has ended. may is asked while the call waits, and its
// error ends the wait.
func Entry(c *call.Call, s *serving.Type, may func() error) (leave func(), err error) {
	now := time.Now()
	ctx := c.Begin(now, c.Limit)
	defer ctx.Stop()
	end := c.Enter()
	leave, err = s.Rules.Enter(ctx, RuledBy(c, now), may)
	if cancelled := end(); cancelled != nil {
		if err == nil {
			leave()
		}
		return nil, cancelled
	}
	if err != nil && ctx.Err() != nil && (c.Killed.Load() || c.Ctx.Err() != nil || ctx.OfCaller()) {
		err = c.Overdue(ctx)
	}
	return leave, err
}

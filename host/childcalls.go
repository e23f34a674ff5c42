package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/serving"
)

// errNoChild is the error of what names a volatile child that is gone, or that is not of the family
// of who names it: which of the two is not for strangers to know.
var errNoChild error = &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it is no volatile child that lives, of this actor or of its parent"}

// admitChild is queued for a volatile message to a child. One that shares its parent's mailbox has its turn
// as a call of a turn of the parent.
func (ad *admission) admitChild(c *call.Call, s *serving.Type) call.Result {
	parent, ok := ad.table.Children.Parent(c.Inv.Key, c.Arrived)
	switch {
	case !ok || s.Lane != serving.LaneWarm:
		return call.Result{Err: errNoChild}
	case !c.Inv.Key.SharesMailbox():
		return ad.queued(c, s, false)
	}
	c.Op, c.List = call.OpAll, []actor.Call{{Key: c.Inv.Key, Method: c.Inv.Method, Payload: c.Inv.Payload}}
	c.Inv.Key, c.Inv.Method, c.Inv.Payload = parent, actor.MethodAll, actor.Payload{}
	of, err := ad.deployments.Of(parent.App, parent.Type)
	if err != nil {
		return call.Result{Err: err}
	}
	return ad.queued(c, of, false)
}

// related says why a turn may not call an actor, if one of the two is a volatile child. It waits for the
// commit that makes the child.
func (cs *chains) related(t *lane.Run, c *call.Call) error {
	by, to := t.Of.Inv.Key, c.Inv.Key
	if !by.IsAnonymous() && !to.IsAnonymous() {
		return c.Inv.Key.Validate()
	}
	families := cs.turns.Table.Children
	switch {
	case actor.ValidateName("actor type", to.Type) != nil || t.Of.Op == call.OpAll && t.Of.Inv.Message == nil || !families.Related(by, to):
		if by.IsAnonymous() {
			return refuse(abi.CallInvalid, "a volatile child calls its parent and other children of it; have the parent call others")
		}
		return errNoChild
	case !to.IsAnonymous() || t.Chain == nil || t.Chain.Spawned(to):
		return nil
	}
	if _, lives := families.Parent(to, time.Now()); lives {
		return nil
	}
	var err error
	t.Waiting(func() { err = t.Chain.AwaitSpawn(c.Ctx, to) })
	if _, lives := families.Parent(to, time.Now()); err == nil && !lives {
		return errNoChild
	}
	return err
}

// withParent gives the chain of a call of a child that shares its parent's mailbox the parent, which runs
// nothing else meanwhile.
func (cs *chains) withParent(t *lane.Run, c *call.Call) error {
	parent, ok := cs.turns.Table.Children.Parent(c.Inv.Key, time.Now())
	if !ok {
		return errNoChild
	}
	if t.Chain.Member(parent) != nil {
		return nil
	}
	s, err := cs.admission.deployments.Of(parent.App, parent.Type)
	if err != nil {
		return err
	}
	m, err := cs.enlist(t, newCalled(t, actor.Call{Key: parent, Method: c.Inv.Method}), s)
	if errors.Is(err, actor.ErrNotOwner) { // and its children go with it
		return fmt.Errorf("%w: its parent has moved", errNoChild)
	}
	if err == nil {
		m.Served = s
	}
	return err
}

// ofChild completes a call of a child by a turn that has the child's place in its parent's mailbox.
func ofChild(t *lane.Run, c *call.Call) {
	if t.Of.Op == call.OpAll && c.Inv.Key.IsAnonymous() {
		c.Inv.Message = t.Of.Inv.Message
	}
}

package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/callback"
	"github.com/greenroom-run/greenroom/host/lane"
)

// elsewhere calls an actor that the chain cannot have, for the turn t, and runs the callbacks that come
// meanwhile. The call is a savepoint for them.
func (cs *chains) elsewhere(t *lane.Run, c *call.Call, readOnly bool) (actor.Payload, error) {
	ch, w := t.Chain, cs.admission.waits.Begin(t.Chain)
	before, fuel, below, undone := ch.Savepoint(), ch.Fuel, t.Below(), t.Undone
	t.Undone = before.Undo // so that nothing is pruned that is needed to go back to before
	a, err := cs.forwarding.ask(t, c, readOnly, w, func(back *call.Call) error { return cs.calledBack(t, w, back) })
	t.Undone = undone
	for _, late := range w.End() {
		cs.answer(late, call.Result{Err: callback.ErrOver})
	}
	if err != nil {
		return actor.Payload{}, err
	}
	if back := ch.Fuel - fuel; a.reply.Fuel > back { // the reply's counts the callbacks as well
		ch.Fuel += a.reply.Fuel - back
		t.Called(a.reply.Fuel - (t.Below() - below))
	}
	if a.err != nil && len(ch.Ran) > before.Ran {
		if c.Ctx.Err() != nil || errors.Is(a.err, actor.ErrAmbiguous) {
			return actor.Payload{}, &decidedError{err: &actor.ReasonError{Condition: actor.ErrUnavailable, Reason: fmt.Sprintf(
				"whether the call of %s %s was committed is not known, and it has called back; with an idempotency key, call again", c.Inv.Key.Type, c.Inv.Key.ID)}}
		}
		cs.takeBack(t, before)
	}
	ch.PruneUndo(undone, before.Undo)
	reply, err := cs.forwarding.outcome(t, c, a, readOnly)
	if err == nil && !readOnly && waitsForOuter(t, a.reply.Joined) {
		err = calledBackBefore(ch.CalledBack(call.NewCallback(c, reply)))
	}
	if err == nil && (a.reply.Callbacks || a.err != nil) && !readOnly {
		err = cs.callBackAgain(t, c)
	}
	return reply, err
}

// calledBackBefore is the error of a turn that calls, because of err.
func calledBackBefore(err error) error {
	if err == nil {
		return nil
	}
	return &decidedError{err: err}
}

// takeBack goes back to a savepoint.
func (cs *chains) takeBack(t *lane.Run, to activation.Savepoint) {
	cs.reminders.Unused(t.Of.Inv.Key.App, t.Chain.RollBack(to, cs.turns.Table.Revisions.Next))
}

// answer answers a callback.
func (cs *chains) answer(c *call.Call, r call.Result) {
	r.Stats.Lane = c.Lane
	c.Result = r
	cs.admission.answering.Answer(c)
}

// calledBack runs a callback for the turn t, which waits in w, and answers it. An error ends the chain.
func (cs *chains) calledBack(t *lane.Run, w *callback.Wait, c *call.Call) (ends error) {
	keyed, sum := c.Inv.IdempotencyKey != "", actor.PayloadSum(c.Inv.Payload)
	if o, ok := w.Known(c.KeyedCall()); ok {
		if o.Sum != sum {
			o = callback.Outcome{Err: fmt.Errorf("%w: %s of %s %s", actor.ErrKeyReused, c.Inv.Method, c.Inv.Key.Type, c.Inv.Key.ID)}
		}
		cs.answer(c, call.Result{Reply: o.Reply, Err: o.Err})
		return nil
	}
	ctx, cancel := call.Both(c.Ctx, t.Context())
	in := &call.Call{Request: call.Request{Ctx: ctx, Op: call.OpEnlist, Cause: actor.CauseCall, Arrived: c.Arrived, Inv: c.Inv}}
	in.Stats.Runs = earlierRuns(t)
	place, before, fuel := cs.record(t).Began(&in.Inv, in.Inv.Origin.Depth), t.Chain.Savepoint(), t.Chain.Fuel
	undone := t.Undone
	t.Undone = before.Undo
	reply, err := cs.run(t, in)
	t.Undone = undone
	if !endsChain(err) && t.Context().Err() == nil {
		var unsettled error
		t.Waiting(func() { unsettled = t.Settled(true) })
		if unsettled != nil {
			err = unsettled
		}
	}
	out := call.Result{Stats: in.Stats, Reply: actor.Reply{Payload: reply, Fuel: t.Chain.Fuel - fuel}}
	if err == nil {
		t.Chain.PruneUndo(undone, before.Undo)
	} else {
		cs.takeBack(t, before)
		cs.record(t).Failed(place, "callback")
		out.Reply, out.Err = actor.Reply{}, err
	}
	var decided *decidedError
	switch {
	case err == nil:
	case endsChain(err):
		ends, out.Err = err, callback.ErrOver
	case t.Context().Err() != nil:
		out.Err = callback.ErrOver
	case errors.As(err, &decided):
		out.Err = decided.err
	case errors.Is(err, call.ErrReadOnly):
		out.Err = actor.ErrNotReadOnly
	case call.IsContextError(err) && c.Ctx.Err() != nil:
		out.Err = call.ContextError(c.Ctx)
	case call.IsContextError(err):
		out.Err = actor.ErrDeadline
	}
	if !in.Elsewhere && err == nil {
		out.Reply.Joined = w.Name
	}
	cancel() // before the context is its caller's again
	out.Stats.Runs -= earlierRuns(t)
	if keyed && err == nil {
		t.Chain.Ran = append(t.Chain.Ran, c.KeyedCall())
	}
	if keyed && (err == nil || call.Unrecorded(out.Err)) {
		w.Keep(c.KeyedCall(), callback.Outcome{Sum: sum, Reply: out.Reply, Err: out.Err})
	}
	cs.answer(c, out)
	return ends
}

// recorded is what the caller of c gets, whose reply of an earlier run is known.
func (cs *chains) recorded(t *lane.Run, c *call.Call, reply actor.Payload, err error) (actor.Payload, error) {
	if err == nil {
		err = cs.callBackAgain(t, c)
	}
	return reply, err
}

// callBackAgain runs the callbacks that were recorded with the reply to c, unless this run of the chain
// has run them. What belongs to an outer chain is passed on. An error ends the turn t.
func (cs *chains) callBackAgain(t *lane.Run, c *call.Call) error {
	var list []call.Callback
	var err error
	t.Waiting(func() { list, err = cs.forwarding.recordings.Callbacks(t.Context(), c) })
	if err != nil {
		return &decidedError{err: call.OfTurn(err)}
	}
	for i := range list {
		if slices.Contains(t.Chain.Ran, list[i].Of(c.Inv.Key.App)) {
			continue
		}
		if err := cs.callBack(t, c, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// callBack runs one callback of c again.
func (cs *chains) callBack(t *lane.Run, c *call.Call, cb *call.Callback) error {
	key := cb.Of(c.Inv.Key.App).Actor
	if o := t.Outermost.Of.Inv.Origin; o != nil && len(o.Waits) > 0 && t.Chain.Member(key) == nil {
		return calledBackBefore(t.Chain.CalledBack(*cb))
	}
	in := newCalled(t, actor.Call{Key: key, Method: cb.Method, Payload: actor.Payload{ContentType: cb.ContentType, Data: cb.Data}})
	in.Inv.IdempotencyKey = cb.Key
	in.Inv.Origin = &actor.Origin{From: c.Inv.Key, Chain: t.Chain.Name, Depth: t.Depth + 2, Fuel: t.FuelLeft(), Waits: waitsFor(t)}
	place := cs.record(t).Began(&in.Inv, in.Inv.Origin.Depth)
	reply, err := cs.run(t, in)
	cs.ended(t, in, err)
	var decided *decidedError
	switch {
	case err == nil && actor.PayloadSum(reply) == cb.Reply:
		t.Chain.Ran = append(t.Chain.Ran, in.KeyedCall())
		return nil
	case endsChain(err):
		return err
	case t.Context().Err() != nil:
		return &decidedError{err: call.OfTurn(t.Context().Err())}
	case errors.As(err, &decided):
		err = decided.err
	}
	cs.record(t).Failed(place, "callback")
	if actor.AsCondition(err) != nil {
		return &decidedError{err: err}
	}
	return &decidedError{err: &actor.ReasonError{Condition: actor.ErrLeft, Reason: fmt.Sprintf(
		"%s %s was called in an earlier run, has called back %s.%s of %s, and is committed; this run answers that in another way", c.Inv.Key.Type, c.Inv.Key.ID, cb.Type, cb.Method, cb.ID)}}
}

// heldByOuter reports whether an outer chain of this host has an actor: the call is a callback then. An
// error ends the turn t.
func (cs *chains) heldByOuter(t *lane.Run, c *call.Call) (bool, error) {
	waits := waitsFor(t)
	if len(waits) == 0 {
		return false, nil
	}
	w, err := cs.admission.waits.Find(waits, cs.turns.Table.Find(c.Inv.Key))
	switch {
	case err != nil:
		return false, &decidedError{err: err}
	case w != nil && c.Atomic:
		return false, refuse(abi.CallNotAtomic, "%s %s is in the transaction of a turn that waits for this one, which is committed on its own", c.Inv.Key.Type, c.Inv.Key.ID)
	}
	return w != nil, nil
}

// waitsForOuter reports whether a wait is of a chain that waits for the chain of the turn t.
func waitsForOuter(t *lane.Run, wait string) bool {
	o := t.Outermost.Of.Inv.Origin
	return o != nil && slices.Contains(o.Waits, wait)
}

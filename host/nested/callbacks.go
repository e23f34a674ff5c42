package nested

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/callback"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/turn"
)

// callbacks calls actors of other hosts, for the turns of chains, and runs what comes back to the chains
// meanwhile. Chains run the turns.
type callbacks struct {
	forwarding *forwarding
	waits      *callback.Waits
	answering  *call.Answering
	table      *activation.Table
	reminders  *lane.Reminders
	// run runs a called turn, and ended reports its end.
	run   func(t *lane.Run, c *call.Call) (actor.Payload, error)
	ended func(t *lane.Run, c *call.Call, err error)
}

// elsewhere calls an actor that the chain cannot have, for the turn t, and runs the callbacks that come
// meanwhile. The call is a savepoint for them.
func (cb *callbacks) elsewhere(t *lane.Run, c *call.Call, readOnly bool) (actor.Payload, error) {
	ch, w := t.Chain, cb.waits.Begin(t.Chain)
	defer func() {
		for _, late := range w.End() {
			cb.answer(late, call.Result{Err: callback.ErrOver})
		}
	}()
	before, fuel, below, undone := ch.Savepoint(), ch.Fuel, t.Below(), t.Undone
	t.Undone = before.Undo // so that nothing is pruned that is needed to go back to before
	a, err := cb.forwarding.ask(t, c, readOnly, w, func(back *call.Call) error { return cb.calledBack(t, w, back) })
	if t.Undone = undone; err != nil {
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
		cb.takeBack(t, before)
	}
	ch.PruneUndo(undone, before.Undo)
	reply, err := cb.forwarding.outcome(t, c, a, readOnly)
	if err == nil && !readOnly {
		err = cb.innerCommitted(t, before)
	}
	switch {
	case err != nil || readOnly || a.reply.Joined == "":
	case waitsForOuter(t, a.reply.Joined):
		err = passOn(ch, call.NewCallback(c, reply))
	default:
		ch.Inner = append(ch.Inner, activation.Inner{Call: c.KeyedCall(), Wait: a.reply.Joined})
	}
	if err == nil && (a.reply.Callbacks || a.err != nil) && !readOnly {
		err = cb.callBackAgain(t, c)
	}
	return reply, err
}

// innerCommitted has the chain run again if a callback since a savepoint has called into a chain that was to
// commit the call, and has ended without it. Such a chain has run again, and has got a recorded reply where it
// had waited for the callback. An error ends the turn t.
func (cb *callbacks) innerCommitted(t *lane.Run, since activation.Savepoint) (err error) {
	calls := t.Chain.OverSince(since, waitsFor(t))
	if len(calls) == 0 {
		return nil
	}
	all := false
	t.Waiting(func() { all, err = cb.forwarding.recordings.Committed(t.Context(), calls) })
	switch {
	case err != nil:
		return &decidedError{err: call.OfTurn(err)}
	case !all:
		return fmt.Errorf("%w: a turn that was called back by a callback has run again without that", actor.ErrStale)
	}
	return nil
}

// passOn has the chain record a callback of an outer one. An error ends the turn that calls.
func passOn(ch *activation.Chain, made call.Callback) error {
	if err := ch.CalledBack(made); err != nil {
		return &decidedError{err: err}
	}
	return nil
}

// takeBack goes back to a savepoint.
func (cb *callbacks) takeBack(t *lane.Run, to activation.Savepoint) {
	cb.reminders.Unused(t.Of.Inv.Key.App, t.Chain.RollBack(to, cb.table.Revisions.Next))
}

// answer answers a callback.
func (cb *callbacks) answer(c *call.Call, r call.Result) {
	r.Stats.Lane = c.Lane
	c.Result = r
	cb.answering.Answer(c)
}

// calledBack runs a callback for the turn t, which waits in w, and answers it. An error ends the chain.
func (cb *callbacks) calledBack(t *lane.Run, w *callback.Wait, c *call.Call) (ends error) {
	keyed, sum := c.Inv.IdempotencyKey != "", actor.PayloadSum(c.Inv.Payload)
	if o, ok := w.Known(c.KeyedCall()); ok {
		if o.Sum != sum {
			o = callback.Outcome{Err: fmt.Errorf("%w: %s of %s %s", actor.ErrKeyReused, c.Inv.Method, c.Inv.Key.Type, c.Inv.Key.ID)}
		}
		cb.answer(c, call.Result{Reply: o.Reply, Err: o.Err})
		return nil
	}
	ctx, cancel := call.Both(c.Ctx, t.Context())
	in := &call.Call{Request: call.Request{Ctx: ctx, Op: call.OpEnlist, Cause: actor.CauseCall, Arrived: c.Arrived, Inv: c.Inv}}
	in.Stats.Runs = earlierRuns(t)
	place, before, fuel := recordOf(t).Began(&in.Inv, in.Inv.Origin.Depth), t.Chain.Savepoint(), t.Chain.Fuel
	undone := t.Undone
	t.Undone = before.Undo
	reply, err := cb.run(t, in)
	t.Undone = undone
	if !endsChain(err) && t.Context().Err() == nil {
		var unsettled error
		t.Waiting(func() { unsettled = t.Settled(true) })
		if unsettled != nil {
			err = unsettled
		}
	}
	missing, _ := in.MarksToWrite()
	out := call.Result{Stats: in.Stats, Reply: actor.Reply{Payload: reply, Fuel: t.Chain.Fuel - fuel, Marked: len(missing) == 0}}
	if err == nil {
		t.Chain.PruneUndo(undone, before.Undo)
	} else {
		cb.takeBack(t, before)
		recordOf(t).Failed(place, "callback")
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
		out.Reply.Joined = cb.waits.Outermost(c.Inv.Origin.Waits, w)
	}
	cancel() // before the context is its caller's again
	out.Stats.Runs -= earlierRuns(t)
	if keyed && err == nil {
		t.Chain.Ran = append(t.Chain.Ran, c.KeyedCall())
	}
	if keyed && (err == nil || call.Unrecorded(out.Err)) {
		if full := w.Keep(c.KeyedCall(), callback.Outcome{Sum: sum, Reply: out.Reply, Err: out.Err}); full != nil {
			ends, out.Reply, out.Err = &decidedError{err: full}, actor.Reply{}, callback.ErrOver
		}
	}
	cb.answer(c, out)
	return ends
}

// recorded is what the caller of c gets, whose reply of an earlier run is known.
func (cb *callbacks) recorded(t *lane.Run, c *call.Call, reply actor.Payload, err error) (actor.Payload, error) {
	if err == nil {
		err = cb.callBackAgain(t, c)
	}
	return reply, err
}

// callBackAgain runs the callbacks that were recorded with the reply to c, unless this run of the chain
// has run them. What belongs to an outer chain is passed on. An error ends the turn t.
func (cb *callbacks) callBackAgain(t *lane.Run, c *call.Call) error {
	var list []call.Callback
	var err error
	t.Waiting(func() { list, err = cb.forwarding.recordings.Callbacks(t.Context(), c) })
	if err != nil {
		return &decidedError{err: call.OfTurn(err)}
	}
	for i := range list {
		if slices.Contains(t.Chain.Ran, list[i].Of(c.Inv.Key.App)) {
			continue
		}
		if err := cb.callBack(t, c, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// callBack runs one callback of c again.
func (cb *callbacks) callBack(t *lane.Run, c *call.Call, made *call.Callback) error {
	key := made.Of(c.Inv.Key.App).Actor
	if o := t.Outermost.Of.Inv.Origin; o != nil && len(o.Waits) > 0 && t.Chain.Member(key) == nil {
		return passOn(t.Chain, *made)
	}
	in := newCalled(t, actor.Call{Key: key, Method: made.Method, Payload: actor.Payload{ContentType: made.ContentType, Data: made.Data}})
	in.Inv.IdempotencyKey = made.Key
	in.Inv.Origin = &actor.Origin{From: c.Inv.Key, Chain: t.Chain.Name, Depth: t.Depth + 2, Fuel: t.FuelLeft(), Waits: waitsFor(t)}
	place := recordOf(t).Began(&in.Inv, in.Inv.Origin.Depth)
	reply, err := cb.run(t, in)
	cb.ended(t, in, err)
	var decided *decidedError
	switch {
	case err == nil && actor.PayloadSum(reply) == made.Reply:
		t.Chain.Ran = append(t.Chain.Ran, in.KeyedCall())
		return nil
	case endsChain(err):
		return err
	case t.Context().Err() != nil:
		return &decidedError{err: call.OfTurn(t.Context().Err())}
	case errors.As(err, &decided):
		err = decided.err
	}
	recordOf(t).Failed(place, "callback")
	if actor.AsCondition(err) != nil {
		return &decidedError{err: err}
	}
	return &decidedError{err: &actor.ReasonError{Condition: actor.ErrLeft, Reason: fmt.Sprintf(
		"%s %s was called in an earlier run, has called back %s.%s of %s, and is committed; this run answers that in another way", c.Inv.Key.Type, c.Inv.Key.ID, made.Type, made.Method, made.ID)}}
}

// heldByOuter reports whether an outer chain of this host has an actor: the call is a callback then. An
// error ends the turn t.
func (cb *callbacks) heldByOuter(t *lane.Run, c *call.Call) (bool, error) {
	waits := waitsFor(t)
	if len(waits) == 0 {
		return false, nil
	}
	w, err := cb.waits.Find(waits, cb.table.Find(c.Inv.Key))
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

// newCalled returns the call of an actor that the turn t calls.
func newCalled(t *lane.Run, what actor.Call) *call.Call {
	c := &call.Call{Request: call.Request{
		Ctx: t.Context(), Op: call.OpEnlist, Cause: actor.CauseCall, Arrived: time.Now(),
		Inv: actor.Invocation{ID: t.Of.Inv.ID, Key: what.Key, Method: what.Method, Payload: what.Payload, Trace: t.Of.Inv.Trace.Child()},
	}}
	if t.Of.Op == call.OpAll { // its calls are those of the caller from outside, with that one's token
		c.Inv.Token = t.Of.Inv.Token
	}
	c.Stats.Runs = earlierRuns(t)
	return c
}

// earlierRuns returns how many runs the turn t has had before this one.
func earlierRuns(t *lane.Run) int { return max(0, t.Of.Stats.Runs-1) }

// recordOf returns the record of t's chain.
func recordOf(t *lane.Run) *call.ChainRecord {
	if t.Chain == nil {
		return nil
	}
	return t.Outermost.Of.Stats.Chain
}

// endsChain reports whether an error ends the whole chain: it says nothing of the call that
// met it.
func endsChain(err error) bool {
	for _, is := range []error{call.ErrDropped, call.ErrMoved, call.ErrRecorded, call.ErrChained, actor.ErrStale, actor.ErrDeadlock, actor.ErrStopping, turn.ErrPanicked} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.Is(err, call.ErrHandedOver)
}

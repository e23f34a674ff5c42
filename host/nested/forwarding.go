package nested

import (
	"context"
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

// forwarding calls, for guests, actors that other hosts hold. Such a call commits on its own. It
// takes effect at most once, in all runs of what began the chain: its idempotency key follows
// from that and from its place in the chain (nameCall). An actor may move between two runs, so
// called turns of this host, which are in the chain's commit, are recorded by the same keys.
type forwarding struct {
	peers      Peers // nil: there are none
	recordings *lane.Recordings
	newName    func() string
}

// hereTries is how often an actor that this host seems to hold is tried here, before the call is
// left to who knows when it has moved.
const hereTries = 3

// here reports whether an actor that this host did not hold for the call c is tried here again;
// otherwise another host is called. The error is why neither is done. There are peers.
func (f *forwarding) here(t *lane.Run, c *call.Call, tries int) (bool, error) {
	key, from := &c.Inv.Key, &t.Chain.Members[0].Activation.Key
	var holder, self actor.HostID
	var err error
	t.Waiting(func() { holder, self, err = f.peers.Locate(c.Ctx, *key) })
	switch {
	case err != nil:
		return false, err
	case holder == self && tries < hereTries:
		return true, nil
	case holder == self && c.Atomic:
		return false, fmt.Errorf("%w: %s %s is moving to another host", actor.ErrNoOwner, key.Type, key.ID)
	case c.Atomic && f.elsewhere(t, *from):
		return false, call.ErrHandedOver
	case c.Atomic:
		return false, refuse(abi.CallNotAtomic, "%s %s is held by the host %s, and %s %s by the host %s; see co_locate in docs/calls.md", key.Type, key.ID, holder, from.Type, from.ID, self)
	}
	c.Holder = holder
	return false, nil
}

// elsewhere reports whether another host holds an actor of the chain of the turn t, as far as is known: this one may
// not have noticed yet that its lease was over.
func (f *forwarding) elsewhere(t *lane.Run, key actor.Key) (is bool) {
	t.Waiting(func() {
		holder, self, err := f.peers.Locate(t.Context(), key)
		is = err == nil && holder != self
	})
	return is
}

// moved is the error of a called turn whose actor this host does not hold any more: the chain runs
// again, and calls it elsewhere.
func (f *forwarding) moved(err error) error {
	if f.peers != nil && errors.Is(err, actor.ErrNotOwner) {
		return call.ErrMoved
	}
	return err
}

// ask calls an actor at another host, for the turn t, which waits in w, and has callbacks run by back. An error
// ends the turn.
func (f *forwarding) ask(t *lane.Run, c *call.Call, readOnly bool, w *callback.Wait, back func(*call.Call) error) (a forwardedAnswer, err error) {
	ch, inv := t.Chain, c.Inv
	if inv.ReadOnly = readOnly; readOnly {
		inv.Consistency = actor.ConsistencyStrong
		t.Waiting(func() { err = t.Settled(true) })
	} else {
		t.Waiting(func() { err = t.Leave() })
	}
	if err != nil {
		return a, &decidedError{err: err}
	}
	if ch.Name == "" {
		ch.NameAs(f.newName())
	}
	if !readOnly {
		nameCall(t, c)
		inv.IdempotencyKey = c.Inv.IdempotencyKey
	}
	inv.Token = t.Of.Inv.Token
	inv.Origin = &actor.Origin{From: t.Of.Inv.Key, Chain: ch.Name, Depth: t.Depth + 1, Fuel: t.FuelLeft(), Waits: append(slices.Clip(waitsFor(t)), w.Name)}
	if !readOnly {
		inv.Origin.Marks = marksOf(t, c)
	}
	s := f.send(c.Ctx, inv)
	defer s.end()
	for {
		var answered bool
		t.Waiting(func() { a, answered = s.await(c.Ctx, w) })
		if answered {
			break
		}
		for c := w.Take(); c != nil; c = w.Take() {
			if err := back(c); err != nil {
				return a, err
			}
		}
	}
	if !readOnly && (a.err == nil && a.reply.Joined == "" || c.Ctx.Err() != nil || errors.Is(a.err, actor.ErrAmbiguous)) {
		t.Outermost.Of.Stats.Committed = true
	}
	return a, nil
}

// waitsFor returns the names of the waits for the turn t.
func waitsFor(t *lane.Run) []string {
	for ; t != nil; t = t.Caller {
		if o := t.Of.Inv.Origin; o != nil {
			return o.Waits
		}
	}
	return nil
}

// outcome is what the caller of a forwarded call gets, with the answer a.
func (f *forwarding) outcome(t *lane.Run, c *call.Call, a forwardedAnswer, readOnly bool) (actor.Payload, error) {
	if a.err != nil {
		return f.failed(t, c, a.err, readOnly)
	}
	if !readOnly && !a.reply.Marked && a.reply.Joined == "" { // the reply was recorded before
		if err := f.findMarks(t); err != nil {
			return actor.Payload{}, &decidedError{err: call.OfTurn(err)}
		}
	}
	made(t, c, a.reply.Marked)
	c.Elsewhere = !readOnly && a.reply.Joined == ""
	return a.reply.Payload, nil
}

// findMarks asks the store for the marks of the turns that t is, or is nested in, as far as they are not known.
func (f *forwarding) findMarks(t *lane.Run) (err error) {
	t.Waiting(func() {
		for u := t; u != nil && err == nil; u = u.Caller {
			if u.Of.Inv.IdempotencyKey != "" && u.Of.Mark == nil {
				_, _ = f.recordings.LookUp(t.Context(), u.Of) // what is recorded otherwise, the commit meets
			}
			if u.Of.Inv.Origin != nil {
				err = f.recordings.LookUpMarks(t.Context(), u.Of)
				return
			}
		}
	})
	return err
}

// sentCall is a call that another host has.
type sentCall struct {
	to       forwardedReply
	begun    chan call.Begun
	cancel   context.CancelFunc
	answered bool
}

// send has another host run a call. Its turn may be one of this host by now: then it runs where the call
// is begun, while the caller waits for callbacks.
func (f *forwarding) send(ctx context.Context, inv actor.Invocation) *sentCall {
	ctx, cancel := context.WithCancel(ctx)
	s := &sentCall{to: make(forwardedReply, 1), begun: make(chan call.Begun, 1), cancel: cancel}
	go func() { s.begun <- f.peers.Begin(ctx, inv, s.to) }()
	return s
}

// await waits for the answer, or until w has a callback. If ctx ends first, the outcome is not known.
func (s *sentCall) await(ctx context.Context, w *callback.Wait) (a forwardedAnswer, answered bool) {
	select {
	case a = <-s.to:
		s.answered = true
		return a, true
	case <-ctx.Done():
		return forwardedAnswer{err: actor.ErrAmbiguous}, true
	case <-w.Arrived():
		return a, false
	}
}

// end gives the call up, unless it was answered.
func (s *sentCall) end() {
	s.cancel()
	if begun := <-s.begun; !s.answered {
		begun.GiveUp()
	}
}

// failed is the outcome of a forwarded call that has failed with err. The callee's host answers
// with the failure of a guest after a fence that keeps earlier runs of the call out. Other errors
// do not keep them out.
func (f *forwarding) failed(t *lane.Run, c *call.Call, err error, readOnly bool) (actor.Payload, error) {
	r, record := failedResult(c, err), t.Outermost.Of.Stats.Chain
	switch {
	case errors.Is(err, actor.ErrCanceled) && c.Ctx.Err() == nil: // nothing waits for the chain any more
		return actor.Payload{}, &decidedError{err: err}
	case errors.Is(err, actor.ErrKeyReused):
		return actor.Payload{}, otherPayload(c)
	case errors.Is(err, actor.ErrLeft): // what became of the call is not known
		return actor.Payload{}, &decidedError{err: err}
	case c.Ctx.Err() != nil && readOnly:
		r = failedResult(c, actor.ErrDeadline)
	case c.Ctx.Err() != nil, errors.Is(err, actor.ErrAmbiguous):
		r = perhapsRan(c, err)
		if !readOnly {
			record.Unsettled = append(record.Unsettled, c.KeyedCall())
		}
	case !readOnly && f.records(t) && (actor.AsCondition(err) != nil || record.IsUnsettled(c.KeyedCall())):
		if reply, ok, err := f.knownOfFailed(t, c); ok {
			return reply, err
		}
		fallthrough
	default:
		if !call.Passing(err) {
			made(t, c, false)
		}
	}
	return actor.Payload{}, &decidedError{r, err}
}

// perhapsRan is the result of a call that another host has perhaps committed.
func perhapsRan(c *call.Call, err error) *abi.Result {
	if c.Ctx.Err() != nil {
		where := "another host"
		if c.Holder != "" {
			where = "the host " + string(c.Holder)
		}
		return &abi.Result{Error: abi.Error{Status: abi.StatusDeadlineExceeded, Code: abi.CallTimeout, Message: fmt.Sprintf(
			"the call of %s %s did not end in time at %s, where it perhaps ran or may run yet; %s", c.Inv.Key.Type, c.Inv.Key.ID, where, oneOrder)}}
	}
	return &abi.Result{Error: abi.Error{Status: abi.StatusUnavailable, Code: abi.CallUnavailable, Message: err.Error()}}
}

// otherPayload ends a chain that calls in another way than a run of it has called before.
func otherPayload(c *call.Call) error {
	return &decidedError{err: &actor.ReasonError{Condition: actor.ErrLeft, Reason: fmt.Sprintf(
		"this run calls %s.%s of %s with another payload than an earlier one, which was committed", c.Inv.Key.Type, c.Inv.Method, c.Inv.Key.ID)}}
}

// forwardedReply gets the answer to a forwarded call. Its capacity is 1.
type forwardedReply chan forwardedAnswer

type forwardedAnswer struct {
	reply actor.Reply
	err   error
}

// Answer implements [Receiver].
func (r forwardedReply) Answer(reply actor.Reply, err error) { r <- forwardedAnswer{reply, err} }

// records reports whether the called turns of the chain that t belongs to are recorded: another run
// of it may find their actors at other hosts.
func (f *forwarding) records(t *lane.Run) bool {
	return f.peers != nil && !t.Outermost.ReadOnly && t.Outermost.Of.Cause.Recorded()
}

// known returns the reply that a call got in an earlier run of the chain, when another host held
// the callee's actor; false if there was none. In the first run here the commit finds out, or
// knownOfFailed.
func (f *forwarding) known(t *lane.Run, m *activation.Enlisted, c *call.Call) (reply actor.Payload, ok bool, err error) {
	c.Doubtful = t.Outermost.Of.Doubtful || t.Outermost.Of.Conflicts > 0
	var o call.Outcome
	look := func() { o, ok = f.recordings.Known(c.Ctx, m.Activation, c) }
	if c.Doubtful { // the store is asked
		t.Waiting(look)
	} else {
		look()
	}
	return recordedReply(t, c, o.Result, ok)
}

// knownOfFailed is known for a call that has failed. No commit records a failure, so none finds the
// record of an earlier run. If an earlier run got no answer to the call, the call may still take
// effect.
func (f *forwarding) knownOfFailed(t *lane.Run, c *call.Call) (reply actor.Payload, ok bool, err error) {
	if !c.Doubtful { // otherwise it was looked up before it ran
		var r call.Result
		c.Sum = actor.PayloadSum(c.Inv.Payload)
		t.Waiting(func() { r, ok = f.recordings.LookUp(t.Context(), c) }) // the time of the call may be over
		if reply, ok, err = recordedReply(t, c, r, ok); ok {
			return reply, true, err
		}
	}
	if t.Outermost.Of.Stats.Chain.IsUnsettled(c.KeyedCall()) {
		err := fmt.Errorf("%w: an earlier run of its caller has made the same call and got no answer", actor.ErrAmbiguous)
		return actor.Payload{}, true, &decidedError{perhapsRan(c, err), err}
	}
	return actor.Payload{}, false, nil
}

// recordedReply is what the caller, the turn t, gets of a call with the record r, if ok.
func recordedReply(t *lane.Run, c *call.Call, r call.Result, ok bool) (actor.Payload, bool, error) {
	switch {
	case !ok:
		return actor.Payload{}, false, nil
	case errors.Is(r.Err, actor.ErrKeyReused):
		return actor.Payload{}, true, otherPayload(c)
	case r.Err != nil: // there may be a record
		return actor.Payload{}, true, &decidedError{perhapsRan(c, r.Err), r.Err}
	}
	made(t, c, false)
	c.Elsewhere = true
	return r.Reply.Payload, true, nil
}

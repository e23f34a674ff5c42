package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// forwarding calls, for guests, actors that other hosts hold. Such a call commits on its own. It
// takes effect at most once, in all runs of what began the chain: its idempotency key follows
// from that and from its place in the chain ([calls.key]). An actor may move between two runs, so
// called turns of this host, which are in the chain's commit, are recorded by the same keys.
type forwarding struct {
	peers      Peers // nil: there are none
	recordings *recordings
	newName    func() string
}

// hereTries is how often an actor that this host seems to hold is tried here, before the call is
// left to who knows when it has moved.
const hereTries = 3

// here reports whether an actor that this host did not hold for the call c is tried here again;
// otherwise another host is called. The error is why neither is done.
func (f *forwarding) here(t *run, c *call, tries int) (bool, error) {
	key, from := &c.inv.Key, &t.chain.members[0].a.key
	if f.peers == nil {
		return false, refuse(abi.CallNotAtomic, "%s %s is not held by the host that holds %s %s; see co_locate in docs/calls.md", key.Type, key.ID, from.Type, from.ID)
	}
	var holder, self actor.HostID
	var err error
	t.waiting(func() { holder, self, err = f.peers.Locate(c.ctx, *key) })
	switch {
	case err != nil:
		return false, err
	case holder == self && tries < hereTries:
		return true, nil
	case holder == self && c.atomic:
		return false, fmt.Errorf("%w: %s %s is moving to another host", actor.ErrNoOwner, key.Type, key.ID)
	case c.atomic:
		return false, refuse(abi.CallNotAtomic, "%s %s is held by the host %s, and %s %s by the host %s; see co_locate in docs/calls.md", key.Type, key.ID, holder, from.Type, from.ID, self)
	}
	c.holder = holder
	return false, nil
}

// moved is the error of a called turn whose actor this host does not hold any more: the chain runs
// again, and calls it elsewhere.
func (f *forwarding) moved(err error) error {
	if f.peers != nil && errors.Is(err, actor.ErrNotOwner) {
		return errMoved
	}
	return err
}

// call calls an actor at another host, for the turn t.
func (f *forwarding) call(t *run, c *call, readOnly bool) (actor.Payload, error) {
	ch, inv := t.chain, c.inv
	var err error
	if inv.ReadOnly = readOnly; readOnly {
		inv.Consistency = actor.ConsistencyStrong
		t.waiting(func() { err = t.settled(true) })
	} else {
		t.waiting(func() { err = t.Leave() })
	}
	if err != nil {
		return actor.Payload{}, &decidedError{err: err}
	}
	if ch.name == "" {
		ch.setName(f.newName())
	}
	if !readOnly {
		c.inv.IdempotencyKey = ch.key(t.outermost.call)
		inv.IdempotencyKey = c.inv.IdempotencyKey
	}
	inv.Token = t.call.inv.Token
	inv.Origin = &actor.Origin{From: t.call.inv.Key, Chain: ch.name, Depth: t.depth + 1, Fuel: ch.fuelLeft()}
	var a forwardedAnswer
	t.waiting(func() { a = f.send(c.ctx, inv) })
	ch.fuel += a.reply.Fuel
	if !readOnly && (a.err == nil || c.ctx.Err() != nil || errors.Is(a.err, actor.ErrAmbiguous)) {
		t.outermost.call.stats.committed = true
	}
	if a.err == nil {
		c.elsewhere = !readOnly
		return a.reply.Payload, nil
	}
	return f.failed(t, c, a.err, readOnly)
}

// send has another host run a call, and returns its answer. If ctx ends first, the outcome is
// not known.
func (f *forwarding) send(ctx context.Context, inv actor.Invocation) forwardedAnswer {
	to := make(forwardedReply, 1)
	begun := f.peers.Begin(ctx, inv, to)
	select {
	case a := <-to:
		return a
	case <-ctx.Done():
		begun.GiveUp()
		return forwardedAnswer{err: actor.ErrAmbiguous}
	}
}

// failed is the outcome of a forwarded call that has failed with err. The failure of a guest is behind a
// fence that keeps earlier runs of the call out; other errors say nothing of those.
func (f *forwarding) failed(t *run, c *call, err error, readOnly bool) (actor.Payload, error) {
	r, record := failedResult(c, err), t.outermost.call.stats.chain
	switch {
	case errors.Is(err, actor.ErrKeyReused):
		return actor.Payload{}, otherPayload(c)
	case c.ctx.Err() != nil && readOnly:
		r = failedResult(c, actor.ErrDeadline)
	case c.ctx.Err() != nil, errors.Is(err, actor.ErrAmbiguous):
		r = perhapsRan(c, err)
		if !readOnly {
			record.unsettled = append(record.unsettled, c.inv.IdempotencyKey)
		}
	case !readOnly && f.records(t) && (actor.AsCondition(err) != nil || record.isUnsettled(c.inv.IdempotencyKey)):
		if reply, ok, err := f.knownOfFailed(t, c); ok {
			return reply, err
		}
	}
	return actor.Payload{}, &decidedError{r, err}
}

// perhapsRan is the result of a call that another host has perhaps committed.
func perhapsRan(c *call, err error) *abi.Result {
	if c.ctx.Err() != nil {
		where := "another host"
		if c.holder != "" {
			where = "the host " + string(c.holder)
		}
		return &abi.Result{Error: abi.Error{Status: abi.StatusDeadlineExceeded, Code: abi.CallTimeout, Message: fmt.Sprintf(
			"the call of %s %s did not end in time at %s, where it perhaps ran or may run yet; %s", c.inv.Key.Type, c.inv.Key.ID, where, oneOrder)}}
	}
	return &abi.Result{Error: abi.Error{Status: abi.StatusUnavailable, Code: abi.CallUnavailable, Message: err.Error()}}
}

// otherPayload ends a chain that calls in another way than a run of it has called before.
func otherPayload(c *call) error {
	return &decidedError{err: &actor.ReasonError{Condition: actor.ErrLeft, Reason: fmt.Sprintf(
		"this run calls %s.%s of %s with another payload than an earlier one, which was committed", c.inv.Key.Type, c.inv.Method, c.inv.Key.ID)}}
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
func (f *forwarding) records(t *run) bool {
	return f.peers != nil && !t.outermost.readOnly && t.outermost.call.cause.Recorded()
}

// known returns the reply of a call in an earlier run of the chain, of which the callee's actor was
// at another host; false if there was none. In the first run here the commit finds out, or
// knownOfFailed.
func (f *forwarding) known(t *run, m *enlisted, c *call) (reply actor.Payload, ok bool, err error) {
	c.doubtful = t.outermost.call.doubtful || t.outermost.call.conflicts > 0
	var o outcome
	look := func() { o, ok = f.recordings.known(c.ctx, m.a, c) }
	if c.doubtful { // the store is asked
		t.waiting(look)
	} else {
		look()
	}
	return recordedReply(c, o.result, ok)
}

// knownOfFailed is known for a call that has failed: no commit records it, and so none finds what an
// earlier run has done. If an earlier run does not know what became of the call, it may take effect yet.
func (f *forwarding) knownOfFailed(t *run, c *call) (reply actor.Payload, ok bool, err error) {
	if !c.doubtful { // otherwise it was looked up before it ran
		var r result
		c.sum = actor.PayloadSum(c.inv.Payload)
		t.waiting(func() { r, ok = f.recordings.lookUp(t.Context(), c) }) // the time of the call may be over
		if reply, ok, err = recordedReply(c, r, ok); ok {
			return reply, true, err
		}
	}
	if t.outermost.call.stats.chain.isUnsettled(c.inv.IdempotencyKey) {
		err := fmt.Errorf("%w: an earlier run of its caller has made the same call and got no answer", actor.ErrAmbiguous)
		return actor.Payload{}, true, &decidedError{perhapsRan(c, err), err}
	}
	return actor.Payload{}, false, nil
}

// recordedReply is what the caller gets of a call with the record r, if ok.
func recordedReply(c *call, r result, ok bool) (actor.Payload, bool, error) {
	switch {
	case !ok:
		return actor.Payload{}, false, nil
	case errors.Is(r.err, actor.ErrKeyReused):
		return actor.Payload{}, true, otherPayload(c)
	case r.err != nil: // there may be a record
		return actor.Payload{}, true, &decidedError{perhapsRan(c, r.err), r.err}
	}
	c.elsewhere = true
	return r.reply.Payload, true, nil
}

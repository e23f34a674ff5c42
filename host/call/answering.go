package call

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/serving"
)

// Answering gives callers their answers.
type Answering struct {
	TurnEnd func(TurnEnd) // is called for every call, when it is answered
	Memory  *Memory
	Logger  *slog.Logger
}

// Send answers calls.
func (an *Answering) Send(l *Answers) {
	for c, ok := l.Take(); ok; c, ok = l.Take() {
		an.Answer(c)
	}
}

// Answer gives the call its held answer. It is its caller's from then on.
func (an *Answering) Answer(c *Call) {
	if c.Receiver != nil {
		an.Respond(c, c.Result)
		return
	}
	c.Answered <- struct{}{}
}

// Respond gives the receiver the answer, unless it has one.
func (an *Answering) Respond(c *Call, r Result) {
	if !c.Responded.CompareAndSwap(false, true) {
		return
	}
	if t := c.Grace.Load(); t != nil {
		t.Stop()
	}
	an.Memory.Answered(c)
	c.Receiver.Answer(an.Conclude(c, r))
}

// Conclude makes of a result what the caller gets, and reports it.
func (an *Answering) Conclude(c *Call, r Result) (actor.Reply, error) {
	if r.Err != nil {
		r.Reply = actor.Reply{}
		if (c.Cause.Fires() || c.Cause == actor.CauseNotice) && r.Stats.Runs == 0 && errors.Is(r.Err, actor.ErrDeadline) {
			// Who delivers firings counts what their guests take too long for, and may not
			// count a wait for a place. Notices of watches are delivered again after one.
			r.Err = fmt.Errorf("%w: the turn could not begin before its time was up", actor.ErrOverloaded)
		}
		// A call of an actor of another host has a key, but what began its chain may have none.
		if r.Stats.Committed && (r.Stats.Sent || c.Inv.Origin != nil) {
			r.Err = afterCommit(r.Err)
		}
		if r.Stats.Sent {
			r.Err = finalError(r.Err)
		}
		r.Err = &actor.TurnError{Key: c.Inv.Key, Method: c.Inv.Method, Err: r.Err}
	}
	if c.Op == OpTimer || c.Op == OpLeave && r.Err == nil && r.Stats.Runs == 0 { // no turn
		return r.Reply, r.Err
	}
	end := TurnEnd{
		Key: c.Inv.Key, Method: c.Inv.Method, InvocationID: c.Inv.ID, Trace: c.Inv.Trace,
		Lane: r.Stats.Lane, Runs: r.Stats.Runs, Fuel: r.Stats.Fuel, Phases: r.Stats.Phases, Err: r.Err,
	}
	now := r.Stats.Ended
	if now.IsZero() {
		now = time.Now()
	}
	end.Duration, end.QueueWait = now.Sub(c.Arrived), now.Sub(c.Arrived)
	if !r.Stats.Began.IsZero() {
		end.QueueWait = r.Stats.Began.Sub(c.Arrived)
	}
	if chain := r.Stats.Chain; chain != nil {
		end.Chain = &chain.ChainStats
		if r.Err != nil {
			chain.log(an.Logger, &c.Inv, r.Err)
		}
	}
	an.TurnEnd(end)
	return r.Reply, r.Err
}

// TurnEnd is one finished invocation.
type TurnEnd struct {
	Key    actor.Key
	Method string // empty for Delete
	// InvocationID is that of the invocation, which the lines of its guest's log
	// have as well; empty for Delete.
	InvocationID string
	Trace        *actor.Trace // that of the invocation; nil: none
	Lane         serving.Lane
	// Caller is the actor whose turn has called this one, and Depth in how many turns it is nested;
	// zero for an invocation. A call of [actor.MethodAll] has no Caller.
	Caller actor.Key
	Depth  int
	// Chain is what the turn and those that it has called were together; nil: it has called none, or
	// was called itself. It does not change.
	Chain *ChainStats
	// Duration is from the invocation's arrival to its answer; QueueWait is the
	// part of it before the turn began.
	Duration  time.Duration
	QueueWait time.Duration
	// Runs counts how often the guest ran: 0 for a turn that never began, more
	// than 1 after conflicts.
	Runs int
	// Fuel is what all runs used together, without the turns that they have called.
	Fuel uint64
	// Phases are the parts of the turn in their order; nil if its trace is not sampled.
	Phases []Phase
	// Err is what Invoke returns.
	Err error
}

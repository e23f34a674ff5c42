package host

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// answering gives callers their answers.
type answering struct {
	events *Events
	memory *callMemory
	logger *slog.Logger
}

// send answers calls.
func (an *answering) send(l *answers) {
	for c, ok := l.Take(); ok; c, ok = l.Take() {
		an.answer(c)
	}
}

// answer gives the call its held answer. It is its caller's from then on.
func (an *answering) answer(c *call) {
	if c.receiver != nil {
		an.respond(c, c.result)
		return
	}
	c.answered <- struct{}{}
}

// respond gives the receiver the answer, unless it has one.
func (an *answering) respond(c *call, r result) {
	if !c.responded.CompareAndSwap(false, true) {
		return
	}
	if t := c.grace.Load(); t != nil {
		t.Stop()
	}
	an.memory.answered(c)
	c.receiver.Answer(an.conclude(c, r))
}

// conclude makes of a result what the caller gets, and reports it to the observers.
func (an *answering) conclude(c *call, r result) (actor.Reply, error) {
	if r.err != nil {
		r.reply = actor.Reply{}
		if c.cause == actor.CauseFiring && r.stats.runs == 0 && errors.Is(r.err, actor.ErrDeadline) {
			// Who delivers firings counts what their guests take too long for, and may not
			// count a wait for a place.
			r.err = fmt.Errorf("%w: the turn of the firing could not begin before its time was up", actor.ErrOverloaded)
		}
		// A call of an actor of another host has a key, but what began its chain may have none.
		if r.stats.committed && (r.stats.sent || c.inv.Origin != nil) {
			r.err = afterCommit(r.err)
		}
		if r.stats.sent {
			r.err = finalError(r.err)
		}
		r.err = &actor.TurnError{Key: c.inv.Key, Method: c.inv.Method, Err: r.err}
	}
	if c.op == opTimer {
		return r.reply, r.err
	}
	end := TurnEnd{
		Key: c.inv.Key, Method: c.inv.Method, InvocationID: c.inv.ID, Trace: c.inv.Trace,
		Lane: r.stats.lane, Runs: r.stats.runs, Fuel: r.stats.fuel, Err: r.err,
	}
	now := r.stats.ended
	if now.IsZero() {
		now = time.Now()
	}
	end.Duration, end.QueueWait = now.Sub(c.arrived), now.Sub(c.arrived)
	if !r.stats.began.IsZero() {
		end.QueueWait = r.stats.began.Sub(c.arrived)
	}
	if chain := r.stats.chain; chain != nil {
		end.Chain = &chain.ChainStats
		if r.err != nil {
			chain.log(an.logger, &c.inv, r.err)
		}
	}
	an.events.TurnEnd(end)
	return r.reply, r.err
}

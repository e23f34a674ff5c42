package nested

import (
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/lane"
)

// nameCall gives a call that the turn t makes its idempotency key, unless it has one: that of the innermost turn
// with a key that t is, or is nested in, and otherwise of the chain. So a called turn's own calls have the same
// keys when another run finds its actor at another host.
func nameCall(t *lane.Run, c *call.Call) {
	u := t
	for u != u.Outermost && u.Of.Inv.IdempotencyKey == "" {
		u = u.Caller
	}
	call.Name(c, u.Of, t.Chain.Name)
}

// marksOf returns what the commit of a call that the turn t makes of an actor of another host is to record, for
// each turn with a key that t is, or is nested in.
func marksOf(t *lane.Run, c *call.Call) (marks []actor.IdempotencyRecord) {
	makes := c.KeyedCall()
	for u := t; u != nil; u = u.Caller {
		of := u.Of
		if of.Inv.IdempotencyKey != "" {
			if of.Mark == nil {
				marks = append(marks, call.NewMark(of, makes, u.Served.Limits.IdempotencyTTL))
			}
			makes = of.KeyedCall()
		}
		if of.Inv.Origin != nil { // which has those of its callers
			outer, _ := of.MarksToWrite()
			return append(marks, outer...)
		}
	}
	return marks
}

// made notes that the turn t has made a call, and has its outcome. marked means that the store has the marks of
// the call.
func made(t *lane.Run, c *call.Call, marked bool) {
	makes := c.KeyedCall()
	for u := t; u != nil && makes.Key != ""; u = u.Caller {
		of := u.Of
		if of.Inv.IdempotencyKey != "" {
			if marked && of.Mark == nil {
				of.Mark = &actor.KeyedCall{Actor: makes.Actor, Method: makes.Method, Key: makes.Key}
			}
			call.NoteMade(of, makes)
			makes = of.KeyedCall()
		}
		if of.Inv.Origin != nil {
			if marked {
				of.MarksMissing(nil)
			}
			return
		}
	}
}

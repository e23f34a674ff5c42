package call

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// BeginRun forgets what an earlier run of the turn has called.
func (c *Call) BeginRun() { c.made, c.named = nil, nil }

// maxMade bounds what a turn that calls without end has the host keep. Of a run that makes more calls before its
// mark is known, the others count as not made.
const maxMade = 4096

// NoteMade notes that this run of c has made a call, and has its outcome.
func NoteMade(c *Call, a actor.KeyedCall) {
	if c.Mark != nil && *c.Mark != a || c.Mark == nil && len(c.made) == maxMade {
		return
	}
	if c.made == nil {
		c.made = make(map[actor.KeyedCall]struct{})
	}
	c.made[a] = struct{}{}
}

// markMargin is how much longer than twice the time of a reply a mark is kept. A mark must last as long as the
// reply beside it, which a later attempt may commit at any time within the mark's first half.
const markMargin = 15 * time.Minute

// NewMark returns the mark of c, whose turn makes a call.
func NewMark(c *Call, makes actor.KeyedCall, ttl time.Duration) actor.IdempotencyRecord {
	return actor.IdempotencyRecord{
		Actor: c.Inv.Key, Method: c.Inv.Method, Key: c.Inv.IdempotencyKey, Payload: actor.PayloadSum(c.Inv.Payload), TTL: 2*ttl + markMargin, Mark: &makes,
	}
}

// MarksToWrite returns the marks of the call's origin that its commit writes, and whether these are all.
func (c *Call) MarksToWrite() (marks []actor.IdempotencyRecord, all bool) {
	switch {
	case c.Inv.Origin == nil:
		return nil, true
	case c.missing != nil:
		return *c.missing, false
	}
	return c.Inv.Origin.Marks, true
}

// MarksMissing says which marks of the call's origin the store lacks.
func (c *Call) MarksMissing(these []actor.IdempotencyRecord) { c.missing = &these }

// CheckMark fails if the store has a mark of c, and this run has not made the call that the mark names: the run's
// reply or failure would then contradict what another host has committed.
func (c *Call) CheckMark() error {
	if c.Mark == nil {
		return nil
	}
	if _, made := c.made[*c.Mark]; made {
		return nil
	}
	c.Stats.Committed = true
	return &actor.ReasonError{Condition: actor.ErrLeft, Reason: fmt.Sprintf(
		"an earlier run of %s of %s %s has called %s of %s %s at another host, where that is committed, and this run has not; call again with the same idempotency key, once it can do what it did then",
		c.Inv.Method, c.Inv.Key.Type, c.Inv.Key.ID, c.Mark.Method, c.Mark.Actor.Type, c.Mark.Actor.ID)}
}

// CheckFailure is [Call.CheckMark] of c for a run that failed with err. A failure that says that the run could not find out, or
// could not do, what it wanted to is the answer still: with the same key it goes again.
func CheckFailure(c *Call, err error) error {
	if Passing(err) {
		return nil
	}
	return c.CheckMark()
}

// Passing reports whether an error says that what the turn met may pass, or by a guest's status seems to.
func Passing(err error) bool {
	var guest *actor.GuestError
	if !errors.As(err, &guest) {
		why := actor.AsCondition(err)
		return why != nil && why.Retryable()
	}
	switch uint16(guest.Status) {
	case abi.StatusUnavailable, abi.StatusDeadlineExceeded, abi.StatusAborted, abi.StatusResourceExhausted:
		return true
	}
	return false
}

// Name gives made, a call that the turn of c makes, by itself or by turns without a key that it calls, its idempotency
// key, unless it has one: what began the turn, and how many calls of the same method of the same actor had a key
// before it. Calls of others do not count: a run that makes fewer of them finds this one again. unnamed is for a
// turn that no key and no firing began.
func Name(made, c *Call, unnamed string) {
	if made.Inv.IdempotencyKey != "" {
		return
	}
	if c.named == nil {
		c.named = make(map[actor.KeyedCall]int)
	}
	of := actor.KeyedCall{Actor: made.Inv.Key, Method: made.Inv.Method}
	c.named[of]++
	sum := sha256.Sum256([]byte(c.Began(unnamed)))
	made.Inv.IdempotencyKey = fmt.Sprintf("chain:%x:", sum[:16]) + strconv.Itoa(c.named[of])
}

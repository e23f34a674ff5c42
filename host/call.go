package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/timer"
)

// operation is what a call asks of an actor.
type operation uint8

const (
	opInvoke operation = iota
	opDelete
	opTimer   // set a timer, or cancel one
	opFence   // see to it that no commit of an earlier owner can land; nothing else
	opMigrate // migrate a state of an older schema; nothing else
)

// call is one admitted request, from its arrival to its answer.
type call struct {
	ctx context.Context // the caller's
	op  operation
	inv actor.Invocation
	// found is the method of the invocation in what serves its type, by.
	found method
	by    *served
	// fired is the reminder whose firing asks for the call, as it was when the run
	// began; nil if it was not looked up.
	fired *actor.Reminder
	// timer is the one whose firing asks for the call, nil for none. timers is what the
	// call does to its actor's, nil for nothing.
	timer  *timer.Timer
	timers *timer.Changes
	// request is what a call asks for that sets or cancels a timer.
	request *timerRequest

	// prev, next and home are guarded by the shard's lock: the list that the
	// call is in: a mailbox, the shard's running calls, the calls of a batch.
	prev, next *call
	home       *callList

	// killed and turn are how a forced Stop reaches a running call: whoever comes
	// second of begin's store and kill's load finds the other's. first is the
	// context of the first run, made with the call.
	killed atomic.Bool
	turn   atomic.Pointer[turnContext]
	first  turnContext

	// The rest belongs to the goroutine that runs the call, and to the lock of
	// the shard while the call is in a list.
	arrived time.Time
	// charged is what the call counts for in Config.CallMemory, from its admission to
	// its answer.
	charged int64
	// loaded is what the states that it loaded for itself alone count for in
	// Config.CallMemory.
	loaded int64
	// limit is how long its turn may take, and limitSetting what sets that, for people.
	limit        time.Duration
	limitSetting string
	// started is when the time of the turn began; zero for one that is to begin
	// anew. conflicts counts the commits of it that were refused.
	started   time.Time
	conflicts int
	// logged is true if a run of the turn logged something.
	logged bool
	// result is the answer that waits for the commit it rests on.
	result result
	// sum is that of the payload, of a call with an idempotency key. doubtful means
	// that the same call may have been committed before: it is looked up
	// before it runs. Others find out when they commit, which is cheaper.
	sum      [sha256.Size]byte
	doubtful bool
	// looked is what the store said of a doubtful call before its run: of one run,
	// nil if the store was not asked. looking means that the call is looked up before
	// it is admitted; the shard's lock guards it.
	looked  *actor.Recorded
	looking bool
	// copied means that the call is answered from a copy of its actor's state, which
	// another host holds.
	copied bool
	// migrated means that the state was migrated for the call, or a migration was tried.
	migrated bool
	// losses is what the shard counted when the call entered, of a call without a mailbox.
	// left, if not nil, is closed when it has left; the shard's lock guards it.
	losses uint64
	left   chan struct{}
	// answered gets one value when result is the call's answer; its capacity is 1,
	// so that a worker never waits for a caller. A call that runs alone has none,
	// nor has one with a receiver.
	answered chan struct{}
	stats    turnStats

	begun
}

// result is the answer to a call.
type result struct {
	reply actor.Reply
	err   error
	stats turnStats
	// later means that the call's receiver gets the answer, and this result is no answer.
	later bool
}

// turnStats is what TurnEnd tells beside the outcome.
type turnStats struct {
	lane  Lane
	began time.Time // zero: never started
	ended time.Time // when its answer was there; zero: not known
	runs  int
	sent  bool // something was sent to the outside that may not be sent again: ErrLeft
	fuel  uint64
}

// begin returns the context of a run of the call, which is to be stopped after
// it: it ends with the caller's, at limit after now, which is real time, or when
// the call is killed.
func (c *call) begin(now time.Time, limit time.Duration) *turnContext {
	deadline := now.Add(limit)
	ctx := &c.first
	if c.turn.Load() != nil { // something may hold on to the last one
		ctx = new(turnContext)
	}
	ctx.caller, ctx.deadline = c.ctx, deadline
	if theirs, ok := c.ctx.Deadline(); ok && theirs.Before(deadline) {
		ctx.deadline = theirs
	}
	c.turn.Store(ctx)
	if c.killed.Load() {
		ctx.stop()
	}
	return ctx
}

// kill stops the call wherever it is.
func (c *call) kill() {
	c.killed.Store(true)
	if ctx := c.turn.Load(); ctx != nil {
		ctx.stop()
	}
}

// overdue returns the error of a turn whose context has ended, nil as long as
// it has not.
func (c *call) overdue(ctx *turnContext) error {
	err := ctx.Err()
	switch {
	case c.killed.Load():
		return actor.ErrStopping
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		return contextError(c.ctx)
	case errors.Is(err, context.DeadlineExceeded) && ctx.ofCaller():
		return actor.CallersDeadline(c.ctx)
	default:
		return &actor.ReasonError{Condition: actor.ErrDeadline, Reason: fmt.Sprintf("turns of this type may take %s, by %s", c.limit, c.limitSetting)}
	}
}

// contextError translates the end of a caller's context.
func contextError(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return actor.CallersDeadline(ctx)
	}
	return actor.ErrCanceled
}

// callList is a doubly linked list of calls: a caller that gives up leaves the
// middle of a mailbox at no cost. The shard's lock guards it.
type callList struct {
	head, tail *call
	len        int
}

func (l *callList) push(c *call) {
	c.home, c.prev, c.next = l, l.tail, nil
	if l.tail != nil {
		l.tail.next = c
	} else {
		l.head = c
	}
	l.tail = c
	l.len++
}

func (l *callList) remove(c *call) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.head = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.tail = c.prev
	}
	c.home, c.prev, c.next = nil, nil, nil
	l.len--
}

// pushFront puts c before all others.
func (l *callList) pushFront(c *call) {
	c.home, c.prev, c.next = l, nil, l.head
	if l.head != nil {
		l.head.prev = c
	} else {
		l.tail = c
	}
	l.head = c
	l.len++
}

// pop takes the first call, nil if there is none.
func (l *callList) pop() *call {
	c := l.head
	if c != nil {
		l.remove(c)
	}
	return c
}

// prepend moves the calls of front before those of l, in their order.
func (l *callList) prepend(front *callList) {
	for c := front.tail; c != nil; c = front.tail {
		front.remove(c)
		l.pushFront(c)
	}
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, actor.ErrDeadline) || errors.Is(err, actor.ErrCanceled)
}

// answers are calls whose held results are to be sent. They are in no list any
// more, and nobody else has them but their callers, who wait.
type answers struct {
	first, last *call
	len         int
	bytes       int64 // their cost
}

// add takes a call that is in no list. The caller has the shard's lock.
func (l *answers) add(c *call) {
	if c.timers != nil {
		c.at.shard.timers.Settle(c.inv.Key, c.timers, c.result.err == nil, time.Now())
	}
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
	l.len++
	l.bytes += c.cost()
}

func (l *answers) send() {
	for c := l.first; c != nil; {
		next := c.next // the call is its caller's from the next line on
		c.answer()
		c = next
	}
}

// answer gives the call its held answer.
func (c *call) answer() {
	if c.receiver != nil {
		c.respond(c.result)
		return
	}
	c.answered <- struct{}{}
}

// goAgain readies a call whose run was for nothing, because of err, for the next. The
// caller has the shard's lock.
func (c *call) goAgain(err error) {
	if c.timers != nil {
		c.at.shard.timers.Settle(c.inv.Key, c.timers, false, time.Now())
		c.timers = nil
	}
	c.doubtful, c.looked = c.keyed(), nil
	if refusal(err) {
		c.conflicts++
		return
	}
	c.started = time.Time{} // its time was not lost by its own doing
}

// notTimed drops what a run did to timers that err has ended: the call may have the answer
// of an earlier one all the same.
func (c *call) notTimed(err error) {
	if err != nil && c.op == opInvoke {
		c.timers = nil
	}
}

// keyed reports whether the call's outcome is to be recorded.
func (c *call) keyed() bool { return c.inv.IdempotencyKey != "" }

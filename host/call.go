package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/mailbox"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
)

// call is one admitted request, from its arrival to its answer.
type call struct {
	request
	position
	stopping
	progress
	charges
	delivery
}

// request is what a call asks for. It does not change once the call has its place.
type request struct {
	ctx     context.Context // the caller's
	op      operation
	inv     actor.Invocation
	cause   actor.Cause
	arrived time.Time
	sum     [sha256.Size]byte // of the payload, of a call with an idempotency key
	timer   *timer.Timer      // whose firing asks for the call; nil: none
	list    []actor.Call      // of opAll
	atomic  bool              // of opEnlist: the call is in the chain's commit, or fails
	set     *timerRequest     // of opTimer
}

// operation is what a call asks of an actor.
type operation uint8

const (
	opInvoke operation = iota
	opDelete
	opTimer   // set a timer, or cancel one
	opFence   // see to it that no commit of an earlier owner can land; nothing else
	opMigrate // migrate a state of an older schema; nothing else
	opEnlist  // give the actor to a chain, which runs the turn itself
	opAll     // a turn that calls what actor.MethodAll asks for
)

// timerRequest sets a timer, or cancels one.
type timerRequest struct {
	name    string
	set     *actor.TimerSpec // nil: it is cancelled
	existed bool             // the answer
}

// position is where a call is. The lock of the actor's shard guards it.
type position struct {
	// place is in a mailbox, in the shard's running calls, or in calls that are to run
	// again or to be answered.
	place list.Place[*call]
	home  *home // the mailbox that the call was put into, and what belongs to it; nil: none
	// left, if not nil, is closed when the call has left, if it has no mailbox.
	left chan struct{}
}

// home is where an actor's calls are, and what they leave behind when they are answered.
type home struct {
	calls  mailbox.Mailbox[*call]
	timers *timer.Schedule // of the actor's shard
	work   *sync.WaitGroup // of the actor's shard
}

// answers are calls whose held results are to be sent.
type answers = mailbox.Answers[*call]

// answer adds a call of a mailbox that is in no list to those that are to be answered. The
// caller has the lock of its actor's shard.
func (c *call) answer(to *answers) {
	c.settleTimers(c.home.timers, c.result.err == nil)
	c.home.calls.Answered(c.cost())
	to.Add(&c.place, c)
}

// runAgain puts a call that was run for nothing before all others that wait at its actor,
// or answers it if something left the host with it. The caller has the shard's lock.
func (c *call) runAgain(err error, answered *answers) {
	if c.stats.sent {
		c.result = result{err: cutShort(err), stats: c.stats}
		c.answer(answered)
		return
	}
	c.goAgain(c.home.timers, err)
	c.home.calls.Again(&c.place, c)
}

// stopping is how a forced Stop reaches a running call: whoever comes
// second of begin's store and kill's load finds the other's. first is the
// context of the first run, made with the call.
type stopping struct {
	killed atomic.Bool
	turn   atomic.Pointer[turnContext]
	first  turnContext
}

// progress is what is known of a call. It belongs to the goroutine that runs the call, and
// to the lock of the shard while the call is in a list.
type progress struct {
	// found is the method of the invocation in what serves its type, by.
	found serving.Method
	by    *serving.Type
	// fired is the reminder whose firing asks for the call, as it was when the run
	// began; nil if it was not looked up.
	fired *actor.Reminder
	// timers is what the call does to its actor's timers.
	timers *timer.Changes
	// limit is how long its turn may take, and limitSetting what sets that, for people.
	limit        time.Duration
	limitSetting string
	// started is when the time of the turn began; zero for one that is to begin
	// anew. conflicts counts the commits of it that were refused.
	started   time.Time
	conflicts int
	// logged is true if a run of the turn logged something.
	logged bool
	// doubtful means that the same call may have been committed before: it is looked up
	// before it runs. Others find out when they commit, which is cheaper.
	doubtful bool
	// copied means that the call is answered from a copy of its actor's state, which
	// another host holds.
	copied bool
	// migrated means that the state was migrated for the call, or a migration was tried.
	migrated bool
	// elsewhere means that another host committed what a turn called.
	elsewhere bool
	// chained means that the read-only method calls other actors, and needs a turn for that.
	chained bool
	// looking means that the call is looked up before it is admitted. The lock of the actor's
	// shard guards it.
	looking bool
	// common means that the call is charged to the common part of Config.CallMemory.
	common bool
	// looked is what the store said of a doubtful call before its run: of one run,
	// nil if the store was not asked.
	looked *actor.Recorded
	// losses is what the shard counted when the call entered, of a call without a mailbox.
	losses uint64
	stats  turnStats
}

// delivery is how the caller gets the answer.
type delivery struct {
	lane serving.Lane // set before the call is in a mailbox
	// result is the answer that waits for the commit it rests on.
	result result
	// answered gets one value when result is the call's answer; its capacity is 1,
	// so that a worker never waits for a caller. A call that runs alone has none,
	// nor has one with a receiver.
	answered  chan struct{}
	receiver  Receiver // nil: the caller waits
	responded atomic.Bool
	grace     atomic.Pointer[time.Timer] // set when the call runs on after GiveUp
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
	lane  serving.Lane
	sent  bool      // something was sent to the outside that may not be sent again: ErrLeft
	began time.Time // zero: never started
	ended time.Time // when its answer was there; zero: not known
	runs  int
	fuel  uint64
	chain *chainRecord // of all runs; nil: it has called nothing
}

// keyedCall names c for the store.
func (c *call) keyedCall() actor.KeyedCall {
	return actor.KeyedCall{Actor: c.inv.Key, Method: c.inv.Method, Key: c.inv.IdempotencyKey}
}

// record returns what is recorded of a call that was answered with a reply.
func (c *call) record(reply actor.Reply, ttl time.Duration) actor.IdempotencyRecord {
	return actor.IdempotencyRecord{
		Actor: c.inv.Key, Method: c.inv.Method, Key: c.inv.IdempotencyKey, Payload: c.sum,
		Reply: reply.Payload, Version: reply.Version, TTL: ttl,
	}
}

// recorded answers a call from the record of an earlier one with the same key.
func (c *call) recorded(r *actor.IdempotencyRecord) result {
	if r.Payload != c.sum {
		what := "call " + c.inv.Method
		if c.inv.Method == actor.MethodAll {
			what = "make the calls together"
		}
		return result{err: fmt.Errorf("%w: %s with a new key", actor.ErrKeyReused, what)}
	}
	return result{reply: actor.Reply{Payload: r.Reply, Version: r.Version}}
}

// cost is what the call counts for in Config.CallMemory and in its actor's share.
func (c *call) cost() int64 { return callCost + int64(len(c.inv.Payload.Data)) }

// methodOf returns the method of a call of the type that s serves.
func (c *call) methodOf(s *serving.Type) (serving.Method, error) {
	if c.by == s {
		return c.found, nil
	}
	m, err := s.Method(&c.inv)
	if err == nil {
		c.found, c.by = m, s
	}
	return m, err
}

// fromOutside reports whether no actor of the app asks for the turn.
func (c *call) fromOutside() bool {
	return c.op == opInvoke && c.inv.Origin == nil && (c.cause == actor.CauseCall || c.cause == actor.CauseKeyedCall)
}

// placed tells the receiver that the call has its place.
func (c *call) placed() {
	if p, ok := c.receiver.(PlacedReceiver); ok {
		p.Placed()
	}
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

// settleTimers lets what the call did to timers take effect, or drops it. The caller has the
// lock of the actor's shard, which has the timers.
func (c *call) settleTimers(of *timer.Schedule, apply bool) {
	if c.timers != nil {
		of.Settle(c.inv.Key, c.timers, apply, time.Now())
	}
}

// goAgain readies a call whose run was for nothing, because of err, for the next. The
// caller has the lock of the actor's shard, which has its timers.
func (c *call) goAgain(of *timer.Schedule, err error) {
	c.settleTimers(of, false)
	c.timers = nil
	c.doubtful, c.looked = c.cause == actor.CauseKeyedCall, nil
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

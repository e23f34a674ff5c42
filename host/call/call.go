// Package call represents the requests to a host: each call from its arrival to its answer, its
// progress, its share of the memory for calls, and the delivery of the answer. It knows neither
// activations nor lanes. Whoever runs a call changes it, under the rules that the fields state.
//
//	Call         a request, where it is, what is known of it, and its answer
//	Context      the context of one run: ends with the caller's, at a deadline, or when stopped
//	ChainRecord  describes the chain of a call, over all its runs
//	Memory       the account of all calls
//	Answering    gives callers their answers
//	errors       end a run; functions that translate them for callers
package call

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/mailbox"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
)

// Call is one admitted request, from its arrival to its answer.
type Call struct {
	Request
	position
	stopping
	progress
	charges
	delivery
}

// Request is what a call asks for. It does not change once the call has its place.
type Request struct {
	Ctx     context.Context // the caller's
	Op      Operation
	Inv     actor.Invocation
	Cause   actor.Cause
	Arrived time.Time
	Sum     [sha256.Size]byte // of the payload, of a call with an idempotency key
	Timer   *timer.Timer      // whose firing asks for the call; nil: none
	List    []actor.Call      // of OpAll
	Atomic  bool              // of OpEnlist: the call is in the chain's commit, or fails
	Set     *TimerRequest     // of OpTimer
}

// Operation is what a call asks of an actor.
type Operation uint8

// The operations. OpInvoke runs a method, and OpDelete deletes the actor.
const (
	OpInvoke Operation = iota
	OpDelete
	OpTimer   // set a timer, or cancel one
	OpFence   // see to it that no commit of an earlier owner can land; nothing else
	OpMigrate // migrate a state of an older schema; nothing else
	OpEnlist  // give the actor to a chain, which runs the turn itself
	OpAll     // a turn that calls what actor.MethodAll asks for
	OpLeave   // run the hook leaving of an actor that is let go
)

// TimerRequest sets a timer, or cancels one.
type TimerRequest struct {
	Name    string
	Set     *actor.TimerSpec // nil: it is cancelled
	Existed bool             // the answer
}

// position is where a call is. The lock of the actor's shard guards it.
type position struct {
	// Place is in a mailbox, in the shard's running calls, or in calls that are to run
	// again or to be answered.
	Place list.Place[*Call]
	Home  *Home // the mailbox that the call was put into, and what belongs to it; nil: none
	// Left, if not nil, is closed when the call has left, if it has no mailbox.
	Left chan struct{}
}

// Home is where an actor's calls are, and what they leave behind when they are answered.
type Home struct {
	Calls  mailbox.Mailbox[*Call]
	Timers *timer.Schedule // of the actor's shard
	Work   *sync.WaitGroup // of the actor's shard
}

// Answers are calls whose held results are to be sent.
type Answers = mailbox.Answers[*Call]

// Answer adds a call of a mailbox that is in no list to those that are to be answered. The
// caller has the lock of its actor's shard.
func (c *Call) Answer(to *Answers) {
	c.DecideTimers(c.Home.Timers, c.Result.Err == nil)
	c.Home.Calls.Answered(c.Cost())
	to.Add(&c.Place, c)
}

// RunAgain puts a call that was run for nothing before all others that wait at its actor,
// or answers it if something left the host with it. The caller has the shard's lock.
func (c *Call) RunAgain(err error, answered *Answers) {
	if c.Stats.Sent {
		c.Result = Result{Err: CutShort(err), Stats: c.Stats}
		c.Answer(answered)
		return
	}
	if f := c.Inv.Firing; f != nil && f.Step.Ordered && errors.Is(err, actor.ErrMessageOrder) {
		// Here it would run before its earlier one again.
		c.Result = Result{Err: err, Stats: c.Stats}
		c.Answer(answered)
		return
	}
	c.goAgain(c.Home.Timers, err)
	c.Home.Calls.Again(&c.Place, c)
}

// stopping is how a forced Stop reaches a running call: whoever comes
// second of Begin's store and Kill's load finds the other's. first is the
// context of the first run, made with the call.
type stopping struct {
	Killed atomic.Bool
	turn   atomic.Pointer[Context]
	first  Context
	// entry is not nil while the turn waits until it may begin. Once that wait was cancelled, it has the
	// error, and stays.
	entry atomic.Pointer[entry]
}

// entry is a wait for the beginning of a turn.
type entry struct{ cancelled error }

// progress is what is known of a call. It belongs to the goroutine that runs the call, and
// to the lock of the shard while the call is in a list.
type progress struct {
	// found is the method of the invocation in what serves its type, by.
	found serving.Method
	by    *serving.Type
	// Fired is the reminder whose firing asks for the call, as it was when the run
	// began; nil if it was not looked up.
	Fired *actor.Reminder
	// Timers is what the call does to its actor's timers.
	Timers *timer.Changes
	// Limit is how long its turn may take, and LimitSetting what sets that, for people.
	Limit        time.Duration
	LimitSetting string
	// Pool is where its turn waits for a processor.
	Pool *executor.Pool
	// Started is when the time of the turn began; zero for one that is to begin
	// anew. Conflicts counts the commits of it that were refused.
	Started   time.Time
	Conflicts int
	// Logged is true if a run of the turn logged something.
	Logged bool
	// Doubtful means that the same call may have been committed before: it is looked up
	// before it runs. Others find out when they commit, which is cheaper.
	Doubtful bool
	// Copied means that the call is answered from a copy of its actor's state, which
	// another host holds.
	Copied bool
	// Ruled means that the rules of its app have admitted the call.
	Ruled bool
	// Migrated means that the state was migrated for the call, or a migration was tried.
	Migrated bool
	// Holder is the host that a turn's call is sent to, and Elsewhere means that it has committed
	// there.
	Holder    actor.HostID
	Elsewhere bool
	// Chained means that the read-only method calls other actors, and needs a turn for that.
	Chained bool
	// Looking means that the call is looked up before it is admitted. The lock of the actor's
	// shard guards it.
	Looking bool
	// common means that the call is charged to the common part of Config.CallMemory.
	common bool
	// Looked is what the store said of a doubtful call before its run: of one run,
	// nil if the store was not asked.
	Looked *actor.Recorded
	// Seed is a random name of the call, for all of its runs; empty: none was made yet.
	Seed string
	// Outside is how a call waits that its actor does not accept.
	Outside outside
	marking
	// Losses is what the shard counted when the call entered, of a call without a mailbox.
	Losses uint64
	Stats  Stats
}

// marking is what is known of the mark of a call with an idempotency key, and of the calls of other
// actors that its turn makes.
type marking struct {
	// Mark is the call that the mark in the store names; nil: no mark is known to be there.
	Mark *actor.KeyedCall
	// made are the calls that this run has made: all of them until the mark is known, and then only the call
	// that the mark names.
	made map[actor.KeyedCall]struct{}
	// missing are those of the marks of the call's origin that the store lacks; nil: all, as far as is known.
	missing *[]actor.IdempotencyRecord
	named   map[actor.KeyedCall]int // how many calls have got a key from Name in this run, by actor and method
}

// outside is how a call waits for a method set that has its method. The lock of the actor's shard
// guards it.
type outside struct {
	Until time.Time   // zero: it has not waited yet
	timer *time.Timer // of Until, while it waits
}

// WaitOutside has over called at the end of the time for which the call may wait in all. The caller has
// the lock of the actor's shard, which over takes.
func (c *Call) WaitOutside(now time.Time, over func()) {
	if c.Outside.Until.IsZero() {
		c.Outside.Until = now.Add(c.Limit)
	}
	c.Started, c.Stats.Began = time.Time{}, time.Time{}
	c.Outside.timer = time.AfterFunc(c.Outside.Until.Sub(now), over)
}

// EndOutside ends the wait. The caller has the lock of the actor's shard.
func (c *Call) EndOutside() {
	if c.Outside.timer != nil {
		c.Outside.timer.Stop()
		c.Outside.timer = nil
	}
}

// delivery is how the caller gets the answer.
type delivery struct {
	Lane serving.Lane // set before the call is in a mailbox
	// Result is the answer that waits for the commit it rests on.
	Result Result
	// Answered gets one value when Result is the call's answer; its capacity is 1,
	// so that a worker never waits for a caller. A call that runs alone has none,
	// nor has one with a receiver.
	Answered  chan struct{}
	Receiver  Receiver // nil: the caller waits
	Responded atomic.Bool
	Grace     atomic.Pointer[time.Timer] // set when the call runs on after GiveUp
}

// Result is the answer to a call.
type Result struct {
	Reply actor.Reply
	Err   error
	Stats Stats
	// Later means that the call's receiver gets the answer, and this result is no answer.
	Later bool
}

// Stats are facts about a call that TurnEnd reports beside the outcome.
type Stats struct {
	Lane serving.Lane
	Sent bool // something was sent to the outside that may not be sent again: ErrLeft
	// Committed: another host has committed what the turn called, or perhaps has.
	Committed bool
	Began     time.Time // zero: never started
	Ended     time.Time // when its answer was there; zero: not known
	Runs      int
	Fuel      uint64
	Chain     *ChainRecord // of all runs; nil: it has called nothing
	Phases    []Phase      // nil: its trace is not sampled
}

// Commits ends a wait for a commit, which began when the guest had run.
func (s *Stats) Commits(now time.Time) {
	if n := len(s.Phases); n > 0 && s.Phases[n-1].Name == PhaseGuest {
		s.Phases = append(s.Phases[:n:n], Phase{PhaseCommit, s.Phases[n-1].To, now})
	}
}

// Phase begins a phase of c, which the result ends. Nothing is noted if the trace of c is not
// sampled.
func (c *Call) Phase(name PhaseName) (end func()) {
	if !c.Inv.Trace.IsSampled() {
		return func() {}
	}
	from := time.Now()
	return func() { c.Stats.Phases = append(c.Stats.Phases, Phase{name, from, time.Now()}) }
}

// KeyedCall names c for the store.
func (c *Call) KeyedCall() actor.KeyedCall {
	return actor.KeyedCall{Actor: c.Inv.Key, Method: c.Inv.Method, Key: c.Inv.IdempotencyKey}
}

// Record returns what is recorded of a call that was answered with a reply.
func (c *Call) Record(reply actor.Reply, ttl time.Duration) actor.IdempotencyRecord {
	of := c.KeyedCall()
	if c.Mark != nil {
		of = of.Done()
	}
	return actor.IdempotencyRecord{
		Actor: of.Actor, Method: of.Method, Key: of.Key, Payload: c.Sum,
		Reply: reply.Payload, Version: reply.Version, TTL: ttl,
	}
}

// RecordCost is what a record takes beside its reply, roughly.
const RecordCost = 256

// Recorded answers a call from the record of an earlier one with the same key.
func (c *Call) Recorded(r *actor.IdempotencyRecord) Result {
	if r.Payload != c.Sum {
		what := "call " + c.Inv.Method
		if c.Inv.Method == actor.MethodAll {
			what = "make the calls together"
		}
		return Result{Err: fmt.Errorf("%w: %s with a new key", actor.ErrKeyReused, what)}
	}
	return Result{Reply: actor.Reply{Payload: r.Reply, Version: r.Version, Callbacks: c.Inv.Origin != nil && len(c.Inv.Origin.Waits) > 0}}
}

// Began names what began the turn: a call with an idempotency key and a firing by what each call
// that repeats it has, too, and others by unnamed.
func (c *Call) Began(unnamed string) string {
	switch {
	case c.Inv.IdempotencyKey != "":
		return c.Inv.Key.String() + "\x00" + c.Inv.Method + "\x00" + c.Inv.IdempotencyKey
	case c.Cause == actor.CauseFiring, c.Cause == actor.CauseMessage, c.Cause == actor.CauseUndelivered:
		return fmt.Sprint(c.Inv.Firing.Reminder, "\x00", c.Inv.Firing.Step.Version)
	}
	return unnamed
}

// Cost is what the call counts for in Config.CallMemory and in its actor's share.
func (c *Call) Cost() int64 { return CallCost + int64(len(c.Inv.Payload.Data)) }

// BoundBy readies the call for turns of a type: their time, and where they wait for a processor.
func (c *Call) BoundBy(s *serving.Type) {
	c.Limit, c.LimitSetting = s.Limits.TurnDeadline, s.Settings.Deadline
	es := s.ExecutorsOf(c.Inv.Method)
	switch c.Pool = es.Own; {
	case c.Op == OpMigrate: // for all readers of the actor
		c.Pool = es.Migrations
	case c.Inv.Origin != nil: // its caller, at another host, is held meanwhile
		c.Pool = es.Called
	}
}

// MethodOf returns the method of a call of the type that s serves.
func (c *Call) MethodOf(s *serving.Type) (serving.Method, error) {
	if c.by == s {
		return c.found, nil
	}
	m, err := s.Method(&c.Inv)
	if err == nil {
		c.found, c.by = m, s
	}
	return m, err
}

// Enlists reports whether the call gives its actor to a chain.
func (c *Call) Enlists() bool { return c.Op == OpEnlist }

// FromOutside reports whether no actor of the app asks for the turn.
func (c *Call) FromOutside() bool {
	switch c.Cause {
	case actor.CauseCall, actor.CauseKeyedCall:
		return c.Op == OpInvoke && c.Inv.Origin == nil
	case actor.CauseMessage:
		return c.Inv.Firing.Message.From.ID == ""
	}
	return false
}

// Placed tells the receiver that the call has its place.
func (c *Call) Placed() {
	if p, ok := c.Receiver.(PlacedReceiver); ok {
		p.Placed()
	}
}

// Begin returns the context of a run of the call, which is to be stopped after
// it: it ends with the caller's, at limit after now, which is real time, or when
// the call is killed.
func (c *Call) Begin(now time.Time, limit time.Duration) *Context {
	deadline := now.Add(limit)
	ctx := &c.first
	if c.turn.Load() != nil { // something may hold on to the last one
		ctx = new(Context)
	}
	ctx.caller, ctx.deadline, ctx.pool = c.Ctx, deadline, c.Pool
	if theirs, ok := c.Ctx.Deadline(); ok && theirs.Before(deadline) {
		ctx.deadline = theirs
	}
	c.turn.Store(ctx)
	if c.Killed.Load() {
		ctx.Stop()
	}
	return ctx
}

// Kill stops the call wherever it is.
func (c *Call) Kill() {
	c.Killed.Store(true)
	if ctx := c.turn.Load(); ctx != nil {
		ctx.Stop()
	}
}

// Enter begins a wait for the beginning of the turn, which [Call.CancelEntry] may end, with the
// context that Begin has returned. end ends it, and returns the error if it was cancelled. A turn
// that has run before cannot be cancelled.
func (c *Call) Enter() (end func() error) {
	if c.Stats.Runs > 0 {
		return func() error { return nil }
	}
	waits := &entry{}
	c.entry.Store(waits)
	return func() error {
		if c.entry.CompareAndSwap(waits, nil) {
			return nil
		}
		return c.entry.Load().cancelled
	}
}

// CancelEntry ends such a wait with an error, and reports whether there was one.
func (c *Call) CancelEntry(err error) bool {
	waits := c.entry.Load()
	if waits == nil || waits.cancelled != nil || !c.entry.CompareAndSwap(waits, &entry{err}) {
		return false
	}
	c.turn.Load().Stop()
	return true
}

// NotBegun reports whether the call waits until its turn may begin, or has no turn since that wait was cancelled.
func (c *Call) NotBegun() bool { return c.entry.Load() != nil }

// Overdue returns the error of a turn whose context has ended, nil as long as
// it has not.
func (c *Call) Overdue(ctx *Context) error {
	err := ctx.Err()
	switch {
	case c.Killed.Load():
		return actor.ErrStopping
	case err == nil:
		return nil
	case c.Ctx.Err() != nil:
		return ContextError(c.Ctx)
	case errors.Is(err, context.DeadlineExceeded) && ctx.OfCaller():
		return actor.CallersDeadline(c.Ctx)
	default:
		return &actor.ReasonError{Condition: actor.ErrDeadline, Reason: fmt.Sprintf("turns of this type may take %s, by %s", c.Limit, c.LimitSetting)}
	}
}

// DecideTimers lets what the call did to timers take effect, or drops it. The caller has the
// lock of the actor's shard, which has the timers.
func (c *Call) DecideTimers(of *timer.Schedule, apply bool) {
	if c.Timers != nil {
		of.Decide(c.Inv.Key, c.Timers, apply, time.Now())
	}
}

// goAgain readies a call whose run was for nothing, because of err, for the next. The
// caller has the lock of the actor's shard, which has its timers.
func (c *Call) goAgain(of *timer.Schedule, err error) {
	c.DecideTimers(of, false)
	c.Timers = nil
	c.Doubtful, c.Looked = c.Cause == actor.CauseKeyedCall, nil
	if Refused(err) {
		c.Conflicts++
		return
	}
	c.Started = time.Time{} // its time was not lost by its own doing
}

// NotTimed drops what a run did to timers that err has ended: the call may have the answer
// of an earlier one all the same.
func (c *Call) NotTimed(err error) {
	if err != nil && c.Op == OpInvoke {
		c.Timers = nil
	}
}

// Receiver gets the answer to a call that Begin was given.
type Receiver interface {
	// Answer gets what Host.Invoke returns: once, on any goroutine, and perhaps
	// before Begin has returned. Others wait for their answers meanwhile: it must
	// not block.
	Answer(reply actor.Reply, err error)
}

// Begun is a call that was begun.
type Begun interface {
	// GiveUp tells the host that the call's context has ended, since the host does not watch it. The host
	// does what Invoke does then, and the receiver gets the outcome.
	GiveUp()
}

// PlacedReceiver is a [Receiver] that has others begun in order, one after the other, and
// need not wait for turns to do so.
type PlacedReceiver interface {
	Receiver
	// Placed is called once a call that is begun later cannot come before this one: on the
	// goroutine that called Begin, before a turn runs there. It is not called where Begin
	// returns without that, and must not block.
	Placed()
}

// charges are what a call counts for in Config.CallMemory.
type charges struct {
	Charged int64 // itself, from its admission to its answer
	Loaded  int64 // the states that it loaded for itself alone
}

// CallCost is what an admitted call takes beside its payload, with a reply of
// up to freeReply: the call, its caller's goroutine and what the server holds.
const CallCost, freeReply = 2 << 10, 512

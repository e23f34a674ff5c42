package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/host"
)

// task is an invocation of a stream on its way. It is the [host.Receiver] of its
// answer.
type task struct {
	st     *invokeStream
	id     uint64 // the client's
	number uint64 // among the stream's, from 1; 0 before it is accepted
	inv    actor.Invocation
	err    error // why it is refused

	context taskContext
	expiry  *time.Timer // nil without a deadline

	// Guarded by the stream's mu.
	stage      taskStage
	begun      host.Begun // what Begin returned
	prev, next *task      // of the unanswered
}

// taskStage is how far a task is:
//
//	pending ─▶ starting ─▶ begun ─▶ done
//	   └───────────┴──────────────────┘
type taskStage uint8

const (
	taskPending  taskStage = iota
	taskStarting           // the host has it, and has not given it a handle
	taskBegun
	taskDone // there is a reply
)

// tasks appends the invocations of a message as tasks, each looked at on its own.
func (st *invokeStream) tasks(all []*task, invs []invokestream.Invocation) []*task {
	arrived := time.Now()
	for i := range invs {
		t := new(task)
		in := &invs[i]
		t.st, t.id = st, in.ID
		t.inv = actor.Invocation{Key: in.Key, Method: in.Method, Payload: in.Payload, ReadOnly: in.ReadOnly}
		t.inv.Key.App = appOf(in.Key.App)
		t.context.stream = st.ctx
		if in.TimeoutMS > 0 {
			t.context.deadline = arrived.Add(time.Duration(in.TimeoutMS) * time.Millisecond)
		}
		t.err = t.validate(in)
		all = append(all, t)
	}
	return all
}

// size is what a task counts, in bytes.
func (t *task) size() int64 { return int64(len(t.inv.Payload.Data)) + invocationOverhead }

// validate checks what protovalidate checks of unary calls, and more.
func (t *task) validate(in *invokestream.Invocation) error {
	if err := t.inv.Key.Validate(); err != nil {
		return err
	}
	if err := t.st.x.caller.requireApp(t.inv.Key.App); err != nil {
		return err
	}
	if !in.ReadOnly {
		if err := t.st.x.caller.require(RoleInvoke); err != nil {
			return err
		}
	}
	if err := actor.ValidateName("method", in.Method); err != nil {
		return err
	}
	if len(in.Payload.ContentType) > maxContentType {
		return &actor.ArgumentError{Field: "content_type", Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(in.Payload.ContentType), maxContentType)}
	}
	if limit := t.st.s.conf.MaxPayloadBytes; int64(len(in.Payload.Data)) > limit {
		return errPayloadTooLarge(limit)
	}
	switch in.Consistency {
	case greenroomv1.Consistency_CONSISTENCY_UNSPECIFIED:
	case greenroomv1.Consistency_CONSISTENCY_STRONG:
		t.inv.Consistency = actor.ConsistencyStrong
	default:
		return &actor.ArgumentError{Field: "consistency", Problem: fmt.Sprintf("is %d; give one of the enum's values", in.Consistency)}
	}
	if in.IdempotencyKey == "" || in.ReadOnly {
		return nil
	}
	t.inv.IdempotencyKey = in.IdempotencyKey
	return actor.ValidateIdempotencyKey(in.IdempotencyKey)
}

// requestID names a task in logs: the stream's request and the task's number.
func (t *task) requestID() string {
	var b [64]byte
	id := append(b[:0], t.st.x.id...)
	id = append(id, '.')
	return string(strconv.AppendUint(id, t.number, 10))
}

// begin hands the task to the host.
func (t *task) begin() (begun host.Begun) {
	t.inv.ID = t.requestID()
	defer func() {
		if v := recover(); v != nil {
			t.st.s.log.LogAttrs(t.st.ctx, slog.LevelError, "handler panicked",
				slog.String("request_id", t.inv.ID), slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
			t.Answer(actor.Reply{}, errPanicked)
			begun = nil
		}
	}()
	return t.st.s.conf.Host.Begin(&t.context, t.inv, t)
}

// Answer implements [host.Receiver].
func (t *task) Answer(reply actor.Reply, err error) {
	out := invokestream.Reply{ID: t.id, Payload: reply.Payload, Version: reply.Version, Fuel: reply.Fuel}
	if err != nil {
		out = t.failure(err)
	}
	t.release()
	t.st.mu.Lock()
	defer t.st.mu.Unlock()
	t.finish(out)
}

// finish makes out the task's reply, unless it has one. Its caller holds mu.
func (t *task) finish(out invokestream.Reply) {
	if t.stage == taskDone {
		return
	}
	t.stage = taskDone
	st := t.st
	st.unanswered.remove(t)
	if st.unanswered.first == nil {
		st.answered.Signal()
	}
	size := int64(len(out.Payload.Data))
	st.hold(size)
	st.ready.accepted++
	st.ready.bytes += t.size() + size
	st.answer(out)
}

// failure is the reply that carries an error.
func (t *task) failure(err error) invokestream.Reply {
	f := t.st.s.failTurn(t.st.ctx, t.requestID(), err, t.inv.Key, t.inv.Method)
	return invokestream.Reply{ID: t.id, Error: f.stream()}
}

// expireIn sets the end of a task that has a deadline. Its caller holds mu.
func (t *task) expireIn() {
	if d := t.context.deadline; !d.IsZero() {
		t.expiry = time.AfterFunc(time.Until(d), func() { t.end(endDeadline) })
	}
}

// release lets go of what the task holds outside of its memory.
func (t *task) release() {
	if t.expiry != nil {
		t.expiry.Stop()
	}
	t.context.release()
}

// end ends a task before its answer is there: it is dropped if the host does not
// have it, and given up if it does. Its reply comes either way. Its caller is the
// task's timer; others mark first, while they know that the task has no reply.
func (t *task) end(why endReason) {
	if t.context.mark(why) {
		t.endMarked(why)
	}
}

func (t *task) endMarked(why endReason) {
	t.context.endMarked(why)
	st := t.st
	st.mu.Lock()
	stage, begun := t.stage, t.begun
	if stage == taskPending {
		t.stage = taskStarting // nobody else takes it
	}
	st.mu.Unlock()
	switch stage {
	case taskPending:
		err := actor.ErrCanceled
		if why == endDeadline {
			err = actor.ErrDeadline
		}
		t.Answer(actor.Reply{}, &actor.TurnError{Key: t.inv.Key, Method: t.inv.Method, Err: err})
	case taskBegun:
		begun.GiveUp()
	case taskStarting, taskDone: // its worker will see; too late
	}
}

// cancel ends the tasks that a message cancels, by the IDs that the client gave
// them. IDs that are not in flight are those of replies on their way.
func (st *invokeStream) cancel(ids []uint64) {
	wanted := make(map[uint64]struct{}, len(ids))
	for _, id := range ids {
		wanted[id] = struct{}{}
	}
	var found []*task
	st.mu.Lock()
	for t := st.unanswered.first; t != nil; t = t.next {
		if _, ok := wanted[t.id]; ok && t.context.mark(endCanceled) {
			found = append(found, t)
		}
	}
	st.mu.Unlock()
	for _, t := range found {
		t.endMarked(endCanceled)
	}
}

// abandon ends everything, after the stream's context has ended.
func (st *invokeStream) abandon() {
	var all []*task
	st.mu.Lock()
	for t := st.unanswered.first; t != nil; t = t.next {
		if t.context.mark(endCanceled) {
			all = append(all, t)
		}
	}
	st.mu.Unlock()
	for _, t := range all {
		t.endMarked(endCanceled)
	}
}

// tasks is a list of tasks, any of which can leave it.
type tasks struct{ first, last *task }

func (l *tasks) push(t *task) {
	t.prev, t.next = l.last, nil
	if l.last != nil {
		l.last.next = t
	} else {
		l.first = t
	}
	l.last = t
}

func (l *tasks) remove(t *task) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		l.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		l.last = t.prev
	}
	t.prev, t.next = nil, nil
}

// endReason is why a task's context ended before the stream's.
type endReason = uint32

const (
	endNot endReason = iota
	endCanceled
	endDeadline
)

// taskContext is the context of a task: it ends with the stream's, at the task's
// deadline or when the task is ended. Hosts that only ask whether it has ended
// need no more than that; a context that can be waited for is made when somebody
// waits.
type taskContext struct {
	stream   context.Context
	deadline time.Time // zero: none
	reason   atomic.Uint32

	mu     sync.Mutex
	real   context.Context // made by Done
	cancel context.CancelFunc
}

var _ context.Context = (*taskContext)(nil)

// Deadline implements [context.Context].
func (c *taskContext) Deadline() (time.Time, bool) {
	d, ok := c.stream.Deadline()
	if !c.deadline.IsZero() && (!ok || c.deadline.Before(d)) {
		return c.deadline, true
	}
	return d, ok
}

// Err implements [context.Context].
func (c *taskContext) Err() error {
	switch c.reason.Load() {
	case endCanceled:
		return context.Canceled
	case endDeadline:
		return context.DeadlineExceeded
	}
	if err := c.stream.Err(); err != nil {
		return err
	}
	// Done may be a moment ahead of the task's own timer.
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Done implements [context.Context].
func (c *taskContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		if c.deadline.IsZero() {
			c.real, c.cancel = context.WithCancel(c.stream)
		} else {
			c.real, c.cancel = context.WithDeadline(c.stream, c.deadline)
		}
		if c.reason.Load() == endCanceled {
			c.cancel()
		}
	}
	return c.real.Done()
}

// Value implements [context.Context].
func (c *taskContext) Value(key any) any {
	c.mu.Lock()
	real := c.real
	c.mu.Unlock()
	if real == nil {
		real = c.stream
	}
	return real.Value(key)
}

// ended tells whether the task itself was ended.
func (c *taskContext) ended() bool { return c.reason.Load() != endNot }

// mark notes why the context ends, and reports false if it was ended before. Who
// marks it calls endMarked.
func (c *taskContext) mark(why endReason) bool { return c.reason.CompareAndSwap(endNot, why) }

func (c *taskContext) endMarked(why endReason) {
	if why == endCanceled { // at its deadline it ends by itself, and with that error
		c.release()
	}
}

// release closes Done.
func (c *taskContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}

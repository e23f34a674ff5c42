package stream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/server/spans"
)

// task is an invocation of a stream on its way. It is the [host.Receiver] of its
// answer.
type task struct {
	stream *stream
	id     uint64 // the client's
	number uint64 // among the stream's, from 1; 0 before it is admitted
	inv    actor.Invocation
	err    error // why it is refused

	arrived time.Time
	context taskContext
	timer   *time.Timer // nil without a deadline

	// Guarded by the stream's mu.
	stage      taskStage
	begun      host.Begun // what Begin returned
	prev, next *task      // in the stream's list
}

// taskStage is how far a task is; doc.go has the diagram.
type taskStage uint8

const (
	taskPending  taskStage = iota
	taskStarting           // the host has it, and has not given it a handle
	taskBegun
	taskDone // there is a reply
)

// errPanicked is not an error that clients know: they receive an internal error.
var errPanicked = errors.New("a handler panicked")

// newTasks appends the invocations of a message as tasks, each checked on its own.
func (st *stream) newTasks(all []*task, invs []invokestream.Invocation) []*task {
	if len(invs) == 0 {
		return all
	}
	arrived := time.Now()
	for i := range invs {
		in := &invs[i]
		t := &task{stream: st, id: in.ID, arrived: arrived}
		t.context.stream = st.ctx
		if in.TimeoutMS > 0 {
			t.context.timeout = time.Duration(in.TimeoutMS) * time.Millisecond
			t.context.deadline = arrived.Add(t.context.timeout)
		}
		t.inv, t.err = st.peer.Edge.Admit(in)
		all = append(all, t)
	}
	return all
}

// size is what a task counts, in bytes.
func (t *task) size() int64 { return int64(len(t.inv.Payload.Data)) + invocationOverhead }

// app is the app for which the task counts.
func (t *task) app() string { return cmp.Or(t.stream.peer.App, t.inv.Key.App) }

// requestID names a task in logs: as its invocation does, if the edge knows that, or by
// the stream's request and the task's number.
func (t *task) requestID() string {
	if t.inv.ID != "" {
		return t.inv.ID
	}
	var b [64]byte
	id := append(b[:0], t.stream.peer.RequestID...)
	id = append(id, '.')
	return string(strconv.AppendUint(id, t.number, 10))
}

// begin hands the task to the host.
func (t *task) begin() (begun host.Begun) {
	t.inv.ID = t.requestID()
	defer func() {
		if v := recover(); v != nil {
			t.stream.conf.Logger.LogAttrs(t.stream.ctx, slog.LevelError, "handler panicked", t.inv.Trace.AppendLog([]slog.Attr{
				slog.String("request_id", t.inv.ID), slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())),
			})...)
			t.Answer(actor.Reply{}, errPanicked)
			begun = nil
		}
	}()
	return t.stream.conf.Host.Begin(&t.context, t.inv, t)
}

func (t *task) Answer(reply actor.Reply, err error) {
	out := invokestream.Reply{ID: t.id, Payload: reply.Payload, Version: reply.Version, Fuel: reply.Fuel, Joined: reply.Joined, Callbacks: reply.Callbacks, Marked: reply.Marked}
	if err != nil {
		out = t.failure(err)
	}
	out.Host = reply.Host
	t.recordSpan(err)
	if t.timer != nil {
		t.timer.Stop()
	}
	t.context.release()
	t.stream.mu.Lock()
	defer t.stream.mu.Unlock()
	t.finish(out)
}

// recordSpan records the span of a task that was answered.
func (t *task) recordSpan(err error) {
	if !t.inv.Trace.IsSampled() {
		return
	}
	s := spans.Span{
		Trace: t.inv.Trace, Name: "invoke " + t.inv.Key.Type + "." + t.inv.Method, Kind: trace.SpanKindServer, Began: t.arrived, Ended: time.Now(),
		Attributes: []attribute.KeyValue{attribute.String("greenroom.request_id", t.requestID())},
	}
	if err != nil {
		s.Failed = err.Error()
	}
	t.stream.conf.Spans.Record(s)
}

// finish gives the task's reply to the writer, unless the task has one already. Its
// caller holds mu.
func (t *task) finish(out invokestream.Reply) {
	if t.stage == taskDone {
		return
	}
	t.stage = taskDone
	st := t.stream
	st.tasks.remove(t)
	if st.tasks.first == nil {
		st.answered.Signal()
	}
	size := int64(len(out.Payload.Data))
	st.addBytes(t.app(), size)
	st.replies.admitted++
	st.replies.count(t.app(), t.size()+size)
	st.reply(out)
}

// failure is the reply that carries an error.
func (t *task) failure(err error) invokestream.Reply {
	out := invokestream.Reply{ID: t.id}
	t.stream.peer.Edge.Describe(t.stream.ctx, t.requestID(), &t.inv, err, &out)
	return out
}

// startTimer makes a task that has a deadline end at it. Its caller holds mu.
func (t *task) startTimer() {
	if d := t.context.deadline; !d.IsZero() {
		t.timer = time.AfterFunc(time.Until(d), t.expire)
	}
}

// expire ends a task at its deadline, unless it has ended.
func (t *task) expire() {
	if t.context.mark(endDeadline) {
		t.endMarked(endDeadline)
	}
}

// endMarked ends a task whose context its caller has marked: it is dropped if the
// host does not have it, and given up if it does. Its reply comes either way.
func (t *task) endMarked(why endReason) {
	t.context.endMarked(why)
	st := t.stream
	st.mu.Lock()
	stage, begun := t.stage, t.begun
	if stage == taskPending {
		t.stage = taskStarting // no worker takes it
	}
	st.mu.Unlock()
	switch stage {
	case taskPending:
		err := error(actor.ErrCanceled)
		if why == endDeadline {
			err = actor.CallersDeadline(&t.context)
		}
		t.Answer(actor.Reply{}, &actor.TurnError{Key: t.inv.Key, Method: t.inv.Method, Err: err})
	case taskBegun:
		begun.GiveUp()
	case taskStarting, taskDone: // the worker that begins it gives it up; it has its reply
	}
}

// taskList holds tasks in the order of their admission. Workers take them from the
// front; any of them can leave.
type taskList struct {
	first, last *task
	pending     *task // the first one that no worker has taken, with all after it
}

func (l *taskList) push(t *task) {
	t.prev = l.last
	if l.last != nil {
		l.last.next = t
	} else {
		l.first = t
	}
	l.last = t
	if l.pending == nil {
		l.pending = t
	}
}

// pop returns the first pending task, which stays in the list and is not pending any
// more.
func (l *taskList) pop() *task {
	t := l.pending
	l.pending = t.next
	return t
}

func (l *taskList) remove(t *task) {
	if l.pending == t {
		l.pending = t.next
	}
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

package server

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

// invokeStream is one ActorService.InvokeStream.
//
//	client ── receive ── pending ── workers (Host.Invoke) ── ready ── write ── client
//
// The goroutine of the handler receives. Workers take what is pending: as many as
// block in the host, and no more, since a worker that comes back takes the next
// itself. One goroutine writes all replies that are ready as one message, then
// those that became ready meanwhile; nothing ever waits for company.
//
// An invocation is in flight, and counts, from its acceptance until its reply is
// written. Receiving pauses only for a client that sends what is refused without
// reading the refusals.
type invokeStream struct {
	s    *Server
	x    *exchange
	conn connect.StreamingHandlerConn
	ctx  context.Context // of every invocation; it ends with the stream
	cut  context.CancelFunc

	// The receiver's: what came last.
	in    invokestream.Request
	batch []task

	// writeTimer bounds each message that is written. A deadline of the
	// connection would cost more than the message.
	writeTimer *time.Timer

	running sync.WaitGroup // the workers; added to under mu while there is one or the receiver

	mu         sync.Mutex
	pending    fifo[task]
	waking     bool // a worker was started and has not taken anything yet
	inFlight   int
	bytes      int64 // of the payloads of what is in flight, and of its replies
	stopping   bool  // the server stops: nothing more is accepted
	over       bool  // nothing will become ready any more
	failed     error // why nothing can be written any more
	ready      outgoing
	refused    int       // refusals that are not written yet
	readyMore  sync.Cond // ready, or over
	writtenOne sync.Cond // refused has shrunk, or failed
	tasks      uint64    // accepted so far, for their IDs
}

// task is an invocation on its way.
type task struct {
	id       uint64 // the client's
	number   uint64 // among the stream's, from 1; 0 before it is accepted
	inv      actor.Invocation
	deadline time.Time // zero: none
	err      error     // why it is refused
}

// size is what a task counts, in bytes.
func (t *task) size() int64 { return int64(len(t.inv.Payload.Data)) + invocationOverhead }

// outgoing is a message of replies with what they free once they are written.
type outgoing struct {
	invokestream.Response
	accepted int   // of the replies, how many were in flight
	bytes    int64 // that those hold
}

const (
	// streamMessage is how large a message of replies grows, in bytes, unless a
	// single reply is larger: a client may then begin to read.
	streamMessage = 1 << 20
	// invocationOverhead is what an invocation in flight counts beside its
	// payload, in bytes: its strings and what the host knows of it.
	invocationOverhead = 512
)

// InvokeStream implements ActorService. The stream's messages are received and
// sent in the form of package invokestream.
func (a *actorService) InvokeStream(ctx context.Context, stream *connect.BidiStream[greenroomv1.InvokeStreamRequest, greenroomv1.InvokeStreamResponse]) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	return newInvokeStream(ctx, cut, exchangeOf(ctx), stream.Conn()).run()
}

func newInvokeStream(ctx context.Context, cut context.CancelFunc, x *exchange, conn connect.StreamingHandlerConn) *invokeStream {
	st := &invokeStream{s: x.server, x: x, conn: conn, ctx: ctx, cut: cut}
	st.readyMore.L, st.writtenOne.L = &st.mu, &st.mu
	return st
}

func (st *invokeStream) run() error {
	st.writeTimer = time.AfterFunc(st.s.conf.BodyTimeout, st.endWriting)
	// The client learns that its invocations will be taken.
	if err := st.conn.Send(&invokestream.Response{}); err != nil {
		return err
	}
	st.writeTimer.Stop()
	st.s.metrics.streams.Inc()
	defer st.s.metrics.streams.Dec()
	notified := make(chan struct{})
	unwatch := context.AfterFunc(st.s.draining, func() {
		defer close(notified)
		st.stop()
	})
	var writer sync.WaitGroup
	writer.Go(st.write)

	err := st.receive()
	if err != nil {
		st.cut() // nobody is there to be answered
	}
	st.running.Wait()
	st.mu.Lock()
	st.over = true
	st.readyMore.Signal()
	st.mu.Unlock()
	writer.Wait()
	if !unwatch() {
		<-notified
	}
	_ = st.x.control.SetWriteDeadline(st.s.bodyDeadline()) // of how the stream ended

	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.failed != nil:
		return st.failed
	case err != nil:
		return err
	case st.stopping:
		return actor.ErrStopping
	}
	return nil
}

// receive takes messages until there will be no more; nil if that is in order.
func (st *invokeStream) receive() error {
	for {
		st.in.Reset() // see invokestream.Frame
		err := st.conn.Receive(&st.in)
		switch {
		case err == nil:
			st.s.metrics.streamReceived.Inc()
			st.s.metrics.streamInvocations.Add(float64(len(st.in.Invocations)))
			if !st.accept(st.in.Invocations) {
				return nil // the writer knows why
			}
		case ended(err) || st.stopped():
			return nil
		case connect.CodeOf(err) == connect.CodeResourceExhausted:
			return errPayloadTooLarge(st.x.route.maxMessage)
		default:
			return err
		}
	}
}

// stop lets nothing more begin, and ends receiving.
func (st *invokeStream) stop() {
	st.mu.Lock()
	st.stopping = true
	st.mu.Unlock()
	st.endReceiving()
}

func (st *invokeStream) broken() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.failed != nil
}

func (st *invokeStream) stopped() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.stopping || st.failed != nil
}

// endReceiving makes Receive return once it has told what has arrived.
func (st *invokeStream) endReceiving() {
	_ = st.x.control.SetReadDeadline(time.Unix(1, 0)) // HTTP/2 always can
}

// endWriting is how a client ends that does not accept what is written to it.
func (st *invokeStream) endWriting() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.over {
		_ = st.x.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// accept begins or refuses every invocation of a message. It reports false when
// the client cannot be answered any more.
func (st *invokeStream) accept(invs []invokestream.Invocation) bool {
	arrived := st.s.conf.Clock()
	st.batch = st.batch[:0]
	for i := range invs {
		t := taskOf(&invs[i], arrived)
		t.err = st.validate(&invs[i], &t)
		st.batch = append(st.batch, t)
	}
	refused := st.begin(st.batch)
	for i := range refused {
		st.refuse(&refused[i])
	}
	clear(st.batch)
	return !st.broken()
}

// taskOf is an invocation that nobody has looked at.
func taskOf(in *invokestream.Invocation, arrived time.Time) task {
	t := task{id: in.ID, inv: actor.Invocation{
		Key: in.Key, Method: in.Method, Payload: in.Payload, ReadOnly: in.ReadOnly,
	}}
	t.inv.Key.App = appOf(in.Key.App)
	if in.TimeoutMS > 0 {
		t.deadline = arrived.Add(time.Duration(in.TimeoutMS) * time.Millisecond)
	}
	return t
}

// begin queues the good ones of a batch as long as there is room, and returns
// the others. It reorders the batch.
func (st *invokeStream) begin(batch []task) []task {
	refused := batch[:0]
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, t := range batch {
		if t.err == nil {
			t.err = st.room(t.size())
		}
		if t.err != nil {
			refused = append(refused, t)
			continue
		}
		st.inFlight++
		st.bytes += t.size()
		st.tasks++
		t.number = st.tasks
		st.pending.push(t)
	}
	st.wake()
	return refused
}

// room says why an invocation of size bytes cannot be taken now. Its caller
// holds mu.
func (st *invokeStream) room(size int64) error {
	switch {
	case st.stopping:
		return actor.ErrStopping
	case st.inFlight >= st.s.conf.MaxStreamInvocations:
		return &requestError{kindStreamFull, fmt.Sprintf("the stream has %d invocations in flight; wait for replies, or open another stream", st.inFlight)}
	case st.inFlight > 0 && st.bytes+size > st.s.conf.MaxStreamBytes:
		return &requestError{kindStreamFull, fmt.Sprintf("the stream has %d bytes in flight; wait for replies, or open another stream", st.bytes)}
	}
	return nil
}

// refuse answers a task that was not begun. It waits for a client that does not
// read what it is told.
func (st *invokeStream) refuse(t *task) {
	reply := st.failure(t, t.err)
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.refused >= st.s.conf.MaxStreamInvocations && st.failed == nil {
		st.writtenOne.Wait()
	}
	st.refused++
	st.answer(reply)
}

// validate checks what protovalidate checks of unary calls, and more.
func (st *invokeStream) validate(in *invokestream.Invocation, t *task) error {
	if err := t.inv.Key.Validate(); err != nil {
		return err
	}
	if err := actor.ValidateName("method", in.Method); err != nil {
		return err
	}
	if len(in.Payload.ContentType) > maxContentType {
		return &actor.ArgumentError{Field: "content_type", Problem: fmt.Sprintf("has %d bytes; at most %d are allowed", len(in.Payload.ContentType), maxContentType)}
	}
	if limit := st.s.conf.MaxPayloadBytes; int64(len(in.Payload.Data)) > limit {
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

// wake starts a worker, unless one is already on its way: that one will start
// the next. Its caller holds mu.
func (st *invokeStream) wake() {
	if st.waking || st.pending.len() == 0 {
		return
	}
	st.waking = true
	st.running.Go(st.work)
}

// work runs tasks until none is pending.
func (st *invokeStream) work() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.waking = false
	for st.pending.len() > 0 {
		t := st.pending.pop()
		st.wake() // the host may block
		st.mu.Unlock()
		reply := st.invoke(&t)
		st.mu.Lock()
		st.bytes += int64(len(reply.Payload.Data))
		st.ready.accepted++
		st.ready.bytes += t.size() + int64(len(reply.Payload.Data))
		st.answer(reply)
	}
}

// invoke runs one task.
func (st *invokeStream) invoke(t *task) (out invokestream.Reply) {
	t.inv.ID = st.requestID(t)
	ctx := st.ctx
	if !t.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, t.deadline)
		defer cancel()
	}
	defer func() {
		if v := recover(); v != nil {
			st.s.log.LogAttrs(ctx, slog.LevelError, "handler panicked",
				slog.String("request_id", t.inv.ID), slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
			out = st.failure(t, errPanicked)
		}
	}()
	reply, err := st.s.conf.Host.Invoke(ctx, t.inv)
	if err != nil {
		return st.failure(t, err)
	}
	return invokestream.Reply{ID: t.id, Payload: reply.Payload, Version: reply.Version}
}

// requestID names a task in logs: the stream's request and the task's number.
func (st *invokeStream) requestID(t *task) string {
	var b [64]byte
	id := append(b[:0], st.x.id...)
	id = append(id, '.')
	return string(strconv.AppendUint(id, t.number, 10))
}

// failure is the reply that carries an error.
func (st *invokeStream) failure(t *task, err error) invokestream.Reply {
	f := st.s.failTurn(st.ctx, st.requestID(t), err, t.inv.Key, t.inv.Method)
	return invokestream.Reply{ID: t.id, Error: f.stream()}
}

// answer hands a reply to the writer. Its caller holds mu.
func (st *invokeStream) answer(r invokestream.Reply) {
	st.ready.Replies = append(st.ready.Replies, r)
	if len(st.ready.Replies) == 1 {
		st.readyMore.Signal()
	}
}

// write sends what is ready until the stream is over.
func (st *invokeStream) write() {
	var out outgoing
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		for len(st.ready.Replies) == 0 {
			if st.over {
				return
			}
			st.readyMore.Wait()
			st.mu.Unlock()
			runtime.Gosched() // workers that are about to run join the message
			st.mu.Lock()
		}
		out.Reset()
		out, st.ready = st.ready, outgoing{Response: out.Response}
		if st.failed == nil {
			st.mu.Unlock()
			err := st.send(&out)
			st.mu.Lock()
			if err != nil {
				st.failed = err
				st.cut()
				st.endReceiving()
			}
		}
		st.inFlight -= out.accepted
		st.bytes -= out.bytes
		st.refused -= len(out.Replies) - out.accepted
		st.writtenOne.Signal()
	}
}

// send sends replies in messages of a moderate size.
func (st *invokeStream) send(out *outgoing) error {
	all := out.Replies
	defer func() { out.Replies = all }()
	for begin := 0; begin < len(all); {
		end, size := begin, 0
		for end < len(all) && (end == begin || size+all[end].Size() <= streamMessage) {
			size += all[end].Size()
			end++
		}
		out.Replies = all[begin:end]
		begin = end
		st.writeTimer.Reset(st.s.conf.BodyTimeout)
		err := st.conn.Send(&out.Response)
		st.writeTimer.Stop()
		if err != nil {
			return err
		}
		st.s.metrics.streamSent.Inc()
	}
	return nil
}

// stream returns f as a reply of a stream has it.
func (f failure) stream() *greenroomv1.StreamError {
	return &greenroomv1.StreamError{Code: uint32(f.code), Message: f.message, Detail: f.detail}
}

// unbounded is the size of a body without a limit.
const unbounded = math.MaxInt64 >> 1

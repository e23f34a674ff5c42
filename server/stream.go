package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

// invokeStream is one ActorService.InvokeStream.
//
//	client ── receive ── pending ── workers ── Host.Begin ── Answer ── ready ── write ── client
//
// The goroutine of the handler receives. Workers hand what is pending to the
// host, which answers from wherever it has an answer: nobody waits for a single
// invocation. The host may block all the same, so a worker that goes into it
// wakes another one as long as there is something pending. One goroutine writes
// all replies that are ready as one message, then those that became ready
// meanwhile; nothing ever waits for company.
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
	batch []*task

	// writeTimer bounds each message that is written. A deadline of the
	// connection would cost more than the message.
	writeTimer *time.Timer

	working sync.WaitGroup // the workers; added to under mu while the stream is not over

	mu         sync.Mutex
	pending    fifo[*task]
	idle       int       // workers that wait for workMore, of which keep may
	keep       int       // as many as can run at once and one on its way: their stacks have grown
	waking     bool      // one was woken or started and has not looked at pending yet
	workMore   sync.Cond // pending, or over
	unanswered tasks
	answered   sync.Cond // unanswered is empty
	inFlight   int
	bytes      int64 // of the payloads of what is in flight, and of its replies
	stopping   bool  // the server stops: nothing more is accepted
	over       bool  // nothing will become ready any more
	failed     error // why nothing can be written any more
	ready      outgoing
	refused    int       // refusals that are not written yet
	readyMore  sync.Cond // ready, or over
	writtenOne sync.Cond // refused has shrunk, or failed
	accepted   uint64    // tasks so far, for their IDs
}

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
	if err := a.s.streams.open(a.s.conf.MaxStreams); err != nil {
		return err
	}
	defer a.s.streams.close()
	a.s.conf.Calls.Enter() // once more than any request
	defer a.s.conf.Calls.Leave()
	return newInvokeStream(ctx, cut, exchangeOf(ctx), stream.Conn()).run()
}

func newInvokeStream(ctx context.Context, cut context.CancelFunc, x *exchange, conn connect.StreamingHandlerConn) *invokeStream {
	st := &invokeStream{s: x.server, x: x, conn: conn, ctx: ctx, cut: cut, keep: runtime.GOMAXPROCS(0) + 1}
	st.workMore.L, st.answered.L, st.readyMore.L, st.writtenOne.L = &st.mu, &st.mu, &st.mu, &st.mu
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
	abandoned := make(chan struct{})
	unabandon := context.AfterFunc(st.ctx, func() {
		defer close(abandoned)
		st.abandon()
	})

	// A message that is refused ends the stream, and takes nothing from what was
	// accepted before it. A client that is gone ends the stream's context.
	err := st.receive()
	if err != nil {
		st.s.log.LogAttrs(st.ctx, slog.LevelDebug, "stream takes no more",
			slog.String("request_id", st.x.id), slog.Any("error", err))
	}
	st.mu.Lock()
	for st.unanswered.first != nil {
		st.answered.Wait()
	}
	st.over = true
	st.readyMore.Signal()
	st.workMore.Broadcast()
	st.mu.Unlock()
	st.working.Wait()
	writer.Wait()
	if !unwatch() {
		<-notified
	}
	if !unabandon() {
		<-abandoned
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
		st.x.arrived()
		switch {
		case err == nil:
			st.s.metrics.streamReceived.Inc()
			if !st.accept(&st.in) {
				return nil // the writer knows why
			}
		case ended(err) || st.stopped():
			return nil
		case tooLarge(err):
			return errPayloadTooLarge(st.x.route.maxMessage)
		default:
			return err
		}
	}
}

// tooLarge recognizes what Connect says of a message beyond the limit.
func tooLarge(err error) bool {
	var wire *connect.Error
	return errors.As(err, &wire) && wire.Code() == connect.CodeResourceExhausted && !mapped(wire)
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

// accept begins or refuses every invocation of a message, and then ends those
// that it cancels. It reports false when the client cannot be answered any more.
func (st *invokeStream) accept(in *invokestream.Request) bool {
	if n := len(in.Invocations); n > 0 {
		st.s.metrics.streamInvocations.Add(float64(n))
		st.batch = st.begin(st.tasks(st.batch, in.Invocations))
	}
	if len(in.Cancels) > 0 {
		st.cancel(in.Cancels)
	}
	return !st.broken()
}

// begin queues the good ones of a message as long as there is room, and refuses
// the others. It returns the memory of the list.
func (st *invokeStream) begin(all []*task) []*task {
	refused := all[:0]
	st.mu.Lock()
	for _, t := range all {
		if t.err == nil {
			t.err = st.room(t.size())
		}
		if t.err != nil {
			refused = append(refused, t)
			continue
		}
		st.inFlight++
		st.hold(t.size())
		st.accepted++
		t.number = st.accepted
		st.unanswered.push(t)
		st.pending.push(t)
		t.expireIn()
	}
	st.wake()
	st.mu.Unlock()
	for _, t := range refused {
		st.refuse(t)
	}
	clear(all)
	return all[:0]
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
	case st.inFlight > 0 && st.s.streams.bytes.Load()+size > st.s.conf.MaxStreamsBytes:
		return errStreamsFull(st.s.conf.MaxStreamsBytes)
	}
	return nil
}

// hold counts bytes as in flight, or with a negative number no more. Its caller
// holds mu.
func (st *invokeStream) hold(bytes int64) {
	st.bytes += bytes
	st.s.streams.bytes.Add(bytes)
}

// refuse answers a task that was not begun. It waits for a client that does not
// read what it is told.
func (st *invokeStream) refuse(t *task) {
	reply := t.failure(t.err)
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.refused >= st.s.conf.MaxStreamInvocations && st.failed == nil {
		st.writtenOne.Wait()
	}
	st.refused++
	st.answer(reply)
}

// wake sees to it that a worker will look at what is pending. Its caller holds mu.
func (st *invokeStream) wake() {
	if st.waking || st.pending.len() == 0 {
		return // the one on its way will wake the next
	}
	st.waking = true
	if st.idle > 0 {
		st.workMore.Signal()
		return
	}
	st.working.Go(st.work)
}

// work hands tasks to the host until the stream is over, or others wait already.
func (st *invokeStream) work() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.waking = false
	for {
		for st.pending.len() == 0 {
			if st.over || st.idle == st.keep {
				return
			}
			st.idle++
			st.workMore.Wait()
			st.idle--
			st.waking = false
		}
		t := st.pending.pop()
		if t.stage != taskPending {
			continue // it was ended while it waited
		}
		t.stage = taskStarting
		st.wake() // the host may block
		st.mu.Unlock()
		begun := t.begin()
		st.mu.Lock()
		t.begun = begun
		switch {
		case t.stage == taskDone: // its answer came while it began
		case t.context.ended(): // while it began
			t.stage = taskBegun
			st.mu.Unlock()
			begun.GiveUp()
			st.mu.Lock()
		default:
			t.stage = taskBegun
		}
	}
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
		st.hold(-out.bytes)
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

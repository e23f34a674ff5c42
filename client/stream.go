package client

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/api/invokestream"
)

const (
	// messageBytes and messageCalls are how large a message of invocations
	// grows, unless a single one is larger: the server may then begin.
	messageBytes = 256 << 10
	messageCalls = 1024
	// maxStreamed is the largest payload that goes over a stream, where it would
	// hold up others: larger ones are worth a request of their own.
	maxStreamed = 256 << 10
)

// stream is one InvokeStream, which is opened anew whenever it has ended and there are
// calls for it. What its calls see when it breaks is in the package comment.
//
//	call ── queue ── run (opens, sends) ── slots ── receive ── call
//
// A call is in the queue, in a slot from the time it is taken for sending until
// its reply, or finished. It leaves a slot without a reply only with the stream.
type stream struct {
	c *Client

	// encoding is held while payloads of calls in slots are read; before mu.
	encoding sync.Mutex

	mu      sync.Mutex
	queue   fifo[*call]
	slots   slots
	cancels []uint64 // IDs of sent calls that nobody waits for, to be sent
	idle    bool     // run waits for wakeup
	closed  bool

	wakeup chan struct{} // of capacity 1: there is something to do for run
}

// call is one attempt. It belongs to the goroutine that made it, but for inv,
// which run reads while the call is queued, and for what is marked.
type call struct {
	inv      invokestream.Invocation
	deadline time.Time // zero: none

	// Guarded by the stream's mu.
	sent      bool
	slot      uint32
	finished  bool // the outcome is there, and done has or gets its value
	abandoned bool // nobody waits

	reply invokestream.Reply
	err   *Error

	done chan struct{} // of capacity 1
}

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

// release gives a call back that nothing refers to.
func (ca *call) release() {
	*ca = call{done: ca.done}
	calls.Put(ca)
}

func newStream(c *Client) *stream {
	return &stream{c: c, slots: slots{limit: c.conf.MaxInFlight}, wakeup: make(chan struct{}, 1)}
}

// call makes one attempt.
func (s *stream) call(ctx context.Context, inv *invokestream.Invocation) (Reply, *Error) {
	ca := calls.Get().(*call)
	ca.inv = *inv
	ca.deadline, _ = ctx.Deadline()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		ca.release()
		err := errClosed()
		err.OutcomeUnknown = false
		return Reply{}, err
	}
	s.queue.push(ca)
	s.wake()
	s.mu.Unlock()

	select {
	case <-ca.done:
	case <-ctx.Done():
		if sent, abandoned := s.abandon(ca, ctx.Err()); abandoned {
			return Reply{}, errContext(ctx.Err(), sent)
		}
		<-ca.done
	}
	r, err := ca.reply, ca.err
	ca.release()
	switch {
	case err != nil:
		return Reply{}, err
	case r.Error != nil:
		return Reply{}, errorOf(connectCode(r.Error.GetCode()), r.Error.GetMessage(), r.Error.GetDetail())
	}
	return Reply{Payload: r.Payload.Data, ContentType: r.Payload.ContentType, Version: r.Version, Fuel: r.Fuel}, nil
}

// abandon ends the wait for a call, and reports whether it was sent and whether it is
// abandoned now: not if it is finished. A call in a slot keeps
// it: the server is still at it, and told to end it unless the call's deadline
// tells that already. When it returns, nobody reads the payload.
func (s *stream) abandon(ca *call, why error) (sent, abandoned bool) {
	s.mu.Lock()
	if ca.finished {
		s.mu.Unlock()
		return ca.sent, false
	}
	ca.abandoned = true
	sent = ca.sent
	if sent {
		s.slots.abandon(ca.slot)
		if !errors.Is(why, context.DeadlineExceeded) || ca.deadline.IsZero() {
			s.cancels = append(s.cancels, ca.inv.ID)
			s.wake()
		}
	}
	s.mu.Unlock()
	if sent {
		s.encoding.Lock()
		s.encoding.Unlock() //nolint:staticcheck // whoever reads the payload holds it
	}
	return sent, true
}

// wake wakes run. Its caller holds mu.
func (s *stream) wake() {
	if s.idle {
		s.idle = false
		select {
		case s.wakeup <- struct{}{}:
		default: // one of an earlier stream is left, and does
		}
	}
}

// finish gives a call its outcome. Its caller holds mu.
func (ca *call) finish(err *Error) {
	ca.err, ca.finished = err, true
	if !ca.abandoned {
		ca.done <- struct{}{}
	}
}

// run owns the stream until the client is closed.
func (s *stream) run() {
	failures := 0
	for s.wait() {
		k, err := s.c.open(failures)
		switch {
		case err == nil:
			failures = 0
			s.serve(k)
		case err == errNoStreams || !err.Retryable:
			s.fail(err)
		default:
			if failures++; failures >= s.c.conf.MaxAttempts {
				s.fail(err)
			}
			_ = s.c.pause(s.c.ctx, s.c.backoff(failures)) // the client's end shows in wait
			s.prune()
		}
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.fail(errClosed())
}

// wait returns when there are calls; false when the client is closed.
func (s *stream) wait() bool {
	s.mu.Lock()
	s.idle = s.queue.len() == 0
	idle := s.idle
	s.mu.Unlock()
	if idle {
		select {
		case <-s.wakeup:
		case <-s.c.ctx.Done():
			s.mu.Lock()
			s.idle = false // nobody is to be woken any more
			s.mu.Unlock()
		}
	}
	return s.c.ctx.Err() == nil
}

// serve sends calls over a stream and receives their replies until it ends.
func (s *stream) serve(k *link) {
	ended := make(chan error, 1)
	go func() { ended <- s.receive(k) }() // waited for below
	// The end of its context alone ends neither side of a stream.
	unwatch := context.AfterFunc(s.c.ctx, k.close)
	defer unwatch()
	var msg message
	var err error
	for err == nil {
		if s.next(&msg) {
			// An error says only that the stream has ended; receive knows why.
			if k.conn.Send(&msg) != nil {
				err = <-ended
			}
			continue
		}
		select {
		case <-s.wakeup:
			runtime.Gosched() // callers that are about to run join the message
		case err = <-ended:
		}
	}
	k.close()
	s.settle(err)
}

// message is a request that is encoded already.
type message struct {
	invokestream.Request
	data []byte
}

// Append implements [invokestream.Frame].
func (m *message) Append(dst []byte) ([]byte, error) { return append(dst, m.data...), nil }

// next makes the next message; false if there is none, and then run is idle.
func (s *stream) next(m *message) bool {
	s.encoding.Lock()
	defer s.encoding.Unlock()
	s.mu.Lock()
	s.take(&m.Request)
	s.idle = len(m.Invocations) == 0 && len(m.Cancels) == 0
	idle := s.idle
	s.mu.Unlock()
	if idle {
		return false
	}
	m.data, _ = m.Request.Append(m.data[:0]) // never fails
	m.Reset()
	return true
}

// take moves calls from the queue into slots and the next message.
func (s *stream) take(req *invokestream.Request) {
	req.Reset()
	req.Cancels = append(req.Cancels, s.cancels...)
	s.cancels = s.cancels[:0]
	var now time.Time
	for size := 0; s.queue.len() > 0 && len(req.Invocations) < messageCalls; {
		ca := s.queue.peek()
		if ca.abandoned {
			s.queue.pop()
			continue
		}
		if size += ca.inv.Size(); size > messageBytes && len(req.Invocations) > 0 {
			return
		}
		id, ok := s.slots.put(ca)
		if !ok {
			return // receive will wake run
		}
		s.queue.pop()
		ca.sent, ca.inv.ID = true, id
		if !ca.deadline.IsZero() {
			if now.IsZero() {
				now = time.Now()
			}
			ca.inv.TimeoutMS = timeoutMS(ca.deadline.Sub(now))
		}
		req.Invocations = append(req.Invocations, ca.inv)
	}
}

// timeoutMS rounds up, since 0 is no timeout.
func timeoutMS(d time.Duration) uint32 {
	ms := max((d+time.Millisecond-1)/time.Millisecond, 1)
	return uint32(min(ms, 1<<32-1)) //nolint:gosec // bounded
}

// receive finishes calls until the stream ends, and returns why it did.
func (s *stream) receive(k *link) error {
	var res invokestream.Response
	for {
		res.Reset() // see invokestream.Frame
		if err := k.conn.Receive(&res); err != nil {
			return err
		}
		s.mu.Lock()
		for i := range res.Replies {
			if ca := s.slots.get(res.Replies[i].ID); ca != nil {
				ca.reply = res.Replies[i]
				ca.finish(nil)
			}
		}
		if s.queue.len() > 0 {
			s.wake() // slots are free
		}
		s.mu.Unlock()
	}
}

// settle gives the calls that were sent over the stream and not answered their outcome. Calls that have not begun, as the server
// says, go back to the queue where it stops, and end with its error where it
// had no capacity for them; others end with their outcome unknown.
func (s *stream) settle(err error) {
	e, answered := errorOfRPC(err)
	notBegun := false
	switch {
	case s.c.ctx.Err() != nil:
		e = errClosed()
	case errors.Is(err, io.EOF):
		e = errLost(io.ErrUnexpectedEOF)
	case answered && e.Kind == kindStopping:
		notBegun = true
	case answered && (e.Kind == kindStreamFull || e.Kind == kindHostFull):
		// See ActorService.InvokeStream: what was taken has been answered.
	default:
		e = errLost(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = s.cancels[:0]
	for _, ca := range s.slots.reset() {
		if notBegun {
			ca.sent, ca.inv.TimeoutMS = false, 0
			s.queue.push(ca)
		} else {
			its := *e // its caller may change it
			ca.finish(&its)
		}
	}
}

// fail finishes every call that waits.
func (s *stream) fail(err *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queue.len() > 0 {
		ca := s.queue.pop()
		its := *err // callers may change theirs
		its.OutcomeUnknown = false
		if err == errNoStreams {
			ca.finish(err)
		} else {
			ca.finish(&its)
		}
	}
}

// prune drops the calls that nobody waits for, which would otherwise gather
// while no server can be reached.
func (s *stream) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.queue.len() {
		if ca := s.queue.pop(); !ca.abandoned {
			s.queue.push(ca)
		}
	}
}

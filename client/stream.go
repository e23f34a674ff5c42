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

// lane is one stream, again and again: what its calls see when it breaks is in
// the package comment.
//
//	call ── queue ── run (opens, sends) ── slots ── receive ── call
//
// A call is in the queue, in a slot from the time it is taken for sending until
// its reply, or finished. It leaves a slot without a reply only with the stream.
type lane struct {
	c *Client

	// encoding is held while payloads of calls in slots are read; before mu.
	encoding sync.Mutex

	mu     sync.Mutex
	queue  fifo[*call]
	slots  slots
	gone   []uint64 // IDs of sent calls that nobody waits for, and the server is not told of
	idle   bool     // run waits for wake
	closed bool

	wake chan struct{} // of capacity 1: there is something to do for run
}

// call is one attempt. It belongs to the goroutine that made it, but for inv,
// which run reads while the call is queued, and for what is marked.
type call struct {
	inv      invokestream.Invocation
	deadline time.Time // zero: none

	// Guarded by the lane's mu.
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

func newLane(c *Client) *lane {
	return &lane{c: c, slots: slots{limit: c.conf.MaxInFlight}, wake: make(chan struct{}, 1)}
}

// call makes one attempt.
func (l *lane) call(ctx context.Context, inv *invokestream.Invocation) (Reply, *Error) {
	ca := calls.Get().(*call)
	ca.inv = *inv
	ca.deadline, _ = ctx.Deadline()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		ca.release()
		err := errClosed()
		err.OutcomeUnknown = false
		return Reply{}, err
	}
	l.queue.push(ca)
	l.nudge()
	l.mu.Unlock()

	select {
	case <-ca.done:
	case <-ctx.Done():
		if sent, left := l.abandon(ca, ctx.Err()); left {
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

// abandon leaves a call to itself, unless it is finished. A call in a slot keeps
// it: the server is still at it, and told to end it unless the call's deadline
// tells that already. When it returns, nobody reads the payload.
func (l *lane) abandon(ca *call, why error) (sent, left bool) {
	l.mu.Lock()
	if ca.finished {
		l.mu.Unlock()
		return ca.sent, false
	}
	ca.abandoned = true
	sent = ca.sent
	if sent {
		l.slots.forget(ca.slot)
		if !errors.Is(why, context.DeadlineExceeded) || ca.deadline.IsZero() {
			l.gone = append(l.gone, ca.inv.ID)
			l.nudge()
		}
	}
	l.mu.Unlock()
	if sent {
		l.encoding.Lock()
		l.encoding.Unlock() //nolint:staticcheck // who reads the payload has it
	}
	return sent, true
}

// nudge wakes run. Its caller holds mu.
func (l *lane) nudge() {
	if l.idle {
		l.idle = false
		select {
		case l.wake <- struct{}{}:
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
func (l *lane) run() {
	failures := 0
	for l.wait() {
		k, err := l.c.open(failures)
		switch {
		case err == nil:
			failures = 0
			l.serve(k)
		case err == errNoStreams || !err.Retryable:
			l.fail(err)
		default:
			if failures++; failures >= l.c.conf.MaxAttempts {
				l.fail(err)
			}
			_ = l.c.pause(l.c.ctx, l.c.backoff(failures)) // the client's end shows in wait
			l.prune()
		}
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.fail(errClosed())
}

// wait returns when there are calls; false when the client is closed.
func (l *lane) wait() bool {
	l.mu.Lock()
	l.idle = l.queue.len() == 0
	idle := l.idle
	l.mu.Unlock()
	if idle {
		select {
		case <-l.wake:
		case <-l.c.ctx.Done():
			l.mu.Lock()
			l.idle = false // nobody is to be woken any more
			l.mu.Unlock()
		}
	}
	return l.c.ctx.Err() == nil
}

// serve sends calls over a stream and receives their replies until it ends.
func (l *lane) serve(k *link) {
	ended := make(chan error, 1)
	go func() { ended <- l.receive(k) }() // waited for below
	// The end of its context alone ends neither side of a stream.
	unwatch := context.AfterFunc(l.c.ctx, k.close)
	defer unwatch()
	var msg message
	var err error
	for err == nil {
		if l.next(&msg) {
			// An error says only that the stream has ended; receive knows why.
			if k.conn.Send(&msg) != nil {
				err = <-ended
			}
			continue
		}
		select {
		case <-l.wake:
			runtime.Gosched() // callers that are about to run join the message
		case err = <-ended:
		}
	}
	k.close()
	l.over(err)
}

// message is a request that is encoded already.
type message struct {
	invokestream.Request
	data []byte
}

// Append implements [invokestream.Frame].
func (m *message) Append(dst []byte) ([]byte, error) { return append(dst, m.data...), nil }

// next makes the next message; false if there is none, and then run is idle.
func (l *lane) next(m *message) bool {
	l.encoding.Lock()
	defer l.encoding.Unlock()
	l.mu.Lock()
	l.take(&m.Request)
	l.idle = len(m.Invocations) == 0 && len(m.Cancels) == 0
	idle := l.idle
	l.mu.Unlock()
	if idle {
		return false
	}
	m.data, _ = m.Request.Append(m.data[:0]) // never fails
	m.Reset()
	return true
}

// take moves calls from the queue into slots and the next message.
func (l *lane) take(req *invokestream.Request) {
	req.Reset()
	req.Cancels = append(req.Cancels, l.gone...)
	l.gone = l.gone[:0]
	var now time.Time
	for size := 0; l.queue.len() > 0 && len(req.Invocations) < messageCalls; {
		ca := l.queue.peek()
		if ca.abandoned {
			l.queue.pop()
			continue
		}
		if size += ca.inv.Size(); size > messageBytes && len(req.Invocations) > 0 {
			return
		}
		id, ok := l.slots.put(ca)
		if !ok {
			return // receive will nudge
		}
		l.queue.pop()
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
func (l *lane) receive(k *link) error {
	var res invokestream.Response
	for {
		res.Reset() // see invokestream.Frame
		if err := k.conn.Receive(&res); err != nil {
			return err
		}
		l.mu.Lock()
		for i := range res.Replies {
			if ca := l.slots.get(res.Replies[i].ID); ca != nil {
				ca.reply = res.Replies[i]
				ca.finish(nil)
			}
		}
		if l.queue.len() > 0 {
			l.nudge() // there is room
		}
		l.mu.Unlock()
	}
}

// over settles what the stream left. Calls that have not begun, as the server
// says, go back to the queue where it stops, and end with its error where it
// had no room for them; others end with their outcome unknown.
func (l *lane) over(err error) {
	e, answered := errorOfRPC(err)
	notBegun := false
	switch {
	case l.c.ctx.Err() != nil:
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = l.gone[:0]
	for _, ca := range l.slots.reset() {
		if notBegun {
			ca.sent, ca.inv.TimeoutMS = false, 0
			l.queue.push(ca)
		} else {
			own := *e // its caller may change it
			ca.finish(&own)
		}
	}
}

// fail finishes every call that waits.
func (l *lane) fail(err *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.queue.len() > 0 {
		ca := l.queue.pop()
		own := *err // callers may change theirs
		own.OutcomeUnknown = false
		if err == errNoStreams {
			ca.finish(err)
		} else {
			ca.finish(&own)
		}
	}
}

// prune forgets the calls that nobody waits for, which would otherwise gather
// while no server can be reached.
func (l *lane) prune() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range l.queue.len() {
		if ca := l.queue.pop(); !ca.abandoned {
			l.queue.push(ca)
		}
	}
}

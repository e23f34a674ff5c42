// Package caller is the calling end of a stream of invocations: many calls share one connection.
// Calls that are pushed while a message is being sent leave together in the next message. Programs
// use it through package client, hosts through package routing.
//
// The owner of a stream opens the connections, and decides about the calls of one that broke, in a
// loop of [Stream.Wait], [Stream.Serve] and [Stream.Settle].
//
//	Push ── queue ── Serve (sends) ── slots ── Serve (receives) ── Finished
//
// # Invariants
//
//   - A call is in the queue, in a slot from the time it is taken for sending until its
//     reply, or finished. It leaves a slot without a reply only with the stream.
//   - A call is finished once, or abandoned.
//   - Once a call is finished or abandoned, nobody reads its payload.
package caller

import (
	"context"
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
)

// Stream holds the calls of one stream, over one connection after another. Only its owner calls
// Wait, Serve and Settle, from one goroutine; the other methods may be called concurrently.
type Stream struct {
	// encoding is held while payloads of calls in slots are read; before mu.
	encoding sync.Mutex

	mu      sync.Mutex
	queue   fifo[*Call]
	slots   slots
	cancels []uint64 // IDs of sent calls that the server is to end
	idle    bool     // the owner waits for wakeup
	connect bool     // the owner is to connect, whether there are calls or not
	closed  bool

	wakeup chan struct{} // of capacity 1; has a value when the owner has something to do
}

// Conn carries messages. Send and Receive are called by one goroutine each.
type Conn interface {
	// Send sends an [invokestream.Frame].
	Send(msg any) error
	// Receive replaces the content of an [invokestream.Frame], which was reset.
	Receive(msg any) error
}

// New returns a stream with at most inFlight calls that are sent and not answered.
func New(inFlight int) *Stream {
	return &Stream{slots: slots{limit: inFlight}, wakeup: make(chan struct{}, 1)}
}

// Push queues a call, and reports false if the stream is closed.
func (s *Stream) Push(ca *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.queue.push(ca)
	s.wake()
	return true
}

// Abandon ends the wait for a call, and reports whether it was sent and whether it is
// abandoned now; a finished call is not. A sent call keeps its slot, because the server
// still works on the call; if tell is set, the stream asks the server to end the call.
// Once Abandon has returned, nothing reads the payload.
func (s *Stream) Abandon(ca *Call, tell bool) (sent, abandoned bool) {
	s.mu.Lock()
	if ca.finished {
		s.mu.Unlock()
		return ca.sent, false
	}
	ca.abandoned = true
	sent = ca.sent
	if sent {
		s.slots.abandon(ca.slot)
		if tell {
			s.tellCancel(ca)
		}
	}
	s.mu.Unlock()
	if sent {
		s.encoding.Lock()
		s.encoding.Unlock() //nolint:staticcheck // whoever reads the payload holds it
	}
	return sent, true
}

// Cancel abandons a call that was not sent, and reports true. For a call that was sent,
// Cancel asks the server to end the call, and the server's reply gives the outcome.
func (s *Stream) Cancel(ca *Call) (abandoned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ca.finished || ca.abandoned:
		return false
	case ca.sent:
		s.tellCancel(ca)
		return false
	}
	ca.abandoned = true
	return true
}

// tellCancel asks the server to end a call, in the next message. The caller holds mu.
func (s *Stream) tellCancel(ca *Call) {
	s.cancels = append(s.cancels, ca.Inv.ID)
	s.wake()
}

// wake wakes the owner if it waits. The caller holds mu.
func (s *Stream) wake() {
	if s.idle {
		s.idle = false
		select {
		case s.wakeup <- struct{}{}:
		default: // a value that an earlier connection left wakes the owner as well
		}
	}
}

// Connect has Wait return once, even if there are no calls.
func (s *Stream) Connect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connect = true
	s.wake()
}

// Wait waits for calls, or for Connect. It returns false if ctx has ended.
func (s *Stream) Wait(ctx context.Context) bool {
	s.mu.Lock()
	s.idle = s.queue.len() == 0 && !s.connect
	s.connect = false
	idle := s.idle
	s.mu.Unlock()
	if idle {
		select {
		case <-s.wakeup:
		case <-ctx.Done():
			s.mu.Lock()
			s.idle = false // the owner waits no more
			s.mu.Unlock()
		}
	}
	return ctx.Err() == nil
}

// Serve sends calls over a connection, and finishes them with their replies. It returns the error
// that ended receiving; only the end of the connection, which the owner closes, ends Serve. Settle
// then finishes the calls that were sent and not answered.
func (s *Stream) Serve(conn Conn) error {
	ended := make(chan error, 1)
	go func() { ended <- s.receive(conn) }() // waited for below
	var msg message
	for {
		if s.next(&msg) {
			// An error says only that the stream has ended; receive knows why.
			if conn.Send(&msg) != nil {
				return <-ended
			}
			continue
		}
		select {
		case <-s.wakeup:
			runtime.Gosched() // callers that are about to run join the message
		case err := <-ended:
			return err
		}
	}
}

// message is a request that is encoded already.
type message struct {
	invokestream.Request
	data []byte
}

// Append implements [invokestream.Frame].
func (m *message) Append(dst []byte) ([]byte, error) { return append(dst, m.data...), nil }

// next makes the next message. It returns false, and marks the owner as idle, if there is nothing
// to send.
func (s *Stream) next(m *message) bool {
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
func (s *Stream) take(req *invokestream.Request) {
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
		if size += ca.Inv.Size(); size > messageBytes && len(req.Invocations) > 0 {
			return
		}
		id, ok := s.slots.put(ca)
		if !ok {
			return // receive will wake the owner
		}
		s.queue.pop()
		ca.sent, ca.Inv.ID = true, id
		if !ca.Deadline.IsZero() {
			if now.IsZero() {
				now = time.Now()
			}
			ca.Inv.TimeoutMS = timeoutMS(ca.Deadline.Sub(now))
		}
		req.Invocations = append(req.Invocations, ca.Inv)
	}
}

// timeoutMS rounds up, since 0 is no timeout.
func timeoutMS(d time.Duration) uint32 {
	ms := max((d+time.Millisecond-1)/time.Millisecond, 1)
	return uint32(min(ms, 1<<32-1)) //nolint:gosec // bounded
}

// receive finishes calls, and returns the error that ended the stream.
func (s *Stream) receive(conn Conn) error {
	var res invokestream.Response
	var answered []*Call
	for {
		res.Reset() // see invokestream.Frame
		if err := conn.Receive(&res); err != nil {
			return err
		}
		s.mu.Lock()
		for i := range res.Replies {
			if ca := s.slots.get(res.Replies[i].ID); ca != nil {
				ca.Reply, ca.finished = res.Replies[i], true
				answered = append(answered, ca)
			}
		}
		if s.queue.len() > 0 {
			s.wake() // slots are free
		}
		s.mu.Unlock()
		answered = finish(answered)
	}
}

// finish calls the waiters of calls, and returns the list, emptied.
func finish(calls []*Call) []*Call {
	for _, ca := range calls {
		ca.Waiter.Finished(ca)
	}
	clear(calls)
	return calls[:0]
}

// Settle finishes the calls that were sent over the last connection and not answered,
// each with the error that outcome returns for it. A call whose outcome is nil returns to
// the queue as not begun.
func (s *Stream) Settle(outcome func(ca *Call) error) {
	s.mu.Lock()
	s.cancels = s.cancels[:0]
	var finished []*Call
	for _, ca := range s.slots.reset() {
		if ca.Err = outcome(ca); ca.Err == nil {
			ca.sent, ca.Inv.TimeoutMS = false, 0
			s.queue.push(ca)
			continue
		}
		ca.finished = true
		finished = append(finished, ca)
	}
	s.mu.Unlock()
	finish(finished)
}

// Fail finishes every call in the queue with the error that outcome returns for it. These calls
// were not sent.
func (s *Stream) Fail(outcome func(ca *Call) error) {
	var finished []*Call
	s.mu.Lock()
	for s.queue.len() > 0 {
		ca := s.queue.pop()
		if ca.abandoned {
			continue
		}
		ca.Err, ca.finished = outcome(ca), true
		finished = append(finished, ca)
	}
	s.mu.Unlock()
	finish(finished)
}

// Close refuses further calls. Fail finishes the calls in the queue.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Prune drops abandoned calls from the queue, which would otherwise grow while no server can be
// reached.
func (s *Stream) Prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.queue.len() {
		if ca := s.queue.pop(); !ca.abandoned {
			s.queue.push(ca)
		}
	}
}

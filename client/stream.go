package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/api/invokestream/caller"
)

// maxStreamed is the largest payload that goes over a stream, where it would
// hold up others: larger ones are worth a request of their own.
const maxStreamed = 256 << 10

// stream is one InvokeStream, which is opened anew whenever it has ended and there are
// calls for it. What its calls see when it breaks is in the package comment.
type stream struct {
	*caller.Stream
	c *Client
	s *target
}

// call is one attempt. It belongs to the goroutine that made it, but for what the
// stream has of it.
type call struct {
	caller.Call
	done chan struct{} // of capacity 1
}

// Finished implements [caller.Waiter].
func (ca *call) Finished(*caller.Call) { ca.done <- struct{}{} }

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

// release gives a call back that nothing refers to.
func (ca *call) release() {
	*ca = call{done: ca.done}
	calls.Put(ca)
}

func newStream(s *target) *stream { return &stream{caller.New(s.c.conf.MaxInFlight), s.c, s} }

// call makes one attempt.
func (s *stream) call(ctx context.Context, inv *invokestream.Invocation) (Reply, *Error) {
	ca := calls.Get().(*call)
	ca.Inv, ca.Waiter = *inv, ca
	ca.Deadline, _ = ctx.Deadline()
	if !s.Push(&ca.Call) {
		ca.release()
		err := errClosed()
		err.OutcomeUnknown = false
		return Reply{}, err
	}
	select {
	case <-ca.done:
	case <-ctx.Done():
		// Its deadline the server knows by itself.
		tell := !errors.Is(ctx.Err(), context.DeadlineExceeded) || ca.Deadline.IsZero()
		if sent, abandoned := s.Abandon(&ca.Call, tell); abandoned {
			return Reply{}, errContext(ctx.Err(), sent)
		}
		<-ca.done
	}
	r, err := ca.Reply, ca.Err
	ca.release()
	switch {
	case err != nil:
		return Reply{}, err.(*Error) //nolint:errorlint,forcetypeassert // of settle or fail
	case r.Error != nil:
		return Reply{Host: r.Host}, errorOf(connectCode(r.Error.GetCode()), r.Error.GetMessage(), r.Error.GetDetail())
	}
	return Reply{Payload: r.Payload.Data, ContentType: r.Payload.ContentType, Version: r.Version, Fuel: r.Fuel, Host: r.Host}, nil
}

// run owns the stream until the client is closed.
func (s *stream) run() {
	failures := 0
	for s.Wait(s.c.ctx) {
		k, err := s.s.open(failures)
		switch {
		case err == nil:
			failures = 0
			s.serve(k)
		case err == errNoStreams || !err.Retryable:
			s.fail(err)
		default:
			// Where there are others, the calls go on with them.
			if failures++; failures >= s.c.conf.MaxAttempts || !s.s.alone() {
				s.fail(err)
			}
			_ = s.c.pause(s.c.ctx, s.c.backoff(failures)) // the client's end shows in Wait
			s.Prune()
		}
	}
	s.Close()
	s.fail(errClosed())
}

// serve sends calls over a stream and receives their replies until it ends.
func (s *stream) serve(k *link) {
	// The end of its context alone ends neither side of a stream.
	unwatch := context.AfterFunc(s.c.ctx, k.close)
	defer unwatch()
	err := s.Serve(k.conn)
	k.close()
	s.settle(err)
}

// settle gives the calls that were sent over the stream and not answered their outcome. Calls that have not begun, as the server
// says, go back to the queue where it stops, and end with its error where it
// had no capacity for them; others end with their outcome unknown.
func (s *stream) settle(err error) {
	e, answered := errorOfRPC(err)
	switch {
	case s.c.ctx.Err() != nil:
		e = errClosed()
	case errors.Is(err, io.EOF):
		e = errLost(io.ErrUnexpectedEOF)
	case answered && e.Kind == kindStopping:
		s.Settle(func(*caller.Call) error { return nil })
		return
	case answered && (e.Kind == kindStreamFull || e.Kind == kindHostFull):
		// See ActorService.InvokeStream: what was taken has been answered.
	default:
		e = errLost(err)
	}
	s.Settle(func(*caller.Call) error {
		its := *e // its caller may change it
		return &its
	})
}

// fail finishes every call that waits.
func (s *stream) fail(err *Error) {
	s.Fail(func(*caller.Call) error {
		if err == errNoStreams {
			return err
		}
		its := *err // callers may change theirs
		its.OutcomeUnknown = false
		return &its
	})
}

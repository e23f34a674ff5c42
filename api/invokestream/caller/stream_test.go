package caller

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/api/invokestream"
)

// idleStream is a stream that no goroutine owns, with so many calls in its queue.
func idleStream(calls, payload int) *Stream {
	s := New(2048)
	for range calls {
		ca := &Call{}
		ca.Inv.Payload.Data = make([]byte, payload)
		s.Push(ca)
	}
	return s
}

// TestMessagesAreBounded: a message has as many calls as one may, and as many
// bytes, unless a single call has more.
func TestMessagesAreBounded(t *testing.T) {
	for _, tt := range []struct{ calls, payload, want int }{
		{3, 10, 3},
		{messageCalls + 5, 0, messageCalls},
		{3, messageBytes / 2, 1},
		{5, messageBytes / 3, 2},
		{2, 2 * messageBytes, 1},
	} {
		s := idleStream(tt.calls, tt.payload)
		var req invokestream.Request
		s.take(&req)
		if len(req.Invocations) != tt.want || s.queue.len() != tt.calls-tt.want {
			t.Errorf("%d calls of %d bytes: %d in the message, want %d; %d wait", tt.calls, tt.payload, len(req.Invocations), tt.want, s.queue.len())
		}
	}
}

// TestAbandonedCallsAreNotSent, nor kept while there is no server.
func TestAbandonedCallsAreNotSent(t *testing.T) {
	s := idleStream(4, 0)
	for i := range 3 {
		s.queue.items[i].abandoned = true
	}
	var req invokestream.Request
	s.take(&req)
	if len(req.Invocations) != 1 {
		t.Errorf("%d calls were sent, of one that somebody waits for", len(req.Invocations))
	}
	s = idleStream(4, 0)
	s.queue.items[0].abandoned, s.queue.items[2].abandoned = true, true
	if s.Prune(); s.queue.len() != 2 {
		t.Errorf("%d calls wait, of two", s.queue.len())
	}
}

// TestAbandonedPayloadsAreTheCallers: once Abandon has returned, nobody reads the
// payload of a call that was taken for sending. Without the wait for it, the race
// detector finds the caller's write beside the read.
func TestAbandonedPayloadsAreTheCallers(t *testing.T) {
	s := idleStream(1, 64<<10)
	ca := s.queue.items[0]
	var msg message
	var sending sync.WaitGroup
	sending.Go(func() { s.next(&msg) })
	for sent := false; !sent; runtime.Gosched() {
		s.mu.Lock()
		sent = ca.sent
		s.mu.Unlock()
	}
	if sent, abandoned := s.Abandon(ca, true); !sent || !abandoned {
		t.Errorf("sent %v, abandoned %v", sent, abandoned)
	}
	for i := range ca.Inv.Payload.Data {
		ca.Inv.Payload.Data[i] = 0xff
	}
	sending.Wait()
	var req invokestream.Request
	if err := req.Decode(msg.data); err != nil || len(req.Invocations) != 1 {
		t.Fatalf("%d invocations were sent, %v", len(req.Invocations), err)
	}
	if bytes.IndexByte(req.Invocations[0].Payload.Data, 0xff) >= 0 {
		t.Error("what the caller wrote after its call had returned was sent")
	}
}

// TestTimeoutsAreRoundedUp: 0 is no timeout, and less than what is left would end
// a turn too soon.
func TestTimeoutsAreRoundedUp(t *testing.T) {
	for left, want := range map[time.Duration]uint32{
		-time.Second: 1, 0: 1, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2, time.Second: 1000, 1 << 62: 1<<32 - 1,
	} {
		if got := timeoutMS(left); got != want {
			t.Errorf("%v: %d ms, want %d", left, got, want)
		}
	}
}

// TestCancelsAreSent of calls that were sent, if the server is to be told.
func TestCancelsAreSent(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*Stream, *Call)
		want int
	}{
		"abandoned, and told":   {func(s *Stream, ca *Call) { s.Abandon(ca, true) }, 1},
		"abandoned in silence":  {func(s *Stream, ca *Call) { s.Abandon(ca, false) }, 0},
		"cancelled and awaited": {func(s *Stream, ca *Call) { s.Cancel(ca) }, 1},
	} {
		s := idleStream(1, 0)
		ca := s.queue.items[0]
		ca.Waiter = ignored{}
		var req invokestream.Request
		s.take(&req)
		tt.end(s, ca)
		if len(s.cancels) != tt.want {
			t.Errorf("%s: the server is told of %d calls, want %d", name, len(s.cancels), tt.want)
		}
		s.Settle(func(*Call) error { return errors.New("broken") })
		if s.take(&req); len(req.Cancels) != 0 {
			t.Errorf("%s: another stream is told of %v", name, req.Cancels)
		}
	}
	s := idleStream(1, 0)
	ca := s.queue.items[0]
	if !s.Cancel(ca) || len(s.cancels) != 0 {
		t.Error("a call that was not sent is not dropped")
	}
	var req invokestream.Request
	if s.take(&req); len(req.Invocations) != 0 {
		t.Error("a call was sent that was cancelled before")
	}
}

type ignored struct{}

func (ignored) Finished(*Call) {}

// counted counts how often it is told.
type counted struct{ n int }

func (c *counted) Finished(*Call) { c.n++ }

// TestSettled: calls whose outcome is nil have not begun, and wait again as they were;
// the others are finished, once.
func TestSettled(t *testing.T) {
	s := idleStream(2, 0)
	again, lost := s.queue.items[0], s.queue.items[1]
	var told counted
	again.Waiter, lost.Waiter = &told, &told
	again.Deadline = time.Now().Add(time.Hour)
	var req invokestream.Request
	s.take(&req)
	broken := errors.New("broken")
	s.Settle(func(ca *Call) error {
		if ca == again {
			return nil
		}
		return broken
	})
	if s.queue.len() != 1 || again.sent || again.finished || again.Inv.TimeoutMS != 0 {
		t.Errorf("%d calls wait; the one that has not begun is %+v", s.queue.len(), again)
	}
	if !lost.finished || !errors.Is(lost.Err, broken) || told.n != 1 {
		t.Errorf("told %d times; the other ended with %v", told.n, lost.Err)
	}
	s.Fail(func(*Call) error { return broken })
	if told.n != 2 || s.queue.len() != 0 {
		t.Errorf("told %d times, and %d calls wait", told.n, s.queue.len())
	}
}

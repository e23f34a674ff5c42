package client

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

// idleStream is a stream that no goroutine runs, with so many calls in its queue.
func idleStream(tb testing.TB, calls, payload int) *stream {
	tb.Helper()
	ctx, end := context.WithCancel(tb.Context())
	tb.Cleanup(end)
	s := newStream(&Client{conf: Config{}.WithDefaults(), ctx: ctx, end: end})
	for range calls {
		ca := &call{done: make(chan struct{}, 1)}
		ca.inv.Payload.Data = make([]byte, payload)
		s.queue.push(ca)
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
		s := idleStream(t, tt.calls, tt.payload)
		var req invokestream.Request
		s.take(&req)
		if len(req.Invocations) != tt.want || s.queue.len() != tt.calls-tt.want {
			t.Errorf("%d calls of %d bytes: %d in the message, want %d; %d wait", tt.calls, tt.payload, len(req.Invocations), tt.want, s.queue.len())
		}
	}
}

// TestAbandonedCallsAreNotSent, nor kept while there is no server.
func TestAbandonedCallsAreNotSent(t *testing.T) {
	s := idleStream(t, 4, 0)
	for i := range 3 {
		s.queue.items[i].abandoned = true
	}
	var req invokestream.Request
	s.take(&req)
	if len(req.Invocations) != 1 {
		t.Errorf("%d calls were sent, of one that somebody waits for", len(req.Invocations))
	}
	s = idleStream(t, 4, 0)
	s.queue.items[0].abandoned, s.queue.items[2].abandoned = true, true
	if s.prune(); s.queue.len() != 2 {
		t.Errorf("%d calls wait, of two", s.queue.len())
	}
}

// TestAbandonedPayloadsAreTheCallers: once abandon has returned, nobody reads the
// payload of a call that was taken for sending. Without the wait for it, the race
// detector finds the caller's write beside the read.
func TestAbandonedPayloadsAreTheCallers(t *testing.T) {
	s := idleStream(t, 1, 64<<10)
	ca := s.queue.items[0]
	var msg message
	var sending sync.WaitGroup
	sending.Go(func() { s.next(&msg) })
	for sent := false; !sent; runtime.Gosched() {
		s.mu.Lock()
		sent = ca.sent
		s.mu.Unlock()
	}
	if sent, abandoned := s.abandon(ca, context.Canceled); !sent || !abandoned {
		t.Errorf("sent %v, abandoned %v", sent, abandoned)
	}
	for i := range ca.inv.Payload.Data {
		ca.inv.Payload.Data[i] = 0xff
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

// TestCancelsAreSent of calls that were sent, unless the server knows by itself.
func TestCancelsAreSent(t *testing.T) {
	for name, tt := range map[string]struct {
		deadline time.Time
		why      error
		want     int
	}{
		"cancelled":                   {time.Time{}, context.Canceled, 1},
		"cancelled before a deadline": {time.Now(), context.Canceled, 1},
		"deadline":                    {time.Now(), context.DeadlineExceeded, 0},
		"a deadline nobody told":      {time.Time{}, context.DeadlineExceeded, 1},
	} {
		s := idleStream(t, 1, 0)
		ca := s.queue.items[0]
		ca.deadline = tt.deadline
		var req invokestream.Request
		s.take(&req)
		if sent, abandoned := s.abandon(ca, tt.why); !sent || !abandoned {
			t.Errorf("%s: sent %v, abandoned %v", name, sent, abandoned)
		}
		if len(s.cancels) != tt.want {
			t.Errorf("%s: the server is told of %d calls, want %d", name, len(s.cancels), tt.want)
		}
		s.settle(errors.New("broken"))
		if s.take(&req); len(req.Cancels) != 0 {
			t.Errorf("%s: another stream is told of %v", name, req.Cancels)
		}
	}
}

// TestEndedStreams: what becomes of calls that were sent and not answered. Each
// caller gets an error of its own, to change.
func TestEndedStreams(t *testing.T) {
	ended := func(kind string) error {
		err := connect.NewError(connect.CodeUnavailable, errors.New("ended"))
		detail, detailErr := connect.NewErrorDetail(&greenroomv1.ErrorDetail{Kind: kind, Retryable: true})
		if detailErr != nil {
			t.Fatal(detailErr)
		}
		err.AddDetail(detail)
		return err
	}
	for name, tt := range map[string]struct {
		err               error
		requeued, unknown bool
	}{
		"stopping":      {ended(kindStopping), true, false},
		"no room":       {ended(kindStreamFull), false, false},
		"no memory":     {ended(kindHostFull), false, false},
		"another error": {ended("store_unavailable"), false, true},
		"broken":        {errors.New("broken"), false, true},
	} {
		s := idleStream(t, 2, 0)
		both := []*call{s.queue.items[0], s.queue.items[1]}
		both[0].deadline = time.Now().Add(time.Hour)
		var req invokestream.Request
		s.take(&req)
		s.settle(tt.err)
		if requeued := s.queue.len() == 2; requeued != tt.requeued {
			t.Errorf("%s: %d calls wait", name, s.queue.len())
		}
		for i, ca := range both {
			switch {
			case tt.requeued && (ca.sent || ca.finished || ca.inv.TimeoutMS != 0):
				t.Errorf("%s: a call that has not begun is %+v", name, ca)
			case !tt.requeued && (!ca.finished || ca.err == nil || ca.err.OutcomeUnknown != tt.unknown || ca.err.Retryable == tt.unknown):
				t.Errorf("%s: a call ended with %+v", name, ca.err)
			case !tt.requeued && i == 1 && ca.err == both[0].err:
				t.Errorf("%s: two callers have one error", name)
			}
		}
	}
	s := idleStream(t, 2, 0)
	both := []*call{s.queue.items[0], s.queue.items[1]}
	s.fail(errClosed())
	for _, ca := range both {
		if ca.err == nil || ca.err.OutcomeUnknown {
			t.Errorf("a call that was never sent ended with %+v", ca.err)
		}
	}
	if both[0].err == both[1].err {
		t.Error("two callers have one error")
	}
}

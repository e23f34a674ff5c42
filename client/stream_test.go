package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
)

// stillLane is a lane that no goroutine runs, with so many calls in its queue.
func stillLane(tb testing.TB, calls, payload int) *lane {
	tb.Helper()
	ctx, end := context.WithCancel(tb.Context())
	tb.Cleanup(end)
	l := newLane(&Client{conf: Config{}.WithDefaults(), ctx: ctx, end: end})
	for range calls {
		ca := &call{done: make(chan struct{}, 1)}
		ca.inv.Payload.Data = make([]byte, payload)
		l.queue.push(ca)
	}
	return l
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
		l := stillLane(t, tt.calls, tt.payload)
		var req invokestream.Request
		l.take(&req)
		if len(req.Invocations) != tt.want || l.queue.len() != tt.calls-tt.want {
			t.Errorf("%d calls of %d bytes: %d in the message, want %d; %d wait", tt.calls, tt.payload, len(req.Invocations), tt.want, l.queue.len())
		}
	}
}

// TestAbandonedCallsAreNotSent, nor kept while there is no server.
func TestAbandonedCallsAreNotSent(t *testing.T) {
	l := stillLane(t, 4, 0)
	for i := range 3 {
		l.queue.items[i].abandoned = true
	}
	var req invokestream.Request
	l.take(&req)
	if len(req.Invocations) != 1 {
		t.Errorf("%d calls were sent, of one that somebody waits for", len(req.Invocations))
	}
	l = stillLane(t, 4, 0)
	l.queue.items[0].abandoned, l.queue.items[2].abandoned = true, true
	if l.prune(); l.queue.len() != 2 {
		t.Errorf("%d calls wait, of two", l.queue.len())
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
		l := stillLane(t, 1, 0)
		ca := l.queue.items[0]
		ca.deadline = tt.deadline
		var req invokestream.Request
		l.take(&req)
		if sent, left := l.abandon(ca, tt.why); !sent || !left {
			t.Errorf("%s: sent %v, left %v", name, sent, left)
		}
		if len(l.gone) != tt.want {
			t.Errorf("%s: the server is told of %d calls, want %d", name, len(l.gone), tt.want)
		}
		l.over(errors.New("broken"))
		if l.take(&req); len(req.Cancels) != 0 {
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
		err            error
		again, unknown bool
	}{
		"stopping":      {ended(kindStopping), true, false},
		"no room":       {ended(kindStreamFull), false, false},
		"no memory":     {ended(kindHostFull), false, false},
		"another error": {ended("store_unavailable"), false, true},
		"broken":        {errors.New("broken"), false, true},
	} {
		l := stillLane(t, 2, 0)
		both := []*call{l.queue.items[0], l.queue.items[1]}
		both[0].deadline = time.Now().Add(time.Hour)
		var req invokestream.Request
		l.take(&req)
		l.over(tt.err)
		if again := l.queue.len() == 2; again != tt.again {
			t.Errorf("%s: %d calls wait", name, l.queue.len())
		}
		for i, ca := range both {
			switch {
			case tt.again && (ca.sent || ca.finished || ca.inv.TimeoutMS != 0):
				t.Errorf("%s: a call that has not begun is %+v", name, ca)
			case !tt.again && (!ca.finished || ca.err == nil || ca.err.OutcomeUnknown != tt.unknown || ca.err.Retryable == tt.unknown):
				t.Errorf("%s: a call ended with %+v", name, ca.err)
			case !tt.again && i == 1 && ca.err == both[0].err:
				t.Errorf("%s: two callers have one error", name)
			}
		}
	}
	l := stillLane(t, 2, 0)
	both := []*call{l.queue.items[0], l.queue.items[1]}
	l.fail(errClosed())
	for _, ca := range both {
		if ca.err == nil || ca.err.OutcomeUnknown {
			t.Errorf("a call that was never sent ended with %+v", ca.err)
		}
	}
	if both[0].err == both[1].err {
		t.Error("two callers have one error")
	}
}

package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
)

// endedConn takes a message and then ends with an error.
type endedConn struct {
	sent chan struct{}
	err  error
}

func (c *endedConn) Send(any) error {
	close(c.sent)
	return nil
}

func (c *endedConn) Receive(any) error {
	<-c.sent
	return c.err
}

// sentCalls are calls of a stream that ended with err before it answered them.
func sentCalls(t *testing.T, err error) (*stream, []*call) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	s := newStream(&target{c: &Client{conf: Config{}.WithDefaults(), ctx: ctx, end: end}})
	both := []*call{{done: make(chan struct{}, 1)}, {done: make(chan struct{}, 1)}}
	for _, ca := range both {
		ca.Waiter = ca
		s.Push(&ca.Call)
	}
	both[0].Deadline = time.Now().Add(time.Hour)
	s.settle(s.Serve(&endedConn{make(chan struct{}), err}))
	return s, both
}

// failed is how a call ended without an answer.
func (ca *call) failed() *Error {
	var err *Error
	_ = errors.As(ca.Err, &err)
	return err
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
		s, both := sentCalls(t, tt.err)
		for i, ca := range both {
			if tt.requeued {
				if len(ca.done) != 0 {
					t.Errorf("%s: a call that has not begun ended with %v", name, ca.Err)
				}
				continue
			}
			err := ca.failed()
			switch {
			case len(ca.done) != 1 || err == nil || err.OutcomeUnknown != tt.unknown || err.Retryable == tt.unknown:
				t.Errorf("%s: a call ended with %+v", name, ca.Err)
			case i == 1 && err == both[0].failed():
				t.Errorf("%s: two callers have one error", name)
			}
		}
		if !tt.requeued {
			continue
		}
		s.fail(errClosed())
		for _, ca := range both {
			if err := ca.failed(); len(ca.done) != 1 || err == nil || err.OutcomeUnknown {
				t.Errorf("%s: a call that was never sent, or not begun, ended with %+v", name, ca.Err)
			}
		}
		if both[0].failed() == both[1].failed() {
			t.Errorf("%s: two callers have one error", name)
		}
	}
}

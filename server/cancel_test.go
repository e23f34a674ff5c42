package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/host"
)

// cancel sends a message that cancels only.
func (st testStream) cancel(ids ...uint64) {
	st.tb.Helper()
	if err := st.Send(&greenroomv1.InvokeStreamRequest{Cancels: ids}); err != nil {
		st.tb.Fatal(err)
	}
}

// TestInvokeStreamCancel: an invocation that its client cancels is ended in the
// host, whether that has answered Begin or not, gets its one reply, and takes
// nothing from the others.
func TestInvokeStreamCancel(t *testing.T) {
	for name, elsewhere := range map[string]bool{"in Begin": false, "after Begin": true} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			f.host.elsewhere = elsewhere
			entered, release, ended := f.host.blocks()
			st := open(t.Context(), t, f.url)
			st.send(invocation(1, "a"), invocation(2, "b"), invocation(3, "c"))
			for range 3 {
				<-entered
			}
			st.cancel(2, 2, 99)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the host's context ended with %v", err)
			}
			wantReplyError(t, st.receive(1)[2], connect.CodeCanceled, actor.ErrCanceled.Kind())
			st.cancel(2)
			close(release)
			for id, r := range st.receive(2) {
				if r.GetError() != nil || id == 2 {
					t.Errorf("the others got %v", r)
				}
			}
			// What came in the same message is cancelled as well.
			f.host.blocks()
			if err := st.Send(&greenroomv1.InvokeStreamRequest{
				Invocations: []*greenroomv1.StreamInvocation{invocation(4, "a")}, Cancels: []uint64{4},
			}); err != nil {
				t.Fatal(err)
			}
			wantReplyError(t, st.receive(1)[4], connect.CodeCanceled, actor.ErrCanceled.Kind())
		})
	}
}

// TestInvokeStreamSharedID: an ID that is in flight twice is cancelled twice, and
// answered twice.
func TestInvokeStreamSharedID(t *testing.T) {
	f := start(t, nil)
	entered, _, _ := f.host.blocks()
	st := open(t.Context(), t, f.url)
	st.send(invocation(1, "a"), invocation(1, "b"))
	<-entered
	<-entered
	st.cancel(1)
	wantReplyError(t, st.receive(2)[1], connect.CodeCanceled, actor.ErrCanceled.Kind())
}

// quickHost answers a moment after Begin. As package host it has no use for a
// call's context, but for its end.
type quickHost struct{ *fakeHost }

func (h *quickHost) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	go func() {
		var err error
		if ctx.Err() != nil {
			err = actor.ErrCanceled
		}
		to.Answer(actor.Reply{Payload: inv.Payload}, err)
	}()
	return quickCall{}
}

// quickCall takes its time to be given up, for an answer to come.
type quickCall struct{}

func (quickCall) GiveUp() {
	for range 100 {
		runtime.Gosched()
	}
}

// TestRepliesAreTheirOwn: every reply is that to its own invocation, whatever is
// cancelled meanwhile.
func TestRepliesAreTheirOwn(t *testing.T) {
	h := &quickHost{&fakeHost{}}
	f := start(t, func(c *Config) { c.Host = h })
	st := open(t.Context(), t, f.url)
	const messages, each = 200, 20
	go func() {
		for m := range messages {
			req := &greenroomv1.InvokeStreamRequest{}
			for n := range each {
				i := invocation(uint64(m*each+n), fmt.Sprint("a", n))
				if n%4 == 0 {
					i.TimeoutMs = 60_000
				}
				req.Invocations = append(req.Invocations, i)
			}
			req.Cancels = []uint64{uint64(m * each), uint64(m*each) - 1, uint64(m*each) + 2}
			if err := st.Send(req); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for id, r := range st.receive(messages * each) {
		canceled := r.GetError().GetCode() == uint32(connect.CodeCanceled)
		if canceled && id%each != 0 && id%each != each-1 && id%each != 2 || !canceled && (r.GetError() != nil || string(r.GetPayload()) != fmt.Sprint(id)) {
			t.Errorf("invocation %d got %v", id, r)
		}
	}
}

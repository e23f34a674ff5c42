package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/server/failure"
)

// streamOverhead is what an invocation in flight counts beside its payload, in bytes.
const streamOverhead = 512

// testStream is a client of one InvokeStream, of the generated code.
type testStream struct {
	*connect.BidiStreamForClient[greenroomv1.InvokeStreamRequest, greenroomv1.InvokeStreamResponse]
	tb testing.TB
}

// open opens a stream and waits for the server's first message.
func open(ctx context.Context, tb testing.TB, url string, opts ...connect.ClientOption) testStream {
	tb.Helper()
	return openBy(ctx, tb, client(tb, true), url, opts...)
}

// openBy is open for a client of the test's own.
func openBy(ctx context.Context, tb testing.TB, c *http.Client, url string, opts ...connect.ClientOption) testStream {
	tb.Helper()
	st := testStream{greenroomv1connect.NewActorServiceClient(c, url, opts...).InvokeStream(ctx), tb}
	tb.Cleanup(func() { _ = st.CloseRequest(); _ = st.CloseResponse() })
	if err := st.Send(nil); err != nil {
		tb.Fatal(err)
	}
	first, err := st.Receive()
	if err != nil || len(first.GetReplies()) != 0 {
		tb.Fatalf("the first message is %v, %v", first, err)
	}
	return st
}

func invocation(id uint64, actorID string) *greenroomv1.StreamInvocation {
	return &greenroomv1.StreamInvocation{Id: id, Actor: &greenroomv1.ActorKey{Type: "Counter", Id: actorID}, Method: "Add", Payload: []byte(fmt.Sprint(id))}
}

func (st testStream) send(invs ...*greenroomv1.StreamInvocation) {
	st.tb.Helper()
	if err := st.Send(&greenroomv1.InvokeStreamRequest{Invocations: invs}); err != nil {
		st.tb.Fatal(err)
	}
}

// receive returns n replies by their IDs.
func (st testStream) receive(n int) map[uint64]*greenroomv1.StreamReply {
	st.tb.Helper()
	got := make(map[uint64]*greenroomv1.StreamReply)
	for seen := 0; seen < n; {
		res, err := st.Receive()
		if err != nil {
			st.tb.Fatalf("after %d of %d replies: %v", seen, n, err)
		}
		for _, r := range res.GetReplies() {
			got[r.GetId()] = r
			seen++
		}
	}
	return got
}

// replies hands out what the stream receives from now on, until it ends.
func (st testStream) replies() <-chan *greenroomv1.StreamReply {
	all := make(chan *greenroomv1.StreamReply)
	go func() {
		defer close(all)
		for {
			res, err := st.Receive()
			if err != nil {
				return
			}
			for _, r := range res.GetReplies() {
				all <- r
			}
		}
	}()
	return all
}

func wantReplyError(tb testing.TB, r *greenroomv1.StreamReply, code connect.Code, kind actor.Kind) {
	tb.Helper()
	if e := r.GetError(); e.GetCode() != uint32(code) || e.GetDetail().GetKind() != string(kind) || e.GetMessage() == "" {
		tb.Errorf("got %v; want %v, kind %s", r, code, kind)
	}
}

// TestInvokeStream in every protocol that has streams of both directions.
func TestInvokeStream(t *testing.T) {
	f := start(t, nil)
	for _, p := range protocols() {
		if !p.http2 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			st := open(t.Context(), t, f.url, p.opts...)
			full := invocation(3, "a||b/c d🎭")
			full.Actor.App, full.ContentType, full.Consistency = "shop", "x/y", greenroomv1.Consistency_CONSISTENCY_STRONG
			full.TimeoutMs, full.IdempotencyKey = 60_000, "key 1"
			f.host.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
				if inv.Key.App == "shop" {
					deadline, ok := ctx.Deadline()
					if left := time.Until(deadline); !ok || left > time.Minute || inv.Key.ID != "a||b/c d🎭" || inv.IdempotencyKey != "key 1" ||
						inv.Consistency != actor.ConsistencyStrong || inv.ReadOnly || !strings.Contains(inv.ID, ".") {
						t.Errorf("the host got %+v, deadline in %v", inv, left)
					}
				}
				if inv.Key.ID == "bad" {
					return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: &actor.GuestError{Status: 9, Code: "no", Message: "not today"}}
				}
				return actor.Reply{Payload: inv.Payload, Version: 7}, nil
			})
			st.send(invocation(1, "a"), invocation(2, "bad"))
			st.send()
			st.send(full)
			got := st.receive(3)
			if r := got[1]; string(r.GetPayload()) != "1" || r.GetVersion() != 7 || r.GetError() != nil {
				t.Errorf("got %v", r)
			}
			wantReplyError(t, got[2], connect.CodeFailedPrecondition, failure.KindGuestError)
			if d := got[2].GetError().GetDetail(); d.GetActorId() != "bad" || d.GetMethod() != "Add" || d.GetGuest().GetCode() != "no" {
				t.Errorf("detail %v", d)
			}
			if r := got[3]; string(r.GetPayload()) != "3" || r.GetContentType() != "x/y" {
				t.Errorf("got %v", r)
			}
			if err := st.CloseRequest(); err != nil {
				t.Error(err)
			}
			if _, err := st.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
}

func TestInvokeStreamNeedsHTTP2(t *testing.T) {
	f := start(t, nil)
	a := do(t, client(t, false), "POST", f.url+greenroomv1connect.ActorServiceInvokeStreamProcedure, "", "Content-Type", "application/connect+proto")
	if a.StatusCode != http.StatusHTTPVersionNotSupported {
		t.Errorf("got %s", a.Status)
	}
}

// TestInvokeStreamValidates: every invocation on its own, as the schema says.
func TestInvokeStreamValidates(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxPayloadBytes = 100 })
	st := open(t.Context(), t, f.url)
	breaks := []func(*greenroomv1.StreamInvocation){
		func(i *greenroomv1.StreamInvocation) { i.Actor = nil },
		func(i *greenroomv1.StreamInvocation) { i.Actor.App = "a b" },
		func(i *greenroomv1.StreamInvocation) { i.Actor.Type = "" },
		func(i *greenroomv1.StreamInvocation) { i.Actor.Id = "" },
		func(i *greenroomv1.StreamInvocation) { i.Actor.Id = "a\nb" },
		func(i *greenroomv1.StreamInvocation) { i.Method = "" },
		func(i *greenroomv1.StreamInvocation) { i.Method = "a/b" },
		func(i *greenroomv1.StreamInvocation) { i.ContentType = strings.Repeat("x", 256) },
		func(i *greenroomv1.StreamInvocation) { i.IdempotencyKey = strings.Repeat("x", 256) },
		func(i *greenroomv1.StreamInvocation) { i.IdempotencyKey = "a\tb" },
		func(i *greenroomv1.StreamInvocation) { i.Consistency = 9 },
		func(i *greenroomv1.StreamInvocation) { i.Payload = make([]byte, 101) },
	}
	var invs []*greenroomv1.StreamInvocation
	for n, change := range breaks {
		bad := invocation(uint64(2*n), "a")
		change(bad)
		invs = append(invs, bad, invocation(uint64(2*n+1), "a"))
	}
	st.send(invs...)
	got := st.receive(len(invs))
	for n := range breaks {
		kind := failure.KindInvalidArgument
		if n == len(breaks)-1 {
			kind = actor.ErrPayloadTooLarge.Kind()
		}
		wantReplyError(t, got[uint64(2*n)], connect.CodeInvalidArgument, kind)
		if r := got[uint64(2*n+1)]; r.GetError() != nil {
			t.Errorf("a neighbour of a bad invocation got %v", r)
		}
	}
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	if len(f.host.calls) != len(breaks) {
		t.Errorf("the host got %d calls, %d of them good", len(f.host.calls), len(breaks))
	}
}

// TestInvokeStreamIsBounded: what is too much is refused at once, and may come
// again when there is room.
func TestInvokeStreamIsBounded(t *testing.T) {
	f := start(t, func(c *Config) { c.Bounds.StreamInvocations, c.Bounds.StreamBytes = 3, 10*streamOverhead })
	entered, release, _ := f.host.blocks()
	st := open(t.Context(), t, f.url)
	st.send(invocation(1, "a"), invocation(2, "b"), invocation(3, "c"), invocation(4, "d"), invocation(5, "e"))
	for id, r := range st.receive(2) {
		if id < 4 {
			t.Errorf("%d was refused, and it was not the last", id)
		}
		wantReplyError(t, r, connect.CodeResourceExhausted, failure.KindStreamFull)
		if !r.GetError().GetDetail().GetRetryable() {
			t.Error("a refusal is not retryable")
		}
	}
	for range 3 {
		<-entered
	}
	close(release)
	st.receive(3)
	// A reply that was received was written: its room is free, or will be as
	// soon as the writer says so.
	f.host.does(nil)
	for ok := false; !ok; {
		st.send(invocation(6, "a"))
		ok = st.receive(1)[6].GetError() == nil
	}

	// So is that of invocation 6: what is told comes before what is freed.
	entered, release, _ = f.host.blocks()
	big := invocation(7, "a")
	big.Payload = make([]byte, 9*streamOverhead)
	replies := st.replies()
	for began := false; !began; {
		st.send(big)
		select {
		case <-entered:
			began = true
		case r := <-replies:
			wantReplyError(t, r, connect.CodeResourceExhausted, failure.KindStreamFull)
		}
	}
	st.send(invocation(8, "a"))
	wantReplyError(t, <-replies, connect.CodeResourceExhausted, failure.KindStreamFull)
	close(release)
	<-replies
}

// TestInvokeStreamDeadline: one that ends in the host, as soon as a deadline is
// long enough to get there.
func TestInvokeStreamDeadline(t *testing.T) {
	f := start(t, nil)
	entered, release, ended := f.host.blocks()
	st := open(t.Context(), t, f.url)
	st.send(invocation(1, "b"))
	<-entered
	short := invocation(2, "a")
	short.TimeoutMs = 1
	for began := false; !began; short.TimeoutMs *= 2 {
		st.send(short)
		wantReplyError(t, st.receive(1)[2], connect.CodeDeadlineExceeded, actor.ErrDeadline.Kind())
		select {
		case <-entered:
			began = true
		default: // it was over while the invocation was on its way
		}
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the host's context ended with %v", err)
	}
	close(release)
	if r := st.receive(1)[1]; r.GetError() != nil {
		t.Errorf("the other one got %v", r)
	}
}

// TestInvokeStreamClientGone: what is in flight is cancelled.
func TestInvokeStreamClientGone(t *testing.T) {
	f := start(t, nil)
	entered, _, ended := f.host.blocks()
	ctx, cancel := context.WithCancel(t.Context())
	st := open(ctx, t, f.url)
	st.send(invocation(1, "a"), invocation(2, "b"))
	<-entered
	<-entered
	cancel()
	_ = st.CloseResponse() // cancelling alone does not reset the stream while its request is open
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the host's context ended with %v", err)
		}
	}
}

// TestInvokeStreamHalfClosed: what is in flight is answered.
func TestInvokeStreamHalfClosed(t *testing.T) {
	f := start(t, nil)
	entered, release, _ := f.host.blocks()
	st := open(t.Context(), t, f.url)
	st.send(invocation(1, "a"), invocation(2, "b"))
	if err := st.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	<-entered
	<-entered
	close(release)
	st.receive(2)
	if _, err := st.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestInvokeStreamStop: a stopping server answers what is in flight, refuses or
// leaves what comes then, and says so.
func TestInvokeStreamStop(t *testing.T) {
	f := start(t, nil)
	entered, release, _ := f.host.blocks()
	st := open(t.Context(), t, f.url)
	st.send(invocation(1, "a"), invocation(2, "b"))
	<-entered
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- f.Stop(t.Context()) }()
	<-f.draining.Done()
	close(release)
	got := make(map[uint64]*greenroomv1.StreamReply)
	for {
		res, err := st.Receive()
		if err != nil {
			wantError(t, err, connect.CodeUnavailable, actor.ErrStopping.Kind())
			break
		}
		for _, r := range res.GetReplies() {
			got[r.GetId()] = r
		}
	}
	if got[1] == nil || got[2] == nil || got[1].GetError() != nil || got[2].GetError() != nil {
		t.Errorf("got %v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestInvokeStreamStopForced: when the time for stopping is over, what is in
// flight is cancelled.
func TestInvokeStreamStopForced(t *testing.T) {
	f := start(t, nil)
	entered, _, ended := f.host.blocks()
	st := open(t.Context(), t, f.url)
	st.send(invocation(1, "a"))
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the host's context ended with %v", err)
	}
}

// TestInvokeStreamSlowReader: a client that accepts nothing does not keep its
// invocations alive, nor the memory of their replies.
func TestInvokeStreamSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := startInBubble(t, func(c *Config) { c.Bounds.BodyTimeout = quick })
		st := openBy(t.Context(), t, net.client(t, true), f.url)
		gone := make(chan struct{})
		f.host.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
			if inv.Key.ID == "waits" {
				<-ctx.Done()
				close(gone)
				return actor.Reply{}, ctx.Err()
			}
			return actor.Reply{Payload: actor.Payload{Data: make([]byte, 16<<20)}}, nil // beyond any window
		})
		st.send(invocation(1, "waits"), invocation(2, "large"))
		<-gone
	})
}

func TestInvokeStreamBadMessages(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxPayloadBytes = 1000 })
	st := open(t.Context(), t, f.url)
	if err := st.Send(&greenroomv1.InvokeStreamRequest{Invocations: []*greenroomv1.StreamInvocation{{Payload: make([]byte, 4<<20)}}}); err != nil {
		t.Fatal(err)
	}
	_, err := st.Receive()
	wantError(t, err, connect.CodeInvalidArgument, actor.ErrPayloadTooLarge.Kind())

	st = open(t.Context(), t, f.url)
	conn, err := st.Conn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Send(&greenroomv1.InvokeResponse{Payload: []byte{0xff}}); err != nil {
		t.Fatal(err)
	}
	_, err = st.Receive()
	wantError(t, err, connect.CodeInvalidArgument, failure.KindInvalidArgument)
}

// TestInvokeStreamPanic: a bug met by one invocation is answered to that one.
func TestInvokeStreamPanic(t *testing.T) {
	f := start(t, nil)
	f.host.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		if inv.Key.ID == "bug" {
			panic("secret")
		}
		return actor.Reply{}, nil
	})
	st := open(t.Context(), t, f.url)
	st.send(invocation(1, "bug"), invocation(2, "a"))
	got := st.receive(2)
	wantReplyError(t, got[1], connect.CodeInternal, failure.KindInternal)
	if msg := got[1].GetError().GetMessage(); strings.Contains(msg, "secret") {
		t.Errorf("the caller is told %q", msg)
	}
	if got[2].GetError() != nil || !strings.Contains(f.log.String(), "secret") {
		t.Errorf("got %v; log:\n%s", got[2], f.log)
	}
}

// TestInvokeStreamMany: many clients with many invocations of all kinds at once.
func TestInvokeStreamMany(t *testing.T) {
	f := start(t, nil)
	f.host.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		if inv.ReadOnly {
			<-ctx.Done() // its deadline
			return actor.Reply{}, ctx.Err()
		}
		return actor.Reply{Payload: inv.Payload}, nil
	})
	var clients sync.WaitGroup
	for range 4 {
		st := open(t.Context(), t, f.url)
		clients.Go(func() {
			const messages, each = 50, 20
			go func() {
				for m := range messages {
					var invs []*greenroomv1.StreamInvocation
					for n := range each {
						i := invocation(uint64(m*each+n), fmt.Sprint("a", n))
						if n%5 == 4 {
							i.ReadOnly, i.TimeoutMs = true, uint32(n)
						}
						invs = append(invs, i)
					}
					if err := st.Send(&greenroomv1.InvokeStreamRequest{Invocations: invs}); err != nil {
						t.Error(err)
					}
				}
				_ = st.CloseRequest()
			}()
			seen := make(map[uint64]bool)
			for {
				res, err := st.Receive()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range res.GetReplies() {
					if seen[r.GetId()] || (r.GetError() == nil) != (string(r.GetPayload()) == fmt.Sprint(r.GetId())) || (r.GetError() != nil) != (r.GetId()%each%5 == 4) {
						t.Errorf("got %v", r)
					}
					seen[r.GetId()] = true
				}
			}
			if len(seen) != messages*each {
				t.Errorf("%d replies", len(seen))
			}
		})
	}
	clients.Wait()
}

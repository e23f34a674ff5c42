package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	healthv1 "github.com/greenroom-run/greenroom/api/gen/grpc/health/v1"
	"github.com/greenroom-run/greenroom/api/gen/grpc/health/v1/healthv1connect"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/server/failure"
)

// nothingHeld waits until streams hold nothing any more: what is counted for them
// must be given back however they end.
func nothingHeld(f *fixture) {
	for f.edge.StreamMemory.Used() != 0 || f.rpc.Streams.Taken() != 0 {
		runtime.Gosched()
	}
}

// TestTooManyStreams: those beyond the bound are refused with a typed error, and
// the others go on.
func TestTooManyStreams(t *testing.T) {
	f := start(t, func(c *Config) { c.Bounds.Streams = 3 })
	var all []testStream
	for range 3 {
		all = append(all, open(t.Context(), t, f.url))
	}
	refused := greenroomv1connect.NewActorServiceClient(client(t, true), f.url).InvokeStream(t.Context())
	if err := refused.Send(nil); err != nil {
		t.Fatal(err)
	}
	_, err := refused.Receive()
	wantError(t, err, connect.CodeResourceExhausted, failure.KindStreamFull)
	for _, st := range all {
		st.send(invocation(1, "a"))
		if r := st.receive(1)[1]; r.GetError() != nil {
			t.Errorf("got %v", r)
		}
		if err := st.CloseRequest(); err != nil {
			t.Error(err)
		}
		if _, err := st.Receive(); err == nil {
			t.Error("the stream goes on")
		}
	}
	nothingHeld(f)
	open(t.Context(), t, f.url)
}

// TestPartialMessages: messages that never become whole do not fill the memory,
// and keep no other stream from working.
func TestPartialMessages(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxStreamsBytes = 256 << 10 })
	good := open(t.Context(), t, f.url)
	for range 3 {
		body, w := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+greenroomv1connect.ActorServiceInvokeStreamProcedure, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/connect+proto")
		req.Header.Set("Connect-Protocol-Version", "1")
		go func() { // ends with the request
			_, _ = w.Write(binary.BigEndian.AppendUint32([]byte{0}, 1<<20))
			_, _ = w.Write(make([]byte, 512<<10))
		}()
		res, err := client(t, true).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(answer), "resource_exhausted") || !strings.Contains(string(answer), "in flight on streams") {
			t.Errorf("the stream ended with %q, %v", answer, err)
		}
		good.send(invocation(1, "a"))
		if r := good.receive(1)[1]; r.GetError() != nil {
			t.Errorf("a neighbour got %v", r)
		}
		cancel()
		_ = res.Body.Close()
		_ = w.Close()
	}
	_ = good.CloseRequest()
	_ = good.CloseResponse()
	nothingHeld(f)
}

// TestStreamsAreBoundedTogether: what is beyond the bound is refused alone, and a
// stream with nothing in flight always has room for one.
func TestStreamsAreBoundedTogether(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxStreamsBytes = 4 * streamOverhead })
	entered, release, _ := f.host.blocks()
	first, second := open(t.Context(), t, f.url), open(t.Context(), t, f.url)
	first.send(invocation(1, "a"), invocation(2, "b"), invocation(3, "c"))
	for range 3 {
		<-entered
	}
	second.send(invocation(1, "d"))
	<-entered
	second.send(invocation(2, "e"))
	wantReplyError(t, second.receive(1)[2], connect.CodeResourceExhausted, failure.KindStreamFull)
	close(release)
	first.receive(3)
	second.receive(1)
	for f.edge.StreamMemory.Used() != 0 {
		runtime.Gosched()
	}
}

// TestMaximalFrames: a message of as many entries as fit in its bytes ends its
// stream, before they become memory.
func TestMaximalFrames(t *testing.T) {
	f := start(t, nil)
	for name, one := range map[string][]byte{"invocations": {0x0a, 0}, "cancels": {0x10, 1}} {
		st := open(t.Context(), t, f.url, connect.WithCodec(rawCodec{}))
		conn, err := st.Conn()
		if err != nil {
			t.Fatal(err)
		}
		raw := bytes.Repeat(one, invokestream.MaxEntries+1)
		if err := conn.Send(&raw); err != nil {
			t.Fatal(err)
		}
		_, err = st.Receive()
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: the stream ended with %v", name, err)
		}
	}
	nothingHeld(f)
}

// rawCodec sends bytes as they are, and reads nothing.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(msg any) ([]byte, error) {
	if raw, ok := msg.(*[]byte); ok {
		return *raw, nil
	}
	return nil, nil
}

func (rawCodec) Unmarshal([]byte, any) error { return nil }

// TestClientsThatNeverRead are ended, and what they had in flight is given back.
func TestClientsThatNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := startInBubble(t, func(c *Config) { c.Bounds.BodyTimeout = quick })
		f.host.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
			return actor.Reply{Payload: actor.Payload{Data: make([]byte, 1<<20)}}, nil
		})
		for range 4 {
			st := openBy(t.Context(), t, net.client(t, true), f.url)
			var invs []*greenroomv1.StreamInvocation
			for id := range uint64(12) { // beyond the window of a stream
				invs = append(invs, invocation(id, "a"))
			}
			st.send(invs...)
		}
		synctest.Wait()
		if f.edge.StreamMemory.Used() == 0 || f.rpc.Streams.Taken() != 4 {
			t.Fatalf("%d streams have %d bytes in flight although nobody reads them", f.rpc.Streams.Taken(), f.edge.StreamMemory.Used())
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if f.edge.StreamMemory.Used() != 0 || f.rpc.Streams.Taken() != 0 {
			t.Errorf("%d streams still have %d bytes in flight", f.rpc.Streams.Taken(), f.edge.StreamMemory.Used())
		}
	})
}

// TestEndlessStreamsAreBounded: those that wait for news, with or without a token.
func TestEndlessStreamsAreBounded(t *testing.T) {
	f := start(t, nil)
	watch := func(ctx context.Context) error {
		st, err := healthv1connect.NewHealthClient(client(t, true), f.url).Watch(ctx, connect.NewRequest(&healthv1.HealthCheckRequest{}))
		if err == nil && !st.Receive() {
			err = st.Err()
		}
		return err
	}
	tail := func(ctx context.Context) error {
		st, err := greenroomv1connect.NewLogServiceClient(client(t, true), f.url).Tail(ctx, connect.NewRequest(&greenroomv1.TailRequest{Follow: true}))
		if err == nil && !st.Receive() {
			err = st.Err()
		}
		return err
	}
	for name, of := range map[string]struct {
		open func(context.Context) error
		most int
	}{"watch": {watch, 100}, "tail": {tail, 20}} {
		ctx, cancel := context.WithCancel(t.Context())
		for range of.most {
			if err := of.open(ctx); err != nil {
				t.Fatal(name, err)
			}
		}
		wantError(t, of.open(t.Context()), connect.CodeResourceExhausted, failure.KindStreamFull)
		cancel()
	}
}

package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/invokestream"
	"github.com/greenroom-run/greenroom/api/invokestream/caller"
	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// channel is one stream to a peer. When the stream has ended, the channel opens another one for
// its next call.
type channel struct {
	*caller.Stream
	p      *session      // to the peer
	number uint32        // of the peer's channels
	usage  usage         // counts the calls that are queued or sent; all channels share the account of bytes
	stream atomic.Uint64 // the number of the stream that was opened last
}

const (
	// minReopen and maxReopen bound the growing pauses between attempts to open a channel.
	minReopen = 20 * time.Millisecond
	maxReopen = 500 * time.Millisecond
)

// run owns the channel until the session ends.
func (ch *channel) run() {
	pause := minReopen
	for ch.Wait(ch.p.ctx) {
		k, err := ch.open()
		if err != nil {
			ch.p.notOpened(err.Error())
			ch.fail(&unsentError{"its host cannot be reached: " + err.Error()})
			clock.Pause(ch.p.ctx, pause)
			pause = min(2*pause, maxReopen)
			continue
		}
		pause = minReopen
		// The end of its context alone ends neither side of a stream.
		unwatch := context.AfterFunc(ch.p.ctx, k.close)
		err = ch.Serve(k.conn)
		unwatch()
		k.close()
		ch.p.broke()
		ch.settle(err)
	}
	ch.Close()
	ch.fail(errGone)
}

// fail fails the calls in the queue.
func (ch *channel) fail(err *unsentError) {
	ch.Fail(func(*caller.Call) error { return err })
}

// settle finishes the calls that were sent and not answered.
func (ch *channel) settle(err error) {
	kind := detailOf(err).GetKind()
	outcome := error(&lostError{err})
	switch {
	case kind == kindHostFull || hasNotBegun(kind):
		// The peer has answered the calls that it took: see ActorService.InvokeStream.
		outcome = &unsentError{"its host takes no calls now: " + err.Error()}
	case errors.Is(err, io.EOF):
		outcome = &lostError{io.ErrUnexpectedEOF}
	}
	ch.Settle(func(*caller.Call) error { return outcome })
}

// link is an open stream.
type link struct {
	conn connect.StreamingClientConn
	cut  context.CancelFunc
}

// close ends the stream without waiting for anything.
func (k *link) close() {
	k.cut()
	_ = k.conn.CloseRequest()
	_ = k.conn.CloseResponse()
}

// open opens a stream and sends a hello. If open fails, no call was sent.
func (ch *channel) open() (*link, error) {
	p, cfg := ch.p, ch.p.self.cfg
	ctx, cut := context.WithCancel(p.ctx)
	timeout := time.AfterFunc(2*cfg.PeerTimeout, cut)
	defer timeout.Stop()
	bidi := p.streams.CallBidiStream(ctx)
	p.authorize(bidi.RequestHeader())
	conn, err := bidi.Conn()
	if err != nil {
		cut()
		return nil, explain(err, cfg.Cluster)
	}
	k := &link{conn, cut}
	hello := p.hello()
	hello.Process, hello.Channel, hello.Stream = p.self.process, ch.number, p.self.streams.Add(1)
	err = conn.Send(&invokestream.Request{Hello: hello})
	var first invokestream.Response
	if err == nil || errors.Is(err, io.EOF) { // then receiving returns the reason
		err = conn.Receive(&first)
	}
	if err == nil && first.Hello == nil {
		err = &HelloError{"it does not answer as a host of a cluster does; give hosts the address of a Greenroom server with --advertise"}
	}
	if err == nil && !timeout.Stop() {
		err = fmt.Errorf("it did not answer within %v", 2*cfg.PeerTimeout)
	}
	if err == nil && p.ctx.Err() != nil {
		err = p.ctx.Err()
	}
	if err != nil {
		k.close()
		return nil, explain(err, cfg.Cluster)
	}
	ch.stream.Store(hello.GetStream())
	p.opened(first.Hello)
	return k, nil
}

const (
	// protocolCaller is the first protocol whose invocations have a caller, the host that
	// refused them last, and firings of reminders; and the first with InterconnectService.Reach.
	protocolCaller = 2
	// protocolTrace is the first protocol whose invocations have a trace context, and the
	// first with timers.
	protocolTrace = 3
	// protocolRelease is the first protocol with InterconnectService.ReleaseReminders and
	// NoticeReminders.
	protocolRelease = 3
	// protocolOrigin is the first protocol with invocations by an actor's turn.
	protocolOrigin = 5
	// protocolMessages is the first one whose firings may be deliveries of messages and events, and whose
	// invocations may be volatile messages.
	protocolMessages = 6
)

// forwardedInvocation returns a call as it is sent to a peer of any protocol.
func forwardedInvocation(inv *actor.Invocation) invokestream.Invocation {
	f := invokestream.Invocation{
		Key: inv.Key, Method: inv.Method, Payload: inv.Payload,
		IdempotencyKey: inv.IdempotencyKey, ReadOnly: inv.ReadOnly, InvocationID: inv.ID,
	}
	if inv.Consistency == actor.ConsistencyStrong {
		f.Consistency = greenroomv1.Consistency_CONSISTENCY_STRONG
	}
	return f
}

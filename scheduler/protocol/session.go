package protocol

import (
	"context"
	"errors"
	"io"
	"sync"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Session is one stream of a host to a leader.
type Session struct {
	Host   placement.HostID
	Number uint64 // a host's sessions count upwards from 1
	Epoch  uint64 // of the leader
}

// ErrNotLeader ends a session with a process that does not lead, or not that term.
var ErrNotLeader = errors.New("this process does not lead the cluster now")

// ErrProtocol says that two processes speak no protocol version in common.
var ErrProtocol = errors.New("no protocol version is common")

// Protocol versions that this code speaks between processes.
//
//	2  invocations that are passed on name their caller, and the host that refused them last;
//	   the leader notifies hosts whose types are outdated; hosts report the hosts that they
//	   cannot reach
//	3  invocations that are passed on have a trace context; reminders are released to
//	   hosts that have subscribers
//	4  the leader's orders, and what hosts claim, are about groups of types
//	5  invocations that are passed on name the turn that calls
//	6  modules may send messages, spawn actors, and end their own life
const (
	MinVersion = 1
	MaxVersion = 6

	WithTypesOutdated = 2 // the first with TypesOutdated
	WithGroups        = 4 // the first with orders about groups
)

// Stream is a host's end of a session with the leader. Send is called by one goroutine
// at a time, and so is Receive, beside it.
type Stream interface {
	Send(*greenroomv1.ReportActorTypesRequest) error
	Receive() (*greenroomv1.ReportActorTypesResponse, error)
	// Close ends the session: Send and Receive that are under way return. It is safe
	// twice, and beside the others.
	Close() error
}

// ServerStream is the leader's end of a session, used alike. The session is over when
// what serves it returns.
type ServerStream interface {
	Send(*greenroomv1.ReportActorTypesResponse) error
	Receive() (*greenroomv1.ReportActorTypesRequest, error)
}

// Pipe is a session with a leader in the same process, which is served by serve.
func Pipe(ctx context.Context, serve func(context.Context, ServerStream) error) Stream {
	ctx, cancel := context.WithCancel(ctx)
	l := &loopback{ctx: ctx, cancel: cancel, up: make(chan *greenroomv1.ReportActorTypesRequest, 16), down: make(chan *greenroomv1.ReportActorTypesResponse, 16)}
	l.serving.Go(func() {
		l.err = serve(ctx, (*loopbackServer)(l))
		cancel()
	})
	return l
}

// loopback is a stream within a process.
type loopback struct {
	ctx     context.Context //nolint:containedctx // the stream's life
	cancel  context.CancelFunc
	up      chan *greenroomv1.ReportActorTypesRequest
	down    chan *greenroomv1.ReportActorTypesResponse
	serving sync.WaitGroup
	err     error // what ended it; after serving
}

func (l *loopback) Send(m *greenroomv1.ReportActorTypesRequest) error {
	select {
	case l.up <- m:
		return nil
	case <-l.ctx.Done():
		return io.EOF
	}
}

func (l *loopback) Receive() (*greenroomv1.ReportActorTypesResponse, error) {
	select {
	case m := <-l.down:
		return m, nil
	case <-l.ctx.Done():
		l.serving.Wait()
		select {
		case m := <-l.down: // what was sent before the end
			return m, nil
		default:
		}
		if l.err != nil {
			return nil, l.err
		}
		return nil, io.EOF
	}
}

func (l *loopback) Close() error {
	l.cancel()
	return nil
}

// loopbackServer is the leader's end.
type loopbackServer loopback

func (l *loopbackServer) Send(m *greenroomv1.ReportActorTypesResponse) error {
	select {
	case l.down <- m:
		return nil
	case <-l.ctx.Done():
		return io.EOF
	}
}

func (l *loopbackServer) Receive() (*greenroomv1.ReportActorTypesRequest, error) {
	select {
	case m := <-l.up:
		return m, nil
	case <-l.ctx.Done():
		return nil, io.EOF
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
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

// Serve serves a session of a host, until it or this process's term ends. ctx is the
// stream's. [actor.ErrClusterName] for a host of another cluster; [ErrProtocol] for one
// of a version that is too far away.
func (s *Service) Serve(ctx context.Context, stream ServerStream) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	low, high := max(int(hello.GetMinProtocol()), s.cfg.Self.MinProtocol), min(int(hello.GetMaxProtocol()), s.cfg.Self.MaxProtocol)
	switch t := s.term.Load(); {
	case hello == nil:
		return errors.New("the first message of a session is its hello")
	case hello.GetCluster() != s.cfg.Self.Cluster:
		return fmt.Errorf("this is cluster %q, and host %s is of cluster %q: give it another database, or that name: %w", s.cfg.Self.Cluster, hello.GetHostId(), hello.GetCluster(), actor.ErrClusterName)
	case low > high:
		return fmt.Errorf("%w: this process speaks %d to %d, host %s speaks %d to %d; run versions that are one minor version apart at most", ErrProtocol,
			s.cfg.Self.MinProtocol, s.cfg.Self.MaxProtocol, hello.GetHostId(), hello.GetMinProtocol(), hello.GetMaxProtocol())
	case t == nil || t.lease.Epoch != hello.GetEpoch():
		return errNotLeader
	default:
		return t.serve(ctx, stream, hello)
	}
}

// ErrProtocol says that two processes speak no protocol version in common.
var ErrProtocol = errors.New("no protocol version is common")

// pipe is a session with a leader in the same process, which is served by serve.
func pipe(ctx context.Context, serve func(context.Context, ServerStream) error) Stream {
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

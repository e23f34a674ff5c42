package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// Serve serves a session of a host, until it or this process's term ends. ctx is the
// stream's. [actor.ErrClusterName] for a host of another cluster; [protocol.ErrProtocol] for one
// of a version that is too far away.
func (s *Service) Serve(ctx context.Context, stream protocol.ServerStream) error {
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
		return fmt.Errorf("%w: this process speaks %d to %d, host %s speaks %d to %d; run versions that are one minor version apart at most", protocol.ErrProtocol,
			s.cfg.Self.MinProtocol, s.cfg.Self.MaxProtocol, hello.GetHostId(), hello.GetMinProtocol(), hello.GetMaxProtocol())
	case t == nil || t.lease.Epoch != hello.GetEpoch():
		return protocol.ErrNotLeader
	default:
		return t.serve(ctx, stream, hello)
	}
}

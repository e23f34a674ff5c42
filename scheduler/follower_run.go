package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// run keeps a session with the leader.
func (f *follower) run(ctx context.Context) {
	first := clock.RenewEvery(f.cfg.Lease) / 16
	wait, said, jitter := first, "", clock.NewJitter("session", f.Self())
	for ctx.Err() == nil {
		began := f.now()
		err := f.converse(ctx)
		if ctx.Err() != nil {
			return
		}
		if f.now()-began > f.cfg.Lease {
			wait, said = first, ""
		}
		// A fault that lasts is logged once.
		if err.Error() != said && !errors.Is(err, errNoLeader) && !errors.Is(err, protocol.ErrNotLeader) {
			said = err.Error()
			f.cfg.Logger.Warn("no session with the leader of the cluster; what this host holds stays", "host", f.Self(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait + jitter.Below(wait)):
		case <-f.elector.Elected(): // this process leads
		}
		wait = min(2*wait, clock.RenewEvery(f.cfg.Lease)/2)
	}
}

// converse finds the leader, opens a session and performs it until it ends.
func (f *follower) converse(ctx context.Context) error {
	leader, epoch, err := f.findLeader(ctx)
	if err != nil {
		return err
	}
	f.registration.seek(epoch)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var stream protocol.Stream
	if f.elector.Epoch() == epoch {
		stream = protocol.Pipe(ctx, f.elector.Serve)
	} else if leader.ID == f.Self() {
		return errNoLeader // not any more, or not yet
	} else if f.cfg.Dial == nil {
		return fmt.Errorf("host %s leads, and this process cannot reach others: Config.Dial is nil", leader.ID)
	} else if stream, err = f.cfg.Dial(ctx, leader); err != nil {
		return fmt.Errorf("dial the leader %s at %s: %w", leader.ID, leader.Address, err)
	}
	defer func() { _ = stream.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()

	ss := &session{ctx: ctx, end: end, out: protocol.NewOutbox[*greenroomv1.ReportActorTypesRequest](), queries: map[uint64]chan<- answerOrEnd{}}
	var sending sync.WaitGroup
	sending.Go(func() {
		if err := ss.out.Send(ctx, stream.Send); err != nil {
			end(fmt.Errorf("send to the leader: %w", err))
		}
	})
	defer sending.Wait()
	defer end(errors.New("the session is over"))
	if !f.connect(ss, leader, epoch) {
		return fmt.Errorf("the leader %s of epoch %d is of the past", leader.ID, epoch)
	}
	defer f.disconnected(ss)
	sending.Go(func() { f.reportTypes(ctx, ss) })
	sending.Go(func() {
		for clock.Pause(ctx, clock.RenewEvery(f.cfg.Lease)) {
			ss.out.Put(&greenroomv1.ReportActorTypesRequest{Message: &greenroomv1.ReportActorTypesRequest_Heartbeat{Heartbeat: &greenroomv1.SchedulerHeartbeat{}}})
		}
	})
	if f.cfg.hosts() {
		sending.Go(func() { f.reportHeat(ctx, ss) })
	}
	silent := time.AfterFunc(f.cfg.Lease, func() { end(errors.New("the leader is silent")) })
	defer silent.Stop()
	for {
		m, err := stream.Receive()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("session with the leader %s: %w", leader.ID, err)
		}
		silent.Reset(f.cfg.Lease)
		f.receive(ctx, ss, m)
	}
}

package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/scheduler"
)

const (
	// leaderRole has a leader grant sticky actors to one host.
	leaderRole    = "leader"
	leaderEntries = 1_000_000
	entryLimit    = 100    // B
	grantRate     = 50_000 // acquisitions in a second
	// leaderTimeout bounds all of the role. Its leases would only end after an hour.
	leaderTimeout = 5 * time.Minute
)

// leaderResult has the leader's memory for an entry in bytes, and its processor time for
// an acquisition.
type leaderResult struct {
	Bytes float64
	CPU   time.Duration
}

// leaderCosts is the leader's part of cluster.5.
func leaderCosts(b *bar.B) {
	entries := b.Count(leaderEntries)
	b.Each(func(run int) {
		res := bar.Call[leaderResult](b, leaderRole, leaderSpec{entries, "customer-%08d"})
		b.Compare("an entry in the leader", res.Bytes, entryLimit)
		b.Compare("acquisitions on one processor", float64(time.Second)/float64(res.CPU), grantRate)
		b.Note("run %d, %d sticky actors with IDs of 17 bytes: %.1f B each in the leader; %v of processor time for an acquisition, encoding and decoding of both messages included",
			run, entries, res.Bytes, res.CPU)
	})
	res := bar.Call[leaderResult](b, leaderRole, leaderSpec{entries, "0f8fad5b-d9cb-469f-a165-%012d"})
	b.Note("with IDs of 36 bytes: %.1f B and %v", res.Bytes, res.CPU)
}

// runLeader plays [leaderRole]: a leader, and the messages of one host, on one processor.
func runLeader(ctx context.Context, s leaderSpec) (leaderResult, error) {
	runtime.GOMAXPROCS(1)
	const length = time.Hour // nothing is to be renewed
	db, remove := openStore(ctx)
	defer must.Close(remove)
	led := make(chan uint64, 1)
	leader := must.Get(scheduler.New(scheduler.Config{
		Store: db, Lease: length, Logger: slog.New(slog.DiscardHandler),
		Self: actor.Host{Name: "leader", Cluster: clusterName, Address: "127.0.0.1:1", Roles: []string{scheduler.RoleScheduler}},
		Events: scheduler.Events{Led: func(epoch uint64, leads bool) {
			if leads {
				led <- epoch
			}
		}},
	}))
	must.Check(leader.Start(ctx))
	defer must.Close(func() error { return leader.Stop(context.WithoutCancel(ctx)) })
	self := must.Get(db.RegisterHost(ctx, actor.Host{
		ID: "host", Name: "host", Cluster: clusterName, Address: "127.0.0.1:2", Roles: []string{scheduler.RoleHost},
		MinProtocol: scheduler.MinProtocol, MaxProtocol: scheduler.MaxProtocol,
	}, length))
	ctx, end := context.WithTimeoutCause(ctx, leaderTimeout, fmt.Errorf("not all was granted within %v", leaderTimeout))
	defer end()
	h := newAsking(ctx, s)
	select {
	case epoch := <-led:
		h.greet(self, epoch)
	case <-ctx.Done():
		return leaderResult{}, context.Cause(ctx)
	}
	served := make(chan error, 1)
	go func() { served <- leader.Serve(ctx, h) }()
	wait := func(outcome <-chan error) {
		select {
		case err := <-outcome:
			must.Check(err)
		case err := <-served:
			must.Check(fmt.Errorf("the leader ended the session: %w", err))
		}
	}
	wait(h.ready)
	before, cpu := heap(), usage.Self()
	close(h.begin)
	wait(h.done)
	cpu = usage.Self() - cpu
	res := leaderResult{Bytes: (heap() - before) / float64(s.Entries), CPU: cpu / time.Duration(s.Entries)}
	runtime.KeepAlive(leader)
	return res, nil
}

// heap returns the bytes that are in use.
func heap() float64 {
	m := usage.Memory()
	return float64(m.HeapAlloc)
}

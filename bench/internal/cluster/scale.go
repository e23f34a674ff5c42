package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/scheduler"
	"github.com/greenroom-run/greenroom/store"
)

const (
	// scaleRole has many hosts' schedulers in one process.
	scaleRole = "scale"
	// scaleQuiet is how long nothing must be ordered before a cluster counts as settled.
	scaleQuiet = 500 * time.Millisecond
	// scaleTimeout bounds how long a cluster takes to settle.
	scaleTimeout = time.Minute
	// scaleSteady is how long a cluster to which nothing happens is looked at.
	scaleSteady = 10 * time.Second
)

// scaleSizes are the clusters that are looked at.
var scaleSizes = []scaleSpec{{3, 1, scaleSteady}, {10, 1, scaleSteady}, {30, 1, scaleSteady}, {100, 1, scaleSteady}, {10, 10, scaleSteady}, {100, 10, scaleSteady}}

type scaleSpec struct {
	Hosts, Types int
	Steady       time.Duration
}

// scaleResult is what a cluster of one size said: while nothing happened, for all types
// to get their places, when a host joined, when one left gracefully, and when another one
// came to lead.
type scaleResult struct {
	Hosts                              int
	Steady, Begin, Join, Leave, Leader scaleTraffic
}

// scaleTraffic is what the hosts said to the leader and to the database in a while, and
// the processor time of all of them, and of what counts.
type scaleTraffic struct {
	Took                        time.Duration
	Messages, Bytes, Statements int64
	CPU                         time.Duration
}

// Scale measures what the schedulers of clusters of several sizes say to each other and
// to the database, and returns it in Markdown. Actors and calls have no part in it.
func Scale(ctx context.Context, r *rig.Rig, command string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured by `%s`: the schedulers of all hosts in one process, with leases of %v. Types are placed `ring`.\n\n", command, lease)
	b.WriteString("| hosts | types | messages to and from the leader | bytes | statements | processor time of all hosts | a host joins | a host leaves | another leads |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, size := range scaleSizes {
		fmt.Fprintf(r.Log, "%d hosts, types: %d …\n", size.Hosts, size.Types)
		res, err := role.Call[scaleResult](ctx, scaleRole, size)
		if err != nil {
			return "", err
		}
		s := res.Steady
		fmt.Fprintf(&b, "| %d | %d | %.0f/s | %.1f KB/s | %.0f/s | %.1f ms/s | %s | %s | %s |\n", size.Hosts, size.Types, s.rate(s.Messages), s.rate(s.Bytes)/1e3, s.rate(s.Statements),
			bar.Millis(s.CPU)/s.Took.Seconds(), res.Join, res.Leave, res.Leader)
	}
	return b.String(), nil
}

func (t scaleTraffic) rate(n int64) float64 { return float64(n) / t.Took.Seconds() }

// String says what a change took.
func (t scaleTraffic) String() string {
	return fmt.Sprintf("%.1f MB, %d messages, %.0f ms of processor time, %.1f s", float64(t.Bytes)/1e6, t.Messages, bar.Millis(t.CPU), t.Took.Seconds())
}

// scaled is a cluster of schedulers.
type scaled struct {
	store               store.Cluster
	types               []scheduler.Type
	messages, bytes     atomic.Int64
	statements, ordered atomic.Int64 // ordered: when the last order was sent, in Unix ns

	mu    sync.Mutex
	hosts map[string]*scheduler.Service // by address
}

// runScale plays [scaleRole].
func runScale(ctx context.Context, s scaleSpec) (res scaleResult, err error) {
	db, remove := openStore(ctx)
	defer must.Close(remove)
	c := &scaled{hosts: map[string]*scheduler.Service{}}
	c.store = &countedStore{db, &c.statements}
	for i := range s.Types {
		c.types = append(c.types, scheduler.Type{App: actor.DefaultApp, Name: fmt.Sprint("Type", i), Placement: abi.PlacementRing, Generation: 1})
	}
	defer c.stop(context.WithoutCancel(ctx))
	during := func(change func() error) scaleTraffic { return must.Get(c.during(ctx, change)) }
	res.Hosts = s.Hosts
	res.Begin = during(func() (err error) {
		for i := 0; i < s.Hosts && err == nil; i++ {
			err = c.start(ctx, i)
		}
		return err
	})
	before, began, cpu := c.traffic(), time.Now(), usage.Self()
	must.Check(load.Pause(ctx, s.Steady))
	res.Steady = c.since(before, began, cpu)
	res.Join = during(func() error { return c.start(ctx, s.Hosts) })
	res.Leave = during(func() error { return c.leave(ctx, address(s.Hosts)) })
	res.Leader = during(func() error { return c.leave(ctx, c.leader()) })
	return res, nil
}

// leader returns the address of the host that leads, empty if none does.
func (c *scaled) leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, h := range c.hosts {
		if h.Leadership().Here {
			return at
		}
	}
	return ""
}

func address(i int) string { return fmt.Sprintf("127.0.0.1:%d", 10_000+i) }

// start adds a host.
func (c *scaled) start(ctx context.Context, i int) error {
	s, err := scheduler.New(scheduler.Config{
		Store: c.store, Lease: lease, Logger: slog.New(slog.DiscardHandler), Actors: noActors{},
		Self:  actor.Host{Name: fmt.Sprint("host-", i), Cluster: clusterName, Address: address(i), Version: "v1"},
		Types: func() []scheduler.Type { return c.types },
		Dial:  c.dial,
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.hosts[address(i)] = s
	c.mu.Unlock()
	return s.Start(ctx)
}

// leave has a host hand over, and leave.
func (c *scaled) leave(ctx context.Context, at string) error {
	c.mu.Lock()
	h := c.hosts[at]
	delete(c.hosts, at)
	c.mu.Unlock()
	if h == nil {
		return fmt.Errorf("there is no host %q", at)
	}
	return h.Stop(ctx)
}

// stop ends all hosts at once, without handing anything over.
func (c *scaled) stop(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	c.mu.Lock()
	hosts := c.hosts
	c.hosts = nil
	c.mu.Unlock()
	var ending sync.WaitGroup
	for _, h := range hosts {
		ending.Go(func() { _ = h.Stop(ctx) }) // its rows go with the store
	}
	ending.Wait()
}

// during measures a change, until all hosts have their shares.
func (c *scaled) during(ctx context.Context, change func() error) (scaleTraffic, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, scaleTimeout, fmt.Errorf("the cluster did not settle within %v", scaleTimeout))
	defer cancel()
	before, began, cpu := c.traffic(), time.Now(), usage.Self()
	if err := change(); err != nil {
		return scaleTraffic{}, err
	}
	for {
		if c.settled(began) {
			t := c.since(before, began, cpu)
			t.Took = time.Unix(0, c.ordered.Load()).Sub(began)
			return t, nil
		}
		if err := load.Pause(ctx, scaleQuiet/10); err != nil {
			return scaleTraffic{}, err
		}
	}
}

// settled reports whether all hosts have sessions with the leader, who has ordered
// something since a moment, and nothing for a while.
func (c *scaled) settled(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaders := 0
	for _, h := range c.hosts {
		l := h.Leadership()
		if !l.Connected {
			return false
		}
		if l.Here {
			leaders++
		}
	}
	last := time.Unix(0, c.ordered.Load())
	return leaders == 1 && last.After(since) && time.Since(last) > scaleQuiet
}

type traffic struct{ messages, bytes, statements int64 }

func (c *scaled) traffic() traffic {
	return traffic{c.messages.Load(), c.bytes.Load(), c.statements.Load()}
}

func (c *scaled) since(before traffic, began time.Time, cpu time.Duration) scaleTraffic {
	now := c.traffic()
	return scaleTraffic{time.Since(began), now.messages - before.messages, now.bytes - before.bytes, now.statements - before.statements, usage.Self() - cpu}
}

// dial opens a session with the leader, whose messages are encoded as between processes.
func (c *scaled) dial(ctx context.Context, leader actor.Host) (scheduler.Stream, error) {
	c.mu.Lock()
	to := c.hosts[leader.Address]
	c.mu.Unlock()
	if to == nil {
		return nil, fmt.Errorf("nobody is at %s", leader.Address)
	}
	ctx, end := context.WithCancel(ctx)
	w := &wireStream{c: c, ctx: ctx, end: end, up: make(chan []byte, 64), down: make(chan []byte, 64)}
	go func() {
		defer end()
		_ = to.Serve(ctx, (*servedStream)(w)) // why it ends is no matter: the host opens another
	}()
	return w, nil
}

// wireStream is a session within the process.
type wireStream struct {
	c        *scaled
	ctx      context.Context //nolint:containedctx // the stream's life
	end      context.CancelFunc
	up, down chan []byte
}

func (w *wireStream) Send(m *greenroomv1.ReportActorTypesRequest) error { return w.put(w.up, m) }

func (w *wireStream) Receive() (*greenroomv1.ReportActorTypesResponse, error) {
	m := &greenroomv1.ReportActorTypesResponse{}
	return m, w.get(w.down, m)
}

func (w *wireStream) Close() error {
	w.end()
	return nil
}

// servedStream is the leader's end.
type servedStream wireStream

func (w *servedStream) Send(m *greenroomv1.ReportActorTypesResponse) error {
	if m.GetOrders() != nil {
		w.c.ordered.Store(time.Now().UnixNano())
	}
	return (*wireStream)(w).put(w.down, m)
}

func (w *servedStream) Receive() (*greenroomv1.ReportActorTypesRequest, error) {
	m := &greenroomv1.ReportActorTypesRequest{}
	return m, (*wireStream)(w).get(w.up, m)
}

func (w *wireStream) put(to chan<- []byte, m proto.Message) error {
	text, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	select {
	case to <- text:
		w.c.messages.Add(1)
		w.c.bytes.Add(int64(len(text)))
		return nil
	case <-w.ctx.Done():
		return io.EOF
	}
}

func (w *wireStream) get(from <-chan []byte, m proto.Message) error {
	select {
	case text := <-from:
		return proto.Unmarshal(text, m)
	case <-w.ctx.Done():
		return io.EOF
	}
}

// noActors is a host that runs none.
type noActors struct{}

func (noActors) HandOver(context.Context, func(actor.Key) bool) error { return nil }

func (noActors) InChains() []actor.Key { return nil }
func (noActors) DropAll()              {}

// countedStore counts statements.
type countedStore struct {
	store.Cluster
	n *atomic.Int64
}

func (s *countedStore) RegisterHost(ctx context.Context, h actor.Host, length time.Duration) (actor.Host, error) {
	s.n.Add(1)
	return s.Cluster.RegisterHost(ctx, h, length)
}

func (s *countedStore) RenewHost(ctx context.Context, id actor.HostID, length time.Duration, sticky int) (time.Time, error) {
	s.n.Add(1)
	return s.Cluster.RenewHost(ctx, id, length, sticky)
}

func (s *countedStore) Hosts(ctx context.Context) ([]actor.Host, time.Time, error) {
	s.n.Add(1)
	return s.Cluster.Hosts(ctx)
}

func (s *countedStore) AcquireLease(ctx context.Context, name string, holder actor.HostID, length time.Duration) (actor.Lease, bool, error) {
	s.n.Add(1)
	return s.Cluster.AcquireLease(ctx, name, holder, length)
}

func (s *countedStore) RenewLease(ctx context.Context, l actor.Lease, length time.Duration) (bool, error) {
	s.n.Add(1)
	return s.Cluster.RenewLease(ctx, l, length)
}

func (s *countedStore) Lease(ctx context.Context, name string) (actor.Lease, bool, error) {
	s.n.Add(1)
	return s.Cluster.Lease(ctx, name)
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/scheduler/clustertest"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// process is one of a cluster of the test's.
type process struct {
	*Service
	name  string
	c     *testCluster
	db    *clustertest.Link
	alive atomic.Bool

	mu     sync.Mutex
	types  []protocol.Type
	dials  []protocol.Stream // that it opened
	served []context.CancelFunc
	cutOff bool // from other processes
	deaf   bool // what it sends to other processes is lost, and so are their answers

	handOvers, drops int
	moved            []func(actor.Key) bool // by hand-overs
	busy             chan struct{}          // not nil: hand-overs wait for its end
	inChains         []actor.Key
	stubborn         bool // also when nobody waits for them any more
}

// testCluster is processes that share a database and a network.
type testCluster struct {
	t         *testing.T
	db        *clustertest.Database
	mu        sync.Mutex
	processes []*process
	// takes is how long a message to another process takes.
	takes time.Duration
}

// slowStream is one whose messages to the leader take a while.
type slowStream struct {
	protocol.Stream
	takes time.Duration
}

func (s slowStream) Send(m *greenroomv1.ReportActorTypesRequest) error {
	<-time.After(s.takes)
	return s.Stream.Send(m)
}

const testLease = 3 * time.Second

func newTestCluster(t *testing.T) *testCluster {
	return &testCluster{t: t, db: clustertest.New()}
}

func (p *process) HandOver(ctx context.Context, moving func(actor.Key) bool) error {
	p.mu.Lock()
	p.handOvers++
	p.moved = append(p.moved, moving)
	busy, stubborn := p.busy, p.stubborn
	p.mu.Unlock()
	if stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	if busy != nil {
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *process) InChains() []actor.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inChains
}

func (p *process) DropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops++
}

func (p *process) setTypes(types ...protocol.Type) {
	p.mu.Lock()
	p.types = types
	p.mu.Unlock()
	p.TypesChanged()
}

func ringType(name string) protocol.Type {
	return protocol.Type{App: "a", Name: name, Placement: abi.PlacementRing, Generation: 1}
}

func stickyType(name string) protocol.Type {
	return protocol.Type{App: "a", Name: name, Placement: abi.PlacementSticky, Generation: 1}
}

// process makes one, which is not started.
func (c *testCluster) process(name string, change ...func(*Config)) *process {
	c.t.Helper()
	p := &process{name: name, c: c, types: []protocol.Type{ringType("R"), stickyType("S")}, db: &clustertest.Link{DB: c.db}}
	cfg := Config{
		Store: p.db, Self: actor.Host{Name: name, Cluster: "test", Address: name + ":1", Version: "v1"}, Lease: testLease, Actors: p,
		Types: func() []protocol.Type { p.mu.Lock(); defer p.mu.Unlock(); return slices.Clone(p.types) },
		Dial:  p.dial, Logger: slog.New(slog.DiscardHandler),
	}
	for _, ch := range change {
		ch(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	p.Service = s
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p
}

// start makes processes and starts them.
func (c *testCluster) start(names ...string) []*process {
	c.t.Helper()
	var ps []*process
	for _, name := range names {
		p := c.process(name)
		if err := p.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		p.alive.Store(true)
		ps = append(ps, p)
	}
	return ps
}

func (p *process) dial(ctx context.Context, leader actor.Host) (protocol.Stream, error) {
	if stream := p.dialDeaf(ctx); stream != nil {
		return stream, nil
	}
	p.c.mu.Lock()
	i := slices.IndexFunc(p.c.processes, func(q *process) bool { return q.name+":1" == leader.Address && q.alive.Load() })
	var q *process
	if i >= 0 {
		q = p.c.processes[i]
	}
	p.c.mu.Unlock()
	if q == nil || p.isCutOff() || q.isCutOff() {
		return nil, errors.New("connection refused")
	}
	stream := protocol.Pipe(ctx, func(ctx context.Context, s protocol.ServerStream) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		q.mu.Lock()
		q.served = append(q.served, cancel)
		q.mu.Unlock()
		return q.Serve(ctx, s)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials = append(p.dials, stream)
	if p.c.takes > 0 {
		return slowStream{stream, p.c.takes}, nil
	}
	return stream, nil
}

// dialDeaf returns a stream on which nothing comes, as where a network drops what is sent;
// nil if the process is not deaf.
func (p *process) dialDeaf(ctx context.Context) protocol.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deaf {
		return nil
	}
	stream := protocol.Pipe(ctx, func(ctx context.Context, _ protocol.ServerStream) error {
		<-ctx.Done()
		return ctx.Err()
	})
	p.dials = append(p.dials, stream)
	return stream
}

// deafen breaks the streams of a process; those that it opens while it is deaf stay open,
// and nothing comes on them.
func (p *process) deafen(deaf bool) {
	p.mu.Lock()
	p.deaf = deaf
	p.mu.Unlock()
	p.cut(deaf)
}

func (p *process) isCutOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutOff
}

// cut breaks the streams of a process; with stay it gets no new one.
func (p *process) cut(stay bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutOff = stay
	for _, s := range p.dials {
		_ = s.Close()
	}
	for _, cancel := range p.served {
		cancel()
	}
	p.dials, p.served = nil, nil
}

// kill ends a process as a crash does: nothing of it is released.
func (p *process) kill() {
	p.alive.Store(false)
	p.db.SetDown(true)
	p.cut(true)
	p.cancel()
	p.loops.Wait()
	p.until.Store(0)
}

// stop ends the processes that are left.
func (c *testCluster) stop() {
	for _, p := range c.processes {
		if p.alive.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			_ = p.Stop(ctx)
			cancel()
			p.alive.Store(false)
		}
	}
}

func key(typ string, n int) actor.Key {
	return actor.Key{App: "a", Type: typ, ID: fmt.Sprint("actor ", n)}
}

// holders returns who may run an actor now.
func (c *testCluster) holders(k actor.Key, policy string) []string {
	var names []string
	for _, p := range c.processes {
		if p.alive.Load() && p.Current(time.Now()) && p.Holds(k, policy) != actor.NotHeld {
			names = append(names, p.name)
		}
	}
	return names
}

// settled waits until every actor of the ring type is held and found by all, and
// returns how many each process holds. It fails after a time.
func (c *testCluster) settled(within time.Duration) map[string]int {
	c.t.Helper()
	deadline := time.Now().Add(within)
	for {
		counts, problem := c.look()
		if problem == "" {
			return counts
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("after %v: %s", within, problem)
		}
		<-time.After(25 * time.Millisecond) // of the bubble's time
	}
}

const lookedAt = 100

func (c *testCluster) look() (counts map[string]int, problem string) {
	counts = map[string]int{}
	for i := range lookedAt {
		k := key("R", i)
		holders := c.holders(k, abi.PlacementRing)
		if len(holders) > 1 {
			c.t.Fatalf("%v is held by %v", k, holders)
		}
		if len(holders) == 0 {
			return nil, fmt.Sprintf("nobody holds %v", k)
		}
		counts[holders[0]]++
		for _, p := range c.processes {
			if !p.alive.Load() {
				continue
			}
			where := p.Find(k, abi.PlacementRing)
			if where.Here != (p.name == holders[0]) {
				return nil, fmt.Sprintf("%s finds %v here: %v", p.name, k, where.Here)
			}
			if addr, _, ok := p.Peer(where.Host); !where.Here && (!ok || addr != holders[0]+":1") {
				return nil, fmt.Sprintf("%s finds %v at %q", p.name, k, addr)
			}
		}
	}
	return counts, ""
}

// leads returns the process that leads, nil if none does.
func (c *testCluster) leads() *process {
	for _, p := range c.processes {
		if p.alive.Load() && p.Leadership().Here && p.Leadership().Connected {
			return p
		}
	}
	return nil
}

// run runs a test in a bubble.
func run(t *testing.T, fn func(c *testCluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t)
		defer c.stop()
		fn(c)
	})
}

// waitFor waits until the cluster is settled as asked.
func (c *testCluster) waitFor(fit func(map[string]int) bool) map[string]int {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(25 * time.Millisecond) {
		counts, problem := c.look()
		if problem == "" && fit(counts) {
			return counts
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("it does not settle: %v %s", counts, problem)
		}
	}
}

func (c *testCluster) named(name string) *process {
	i := slices.IndexFunc(c.processes, func(p *process) bool { return p.name == name })
	return c.processes[i]
}

// acquired waits until some process owns a sticky actor, asked at one, and returns its
// name and how long it took.
func (c *testCluster) acquired(p *process, k actor.Key) (string, time.Duration) {
	c.t.Helper()
	began := time.Now()
	for time.Since(began) < 20*time.Second {
		where := p.Find(k, abi.PlacementSticky)
		switch {
		case where.Here:
			return p.name, time.Since(began)
		case where.Host != "":
			address, _, _ := p.Peer(where.Host)
			i := slices.IndexFunc(c.processes, func(q *process) bool { return q.alive.Load() && q.name+":1" == address })
			if i < 0 {
				<-time.After(5 * time.Millisecond)
				continue
			}
			q := c.processes[i]
			switch there := q.Find(k, abi.PlacementSticky); {
			case there.Here:
				p.Learned(k, q.Self())
				return q.name, time.Since(began)
			case there.Host != "":
				p.Learned(k, there.Host)
			default:
				wait(there.Wait)
			}
		default:
			wait(where.Wait)
		}
	}
	c.t.Fatalf("nobody owns %v", k)
	return "", 0
}

func wait(on <-chan struct{}) {
	select {
	case <-on:
	case <-time.After(50 * time.Millisecond):
	}
}

// isRegistered reports whether the process has a row, as whichever host.
func (p *process) isRegistered() bool { return slices.Contains(p.c.db.HostNames(), p.name) }

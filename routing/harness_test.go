package routing_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/leaktest"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// newest is the newest protocol between hosts.
const newest = 6

// table is the truth about who holds what in a test, and each host's view of it.
type table struct {
	mu      sync.Mutex
	owners  map[string]actor.HostID // by actor ID; missing: nobody
	members map[actor.HostID]string // addresses
	speaks  map[actor.HostID]int    // the newest protocol; missing: newest
	lost    map[actor.HostID]bool   // hosts that have lost the database
	away    map[string]string       // by actor ID: the name of the one server that may hold it
	changed chan struct{}
}

func newTable() *table {
	return &table{owners: map[string]actor.HostID{}, members: map[actor.HostID]string{}, speaks: map[actor.HostID]int{}, lost: map[actor.HostID]bool{}, away: map[string]string{}, changed: make(chan struct{})}
}

// update changes the table, and wakes what waits for it.
func (t *table) update(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *table) owner(id string) actor.HostID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owners[id]
}

// view is a host's placement: the table's, but for what it believes to know better.
type view struct {
	*table
	self    func() actor.HostID
	mu      sync.Mutex
	belief  map[string]actor.HostID
	learned []actor.HostID
}

func (v *view) Self() actor.HostID { return v.self() }

func (v *view) Find(key actor.Key, _ string) placement.Where {
	v.mu.Lock()
	owner, believes := v.belief[key.ID]
	v.mu.Unlock()
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	if !believes {
		owner = v.owners[key.ID]
	}
	if v.lost[v.Self()] {
		return placement.Where{Lost: true}
	}
	if name := v.away[key.ID]; name != "" {
		return placement.Where{Away: name}
	}
	switch owner {
	case "":
		return placement.Where{Wait: v.changed}
	case v.Self():
		return placement.Where{Here: true}
	}
	return placement.Where{Host: owner}
}

func (v *view) believes(id string, owner actor.HostID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.belief[id] = owner
}

func (v *view) Learned(key actor.Key, owner actor.HostID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if owner == "" {
		delete(v.belief, key.ID)
		return
	}
	v.belief[key.ID] = owner
	v.learned = append(v.learned, owner)
}

func (v *view) Peer(id actor.HostID) (string, int, bool) {
	v.table.mu.Lock()
	defer v.table.mu.Unlock()
	addr, ok := v.members[id]
	protocol, old := v.speaks[id]
	if !old {
		protocol = newest
	}
	return addr, protocol, ok
}

// fakeHost runs the actors that the table says it holds; it answers with its name.
type fakeHost struct {
	name  actor.HostID
	table *table
	turns atomic.Int64
	reads atomic.Bool // it answers what is read-only, as the method Read is, of all actors

	mu   sync.Mutex
	does func(ctx context.Context, inv actor.Invocation) (actor.Reply, error)
	last actor.Invocation
	// deleted is the trace of the last delete.
	deleted *actor.Trace
	timer   *actor.TimerSpec // the last that was set
}

func (h *fakeHost) deletedIn() *actor.Trace {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deleted
}

func (h *fakeHost) set(does func(ctx context.Context, inv actor.Invocation) (actor.Reply, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.does = does
}

func (h *fakeHost) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	if h.table.owner(inv.Key.ID) != h.name && (!inv.ReadOnly && inv.Method != "Read" || !h.reads.Load()) {
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrNotOwner}
	}
	h.turns.Add(1)
	h.mu.Lock()
	does := h.does
	h.last = inv
	h.mu.Unlock()
	if does != nil {
		return does(ctx, inv)
	}
	return actor.Reply{Payload: actor.Payload{Data: []byte(h.name)}, Version: 7, Fuel: 3}, nil
}

func (h *fakeHost) seen() actor.Invocation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func (h *fakeHost) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		to.Answer(h.Invoke(ctx, inv))
	}()
	return givenUp(cancel)
}

type givenUp func()

func (f givenUp) GiveUp() { f() }

func (h *fakeHost) Delete(ctx context.Context, key actor.Key) error {
	if h.table.owner(key.ID) != h.name {
		return &actor.TurnError{Key: key, Err: actor.ErrNotOwner}
	}
	h.mu.Lock()
	h.deleted = actor.TraceOf(ctx)
	h.mu.Unlock()
	h.turns.Add(1)
	return nil
}

func (h *fakeHost) SetTimer(ctx context.Context, spec actor.TimerSpec) (bool, error) {
	err := h.Delete(ctx, spec.Key) // as for any operation
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.timer = &spec
	}
	return true, err
}

func (h *fakeHost) CancelTimer(ctx context.Context, key actor.Key, name string) (bool, error) {
	err := h.Delete(ctx, key)
	h.mu.Lock()
	defer h.mu.Unlock()
	existed := err == nil && h.timer != nil && h.timer.Name == name
	h.timer = nil
	return existed, err
}

func (h *fakeHost) GetTimer(ctx context.Context, key actor.Key, name string) (actor.Timer, error) {
	err := h.Delete(ctx, key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && (h.timer == nil || h.timer.Name != name) {
		err = &actor.TurnError{Key: key, Err: actor.ErrTimerNotFound}
	}
	if err != nil {
		return actor.Timer{}, err
	}
	return actor.Timer{TimerSpec: *h.timer, Due: time.Unix(3e9, 11).UTC(), Left: 2}, nil
}

func (h *fakeHost) View(_ context.Context, key actor.Key) (host.View, error) {
	return host.View{Key: key, Version: 7, Active: h.table.owner(key.ID) == h.name}, nil
}

// member is one process of a test's cluster.
type member struct {
	id     actor.HostID
	host   *fakeHost
	view   *view
	router *routing.Router
	server *server.Server
	addr   string

	forwarded sync.Map // outcome → *atomic.Int64
}

func (m *member) count(outcome string) int64 {
	n, ok := m.forwarded.Load(outcome)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

// nothing stands for the parts of the server that no test here calls.
type nothing struct{ rpc.Modules }

func (nothing) Current(string, string) (actor.Deployment, *abi.TypeSpec, error) {
	return actor.Deployment{}, nil, actor.ErrTypeNotFound
}

func (nothing) ListServices(context.Context, actor.ServiceQuery) ([]actor.Service, error) {
	return nil, nil
}

func (nothing) ListActors(context.Context, store.ActorQuery) ([]store.ActorInfo, string, error) {
	return nil, "", nil
}

func (nothing) ScanActors(context.Context, store.ActorScan, func(*store.ScannedActor) bool) (int, string, error) {
	return 0, "", nil
}

// setup changes what a member is made of.
type setup struct {
	router func(*routing.Config)
	server func(*server.Config)
	addr   string
}

// join starts a member.
func (t *table) join(tb testing.TB, id actor.HostID, s setup) *member {
	tb.Helper()
	m := &member{id: id, host: &fakeHost{name: id, table: t}}
	m.view = &view{table: t, self: func() actor.HostID { return m.host.name }, belief: map[string]actor.HostID{}}
	if s.addr == "" {
		s.addr = freeAddr(tb)
	}
	conf := routing.Config{
		Local: m.host, Timers: m.host, Placement: m.view, Policy: func(string, string) (string, bool) { return "ring", true },
		Cluster: "test", APIAddress: s.addr, MinProtocol: 1, MaxProtocol: newest, PeerTimeout: 2 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Events: routing.Events{Forwarded: func(outcome string) {
			n, _ := m.forwarded.LoadOrStore(outcome, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		}},
	}
	if s.router != nil {
		s.router(&conf)
	}
	var err error
	if m.router, err = routing.New(conf); err != nil {
		tb.Fatal(err)
	}
	if err := m.router.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	sc := server.Config{
		Config:   edge.Config{Addr: s.addr, Logger: slog.New(slog.DiscardHandler), Peers: &edge.Peers{Cluster: "test"}},
		Backends: rpc.Backends{Host: m.router, Modules: nothing{}, Actors: nothing{}, Interconnect: m.router},
	}
	if s.server != nil {
		s.server(&sc)
	}
	if m.server, err = server.New(sc); err != nil {
		tb.Fatal(err)
	}
	if err := m.server.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	m.addr = s.addr
	t.update(func() { t.members[id] = m.addr })
	tb.Cleanup(func() {
		m.stop(tb)
	})
	return m
}

func (m *member) stop(tb testing.TB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 5*time.Second)
	defer cancel()
	_ = m.server.Stop(ctx)
	_ = m.router.Stop(ctx)
}

// freeAddr is an address that nobody listens at: a server must know its own before it
// listens.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// pair is a cluster of two; the second one holds the actor "b", the first "a".
func pair(tb testing.TB, s setup) (*table, *member, *member) {
	tb.Helper()
	t := newTable()
	a, b := t.join(tb, "host-a", s), t.join(tb, "host-b", s)
	t.update(func() { t.owners["a"], t.owners["b"] = a.id, b.id })
	return t, a, b
}

func call(id string) actor.Invocation {
	return actor.Invocation{Key: actor.Key{App: "default", Type: "T", ID: id}, Method: "M"}
}

// patience is far more than anything here takes on the busiest machine.
const patience = 5 * time.Minute

// eventually polls, which needs no sleep to be right: it ends as soon as it may.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatal("never: " + what)
		}
		<-time.After(time.Millisecond)
	}
}

func text(r actor.Reply) string { return fmt.Sprintf("%s v%d f%d", r.Payload.Data, r.Version, r.Fuel) }

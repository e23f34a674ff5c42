package client

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/leaktest"
	"github.com/greenroom-run/greenroom/server"
	"github.com/greenroom-run/greenroom/server/edge"
	"github.com/greenroom-run/greenroom/server/rpc"
	"github.com/greenroom-run/greenroom/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// fakeHost does what a test wants; by itself it echoes.
type fakeHost struct {
	mu     sync.Mutex
	invoke func(ctx context.Context, inv actor.Invocation) (actor.Reply, error)
	calls  int
}

func (h *fakeHost) does(invoke func(ctx context.Context, inv actor.Invocation) (actor.Reply, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.invoke = invoke
}

func (h *fakeHost) called() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls
}

func (h *fakeHost) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	h.mu.Lock()
	h.calls++
	invoke := h.invoke
	h.mu.Unlock()
	if invoke != nil {
		return invoke(ctx, inv)
	}
	return actor.Reply{Payload: inv.Payload, Version: 1}, nil
}

// Begin runs every call on a goroutine of its own.
func (h *fakeHost) Begin(ctx context.Context, inv actor.Invocation, to host.Receiver) host.Begun {
	go func() { to.Answer(h.Invoke(ctx, inv)) }()
	return watchful{}
}

// watchful is a call that watches its context by itself.
type watchful struct{}

func (watchful) GiveUp() {}

func (h *fakeHost) Delete(context.Context, actor.Key) error { return actor.ErrActorNotFound }

func (h *fakeHost) View(context.Context, actor.Key) (host.View, error) {
	return host.View{}, actor.ErrActorNotFound
}

// blocks makes invocations wait until release is closed or their context ends;
// entered gets each that began.
func (h *fakeHost) blocks() (entered chan actor.Invocation, release chan struct{}) {
	entered, release = make(chan actor.Invocation, 10_000), make(chan struct{})
	h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		entered <- inv
		select {
		case <-release:
			return actor.Reply{Payload: inv.Payload, Version: 1}, nil
		case <-ctx.Done():
			return actor.Reply{}, ctx.Err()
		}
	})
	return entered, release
}

// logWatcher tells of a message in a server's log.
type logWatcher struct {
	message string
	seen    chan struct{} // of some capacity
}

func (logWatcher) Enabled(context.Context, slog.Level) bool { return true }
func (w logWatcher) WithAttrs([]slog.Attr) slog.Handler     { return w }
func (w logWatcher) WithGroup(string) slog.Handler          { return w }
func (w logWatcher) Handle(_ context.Context, r slog.Record) error {
	if r.Message == w.message {
		select {
		case w.seen <- struct{}{}:
		default:
		}
	}
	return nil
}

// nothing stands for the parts of the server that no test here calls.
type nothing struct {
	rpc.Modules
}

func (nothing) HasService(string) bool { return false }

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

func newServer(tb testing.TB, h rpc.Host, addr string, change func(*server.Config)) *server.Server {
	tb.Helper()
	conf := server.Config{
		Config:   edge.Config{Addr: addr, Logger: slog.New(slog.DiscardHandler)},
		Backends: rpc.Backends{Host: h, Modules: nothing{}, Actors: nothing{}},
		// No call with a key is refused because the machine is busy.
		Standstill: time.Hour,
	}
	if change != nil {
		change(&conf)
	}
	s, err := server.New(conf)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// startServer runs a server until the test ends.
func startServer(tb testing.TB, h rpc.Host, addr string, change func(*server.Config)) *server.Server {
	tb.Helper()
	s := newServer(tb, h, addr, change)
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { stopServer(tb, s) })
	return s
}

func stopServer(tb testing.TB, s *server.Server) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // far more than it takes
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		tb.Errorf("stop: %v", err)
	}
}

// newClient makes a client that is quick to try again, for minutes.
func newClient(tb testing.TB, url string, change func(*Config)) *Client {
	tb.Helper()
	conf := Config{URL: url, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, MaxAttempts: 10_000}
	if change != nil {
		change(&conf)
	}
	c, err := New(conf)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// proxy passes connections on to a server, and cuts them when told.
type proxy struct {
	net.Listener
	to      string
	running sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	over  bool
	lose  int // so many connections break when the client has said something
}

func startProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, conns: make(map[net.Conn]struct{})}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(c) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) url() string { return "http://" + p.Addr().String() }

func (p *proxy) pass(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	lost := p.lose > 0
	p.lose--
	p.mu.Unlock()
	if lost {
		_, _ = client.Read(make([]byte, 1))
		return
	}
	var d net.Dialer
	srv, err := d.DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		return
	}
	defer srv.Close()
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return
	}
	p.conns[client], p.conns[srv] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(srv, client); _ = srv.Close() })
	both.Go(func() { _, _ = io.Copy(client, srv); _ = client.Close() })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, srv)
	p.mu.Unlock()
}

// cut breaks every connection, and reports how many there were.
func (p *proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns) / 2
	for c := range p.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
	return n
}

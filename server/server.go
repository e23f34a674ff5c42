package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/validate"
	"github.com/rs/cors"

	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/metrics"
	"github.com/greenroom-run/greenroom/server/stream"
)

// Server serves the API. Make it with [New]; its methods may be called
// concurrently.
type Server struct {
	conf        Config
	log         *slog.Logger
	metrics     *metrics.Metrics
	tls         *tls.Config
	admission   admission
	cors        *cors.Cors // nil: no other origin may call
	validator   *validate.Interceptor
	errorWriter *connect.ErrorWriter
	health      *health
	routes      *routes
	streams     places // for InvokeStreams
	subscribers places // for ReminderService.Connect
	streamConf  *stream.Config
	requests    requestsUse
	strangers   strangers
	// draining ends when Stop begins: long-lived streams end by themselves then.
	draining context.Context
	drain    context.CancelFunc
	leaving  atomic.Bool // answers end their connections

	mu       sync.Mutex
	state    serverState
	listener net.Listener
	http     *http.Server
	// peers is where hosts of the cluster are listened to, if that is apart.
	peers     net.Listener
	peersHTTP *http.Server
	cancel    context.CancelFunc // of every request's context
	running   sync.WaitGroup     // the goroutines that Start began
}

type serverState uint8

const (
	stateNew serverState = iota
	stateStarted
	stateStopped
)

const (
	// maxHeaderBytes holds a Connect GET of the longest URL that clients make,
	// with its payload, beside ordinary headers.
	maxHeaderBytes = 64 << 10
	// maxStreams is how many calls one HTTP/2 connection may have open.
	maxStreams = 1000
	// A peer that is silent for pingAfter is asked, and given up after pingTimeout.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// New checks the configuration and reads the certificates. It refuses an address
// that others can reach unless callers are asked for a token or a certificate,
// or Insecure is set.
func New(conf Config) (*Server, error) {
	conf = conf.WithDefaults()
	if err := conf.validate(); err != nil {
		return nil, err
	}
	tlsConf, err := conf.TLS.load()
	if err != nil {
		return nil, err
	}
	if err := conf.Metrics.RegisterGauges(conf.Gauges); err != nil {
		return nil, fmt.Errorf("server: register gauges: %w", err)
	}
	if conf.Cluster != nil {
		if err := conf.Metrics.RegisterCluster(conf.Cluster, conf.unreachable); err != nil {
			return nil, fmt.Errorf("server: register gauges: %w", err)
		}
	}
	if conf.Reminders != nil {
		if err := conf.Metrics.RegisterReminders(conf.Reminders.Stats); err != nil {
			return nil, fmt.Errorf("server: register gauges: %w", err)
		}
	}
	s := &Server{
		conf:        conf,
		log:         conf.Logger,
		metrics:     conf.Metrics,
		tls:         tlsConf,
		admission:   newAdmission(conf),
		cors:        newCORS(conf),
		validator:   validate.NewInterceptor(),
		errorWriter: connect.NewErrorWriter(),
		health:      newHealth(conf.Logger),
	}
	s.requests.init(conf)
	s.strangers.init(conf.Logger)
	s.draining, s.drain = context.WithCancel(context.Background())
	s.streams = newPlaces(fair.Bounds{Name: "streams open", Total: int64(conf.bounds.streams)}, "put more calls on each, or use another server")
	s.subscribers = newPlaces(fair.Bounds{Name: "subscribers", Total: int64(conf.bounds.streams)}, "have each subscribe to more, or use another server")
	s.streamConf = s.newStreamConfig()
	s.routes = s.newRoutes()
	return s, nil
}

// unreachable is how many hosts of the cluster calls from here could not reach.
func (c Config) unreachable() int {
	if c.Peers == nil {
		return 0
	}
	return len(c.Peers.Interconnect.Unreachable())
}

// Start listens and serves until Stop. It returns once the address is taken; ctx
// bounds only that.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != stateNew {
		return errors.New("server: Start was called before; make a new Server")
	}
	l, err := listen(ctx, s.conf.Addr, s.conf.Listener)
	if err != nil {
		return fmt.Errorf("server: listen: %w", err)
	}
	// localhost is loopback by convention only.
	if addr, ok := l.Addr().(*net.TCPAddr); ok && s.admission.loopbackNamesOnly && !addr.IP.IsLoopback() {
		_ = l.Close()
		return fmt.Errorf("server: listen: %s is %s here, which can be reached from other machines; listen on 127.0.0.1", s.conf.Addr, addr)
	}
	if s.conf.Peers != nil && s.conf.Peers.Addr != "" {
		if s.peers, err = listen(ctx, s.conf.Peers.Addr, s.conf.Peers.Listener); err != nil {
			_ = l.Close()
			return fmt.Errorf("server: listen for other hosts: %w", err)
		}
	}
	s.begin(ctx, l)
	s.warn(ctx, l.Addr())
	s.log.LogAttrs(ctx, slog.LevelInfo, "server listens",
		slog.String("address", l.Addr().String()), slog.Bool("tls", s.tls != nil),
		slog.Int("tokens", len(s.admission.tokens)), slog.Bool("client_certificates", s.conf.TLS.ClientCAFile != ""))
	return nil
}

// listen returns the listener that is there, or one at an address.
func listen(ctx context.Context, addr string, there net.Listener) (net.Listener, error) {
	if there != nil {
		return there, nil
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

// warn tells of what is permitted and seldom meant.
func (s *Server) warn(ctx context.Context, listening net.Addr) {
	for _, t := range s.conf.tokens() {
		if len(t.Secret) < minTokenLen {
			s.log.LogAttrs(ctx, slog.LevelWarn, "a token is short and can be guessed; use a random one",
				slog.String("token", t.Name), slog.Int("characters", len(t.Secret)), slog.Int("at_least", minTokenLen))
		}
	}
	if addr, ok := listening.(*net.TCPAddr); ok && s.tls == nil && !addr.IP.IsLoopback() {
		s.log.LogAttrs(ctx, slog.LevelWarn, "plain text can be read and changed on its way from other machines; use TLS, here or in front of the server",
			slog.String("address", listening.String()))
	}
}

// begin serves what l accepts, under s.mu.
func (s *Server) begin(ctx context.Context, l net.Listener) {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.state, s.listener, s.cancel = stateStarted, l, cancel
	s.http = s.newHTTPServer(base, s)

	s.running.Go(func() { s.health.run(base, s.conf.bounds.healthInterval, s.conf.Check) })
	l = newConnections(l, s.conf.MaxConnections, s.metrics)
	s.running.Go(func() {
		if err := s.serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.LogAttrs(base, slog.LevelError, "server ended", slog.Any("error", err))
			s.health.stop()
			s.conf.Logs.close()
		}
	})
	if s.peers == nil {
		return
	}
	s.peersHTTP = s.newHTTPServer(base, peerHandler{s})
	peers := s.peers
	if c := s.conf.Peers.Credentials; c != nil {
		peers = tls.NewListener(peers, s.strangers.watch(c.Server()))
	}
	s.running.Go(func() {
		if err := s.peersHTTP.Serve(peers); !errors.Is(err, http.ErrServerClosed) {
			s.log.LogAttrs(base, slog.LevelError, "server for other hosts ended", slog.Any("error", err))
		}
	})
}

// serve serves clients, and the hosts of the cluster where they come to the same
// address.
func (s *Server) serve(l net.Listener) error {
	peers := s.conf.Peers
	shared := peers != nil && peers.Addr == "" && peers.Credentials != nil
	switch {
	case s.tls != nil && shared:
		s.http.TLSConfig = peers.tlsFor(s.tls, s.strangers.watch(peers.Credentials.Server()))
		return s.http.ServeTLS(l, "", "")
	case s.tls != nil:
		return s.http.ServeTLS(l, "", "")
	case shared:
		return s.http.Serve(newSplitter(l, peers.tlsFor(nil, s.strangers.watch(peers.Credentials.Server())), s.conf.bounds.readHeaderTimeout))
	}
	return s.http.Serve(l)
}

func (s *Server) newHTTPServer(base context.Context, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(s.tls == nil)
	return &http.Server{
		Handler:           handler,
		TLSConfig:         s.tls,
		Protocols:         protocols,
		ReadHeaderTimeout: s.conf.bounds.readHeaderTimeout,
		IdleTimeout:       s.conf.bounds.idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingTimeout,
			WriteByteTimeout:     s.conf.bounds.bodyTimeout,
		},
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    log.New(&s.strangers, "", 0),
	}
}

// Addr returns the address that the server listens on; nil before Start.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// PeersAddr returns the address where hosts of the cluster are listened to; nil before
// Start, or if there is none.
func (s *Server) PeersAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conf.Peers == nil || s.listener == nil:
		return nil
	case s.peers != nil:
		return s.peers.Addr()
	}
	return s.listener.Addr()
}

// Drain tells those who ask for or watch health that the server is about to stop, and
// returns after [Config.DrainDelay], or when ctx ends. The server goes on serving: new
// connections as well, until Stop. From the half of that time on, each answer ends its
// connection, once that has no other request, so that clients do not meet one that Stop
// closes.
func (s *Server) Drain(ctx context.Context) {
	s.health.stop()
	for range 2 {
		half := time.NewTimer(s.conf.DrainDelay / 2)
		select {
		case <-half.C:
		case <-ctx.Done():
			half.Stop()
		}
		s.leaving.Store(true)
	}
}

// announceFor is how long streams go on once clients are told that their connections are
// about to end. One that knows closes its connection with its last stream; HTTP/2 gives
// others a second to notice.
const announceFor = 10 * time.Millisecond

// Stop refuses new connections, tells those who watch health, and waits for the
// requests in flight. When ctx ends first it cancels them, cuts their
// connections and returns ctx's error. It is safe twice, and before Start.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	state := s.state
	s.state = stateStopped
	s.mu.Unlock()
	if state == stateNew {
		s.drain()
		return nil
	}
	s.health.stop()
	s.conf.Logs.close()
	servers := []*http.Server{s.http}
	if s.peersHTTP != nil {
		servers = append(servers, s.peersHTTP)
	}
	ended := make(chan error, len(servers))
	for _, hs := range servers {
		go func() { ended <- hs.Shutdown(ctx) }()
	}
	announced := time.NewTimer(announceFor)
	defer announced.Stop()
	select {
	case <-announced.C:
	case <-ctx.Done():
	}
	s.drain()
	var err error
	for range servers {
		err = errors.Join(err, <-ended)
	}
	s.cancel()
	if err != nil { // nothing is left that the errors of closing could tell
		_ = s.http.Close()
		if s.peersHTTP != nil {
			_ = s.peersHTTP.Close()
		}
	}
	s.running.Wait()
	if err != nil {
		return fmt.Errorf("server: stop: %w", err)
	}
	return nil
}

package edge

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
	"time"
)

// Listeners are where clients and the other hosts of the cluster reach an edge.
//
//	new ── start ──▶ started ── stop ──▶ stopped
//	 └──────────────── stop ───────────────┘
type Listeners struct {
	edge   *Edge
	tls    *tls.Config // nil: plain text
	beside func(context.Context)
	failed func()

	mu       sync.Mutex
	state    listenState
	listener net.Listener
	http     *http.Server
	// peers is where hosts of the cluster are listened to, if that is apart.
	peers     net.Listener
	peersHTTP *http.Server
	cancel    context.CancelFunc // of every request's context
	running   sync.WaitGroup     // the goroutines that start began
}

type listenState uint8

const (
	stateNew listenState = iota
	stateStarted
	stateStopped
)

const (
	// MaxHeaderBytes holds a Connect GET of the longest URL that clients make,
	// with its payload, beside ordinary headers.
	MaxHeaderBytes = 64 << 10
	// maxStreams is how many calls one HTTP/2 connection may have open.
	maxStreams = 1000
	// A peer that is silent for pingAfter is asked, and given up after pingTimeout.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// NewListeners reads the certificates. beside runs from start until stop, and failed is called
// if clients are no longer served although nobody has stopped it.
func NewListeners(e *Edge, beside func(context.Context), failed func()) (*Listeners, error) {
	tlsConf, err := e.Conf.TLS.load()
	return &Listeners{edge: e, tls: tlsConf, beside: beside, failed: failed}, err
}

// Start listens and serves until stop. It returns once the addresses are taken; ctx
// bounds only that.
func (l *Listeners) Start(ctx context.Context) error {
	if err := l.start(ctx); err != nil {
		return err
	}
	attrs := []slog.Attr{slog.String("address", l.Addr().String())}
	if peers := l.PeersAddr(); peers != nil {
		attrs = append(attrs, slog.String("peers_address", peers.String()))
	}
	l.edge.Log.LogAttrs(ctx, slog.LevelInfo, "server listens", append(attrs,
		slog.Bool("tls", l.tls != nil), slog.Int("tokens", len(l.edge.admission.tokens)),
		slog.Bool("client_certificates", l.edge.Conf.TLS.ClientCAFile != ""))...)
	return nil
}

func (l *Listeners) start(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != stateNew {
		return errors.New("server: Start was called before; make a new Server")
	}
	conf := &l.edge.Conf
	listener, err := listen(ctx, conf.Addr, conf.Listener)
	if err != nil {
		return fmt.Errorf("server: listen: %w", err)
	}
	// localhost is loopback by convention only.
	if addr, ok := listener.Addr().(*net.TCPAddr); ok && l.edge.admission.loopbackNamesOnly && !addr.IP.IsLoopback() {
		_ = listener.Close()
		return fmt.Errorf("server: listen: %s is %s here, which can be reached from other machines; listen on 127.0.0.1", conf.Addr, addr)
	}
	if conf.Peers != nil && conf.Peers.Addr != "" {
		if l.peers, err = listen(ctx, conf.Peers.Addr, conf.Peers.Listener); err != nil {
			_ = listener.Close()
			return fmt.Errorf("server: listen for other hosts: %w", err)
		}
	}
	l.begin(ctx, listener)
	l.warn(ctx, listener.Addr())
	return nil
}

// listen returns given, or else a listener at an address.
func listen(ctx context.Context, addr string, given net.Listener) (net.Listener, error) {
	if given != nil {
		return given, nil
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}

// warn logs what is permitted and seldom meant.
func (l *Listeners) warn(ctx context.Context, listening net.Addr) {
	for _, t := range l.edge.Conf.tokens() {
		if len(t.Secret) < minTokenLen {
			l.edge.Log.LogAttrs(ctx, slog.LevelWarn, "a token is short and can be guessed; use a random one",
				slog.String("token", t.Name), slog.Int("characters", len(t.Secret)), slog.Int("at_least", minTokenLen))
		}
	}
	if addr, ok := listening.(*net.TCPAddr); ok && l.tls == nil && !addr.IP.IsLoopback() {
		l.edge.Log.LogAttrs(ctx, slog.LevelWarn, "plain text can be read and changed on its way from other machines; use TLS, here or in front of the server",
			slog.String("address", listening.String()))
	}
}

// maxPeerConnections bounds the connections to a listener for hosts alone. They need a few
// each; the limit of open files leaves as many beside the clients'.
const maxPeerConnections = 1024

// begin serves what listener accepts, under l.mu.
func (l *Listeners) begin(ctx context.Context, listener net.Listener) {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.state, l.listener, l.cancel = stateStarted, listener, cancel
	l.http = l.NewHTTPServer(base, l.edge)

	l.running.Go(func() { l.beside(base) })
	listener = newConnections(listener, l.edge.Conf.MaxConnections, l.edge.Metrics)
	l.running.Go(func() {
		if err := l.serve(listener); !errors.Is(err, http.ErrServerClosed) {
			l.edge.Log.LogAttrs(base, slog.LevelError, "server ended", slog.Any("error", err))
			l.failed()
		}
	})
	if l.peers == nil {
		return
	}
	l.peersHTTP = l.NewHTTPServer(base, peerHandler{l.edge})
	peers := net.Listener(newConnections(l.peers, maxPeerConnections, l.edge.Metrics))
	if c := l.edge.Conf.Peers.Credentials; c != nil {
		peers = tls.NewListener(peers, l.edge.unadmitted.watch(c.Server()))
	}
	l.running.Go(func() {
		if err := l.peersHTTP.Serve(peers); !errors.Is(err, http.ErrServerClosed) {
			l.edge.Log.LogAttrs(base, slog.LevelError, "server for other hosts ended", slog.Any("error", err))
		}
	})
}

// Serve serves clients, and the hosts of the cluster where they come to the same
// address.
func (l *Listeners) serve(listener net.Listener) error {
	peers := l.edge.Conf.Peers
	shared := peers != nil && peers.Addr == "" && peers.Credentials != nil
	switch {
	case l.tls != nil && shared:
		l.http.TLSConfig = peers.tlsFor(l.tls, l.edge.unadmitted.watch(peers.Credentials.Server()))
		return l.http.ServeTLS(listener, "", "")
	case l.tls != nil:
		return l.http.ServeTLS(listener, "", "")
	case shared:
		return l.http.Serve(newSplitter(listener, peers.tlsFor(nil, l.edge.unadmitted.watch(peers.Credentials.Server())), l.edge.Conf.Bounds.ReadHeaderTimeout))
	}
	return l.http.Serve(listener)
}

// NewHTTPServer returns an HTTP server with the bounds of the edge; its requests end with base.
func (l *Listeners) NewHTTPServer(base context.Context, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(l.tls == nil)
	bounds := &l.edge.Conf.Bounds
	return &http.Server{
		Handler:           handler,
		TLSConfig:         l.tls,
		Protocols:         protocols,
		ReadHeaderTimeout: bounds.ReadHeaderTimeout,
		IdleTimeout:       bounds.IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      pingAfter,
			PingTimeout:          pingTimeout,
			// What a connection carries is blocked as a whole, whatever the deadlines of its
			// streams.
			WriteByteTimeout: bounds.AcceptTimeout,
		},
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    log.New(&l.edge.unadmitted, "", 0),
	}
}

// Addr returns the address that clients are listened to at; nil before start.
func (l *Listeners) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return nil
	}
	return l.listener.Addr()
}

// PeersAddr returns the address for hosts of the cluster; nil before start, or if the server
// listens for none.
func (l *Listeners) PeersAddr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.edge.Conf.Peers == nil || l.listener == nil:
		return nil
	case l.peers != nil:
		return l.peers.Addr()
	}
	return l.listener.Addr()
}

// announceFor is how long streams continue once clients have been told that their connections
// are about to end. One that knows closes its connection with its last stream; HTTP/2 gives
// others a second to notice.
const announceFor = 10 * time.Millisecond

// Stop refuses new connections, calls drain once clients know, and waits for the requests in
// flight. When ctx ends first it cancels them, cuts their connections and returns ctx's error.
// It is safe twice, and before start.
func (l *Listeners) Stop(ctx context.Context, drain func()) error {
	l.mu.Lock()
	state := l.state
	l.state = stateStopped
	l.mu.Unlock()
	if state == stateNew || l.http == nil {
		drain()
		return nil
	}
	servers := []*http.Server{l.http}
	if l.peersHTTP != nil {
		servers = append(servers, l.peersHTTP)
	}
	ended := make(chan error, len(servers))
	for _, hs := range servers {
		go func() { ended <- hs.Shutdown(ctx) }()
	}
	select {
	case <-time.After(announceFor):
	case <-ctx.Done():
	}
	drain()
	var err error
	for range servers {
		err = errors.Join(err, <-ended)
	}
	l.cancel()
	if err != nil {
		for _, hs := range servers {
			_ = hs.Close() // of interest is why Shutdown failed
		}
	}
	l.running.Wait()
	if err != nil {
		return fmt.Errorf("server: stop: %w", err)
	}
	return nil
}

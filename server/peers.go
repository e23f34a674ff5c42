package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/routing"
	"github.com/greenroom-run/greenroom/server/failure"
)

// Peers makes the server that of a host of a cluster: it takes what other hosts send.
type Peers struct {
	// Addr is where the other hosts are listened to, HOST:PORT. Empty: where clients
	// are; hosts ask for the cluster's name, which no client does.
	Addr string
	// Listener is used instead of listening at Addr. Defaults to none.
	Listener net.Listener
	// Credentials prove that a peer belongs to the cluster. Without them peers speak
	// plain text and are admitted as callers of the API are, with an admin's token where
	// tokens are asked for: for loopback, or where Insecure lets everybody in.
	Credentials *routing.Credentials
	// Cluster is the cluster's name. Required.
	Cluster string
	// Interconnect takes calls. Required.
	Interconnect Interconnect
	// Services are further ones that only hosts speak.
	Services []PeerService
}

// Interconnect takes the calls that other hosts send; [*routing.Router] does.
type Interconnect interface {
	Accept(hello *greenroomv1.ExchangeHello) (*routing.Accepted, *greenroomv1.ExchangeHello, error)
	// Reach asks hosts which of them they cannot reach.
	Reach(ctx context.Context, hosts []actor.HostID) []routing.Reach
	// Unreachable are hosts that calls from here could not reach.
	Unreachable() []routing.Unreachable
	// TailLogs is LogService.Tail for what another host remembers and runs.
	TailLogs(ctx context.Context, host actor.HostID, req *greenroomv1.TailRequest, each func(*greenroomv1.TailResponse) error) error
}

// PeerService is a service between hosts. Its streams are not bounded here.
type PeerService struct {
	Handler    http.Handler
	Procedures []string // the paths of its methods
}

func (p *Peers) validate(c Config) error {
	switch {
	case p == nil:
		return nil
	case p.Cluster == "":
		return errors.New("server: Config.Peers.Cluster is empty; give the cluster's name")
	case p.Interconnect == nil:
		return errors.New("server: Config.Peers.Interconnect is nil; give the router")
	}
	addr := c.Addr
	if p.Addr != "" {
		addr = p.Addr
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("server: Config.Peers.Addr %q is not of the form HOST:PORT: %w", p.Addr, err)
	}
	if p.Credentials == nil && !c.Insecure && !isLoopbackName(host) {
		return fmt.Errorf("server: other hosts reach this one at %s, from other machines too: hosts must prove that they belong to the cluster; "+
			"give all of them the same key with --cluster-key-file, or certificates with --cluster-cert, --cluster-cert-key and --cluster-ca; a server that is alone may let them in at a loopback address, --cluster-listen 127.0.0.1:0", addr)
	}
	return nil
}

// tlsFor adds what peers are told to what clients are: the name that is asked for
// tells who it is.
func (p *Peers) tlsFor(clients, peers *tls.Config) *tls.Config {
	name := routing.ServerName(p.Cluster)
	if clients == nil {
		return peers
	}
	conf := clients.Clone()
	conf.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if h.ServerName == name {
			return peers.GetConfigForClient(h)
		}
		return nil, nil //nolint:nilnil // as crypto/tls has it: the configuration itself
	}
	return conf
}

// isPeer reports whether a request came over a connection that only hosts of the
// cluster can open.
func (s *Server) isPeer(r *http.Request) bool {
	p := s.conf.Peers
	return p != nil && p.Credentials != nil && r.TLS != nil && r.TLS.ServerName == routing.ServerName(p.Cluster) && len(r.TLS.VerifiedChains) > 0
}

// admitPeer returns why a request is not of a host of the cluster; nil if it is.
func (s *Server) admitPeer(r *http.Request) *failure.Error {
	if s.isPeer(r) {
		return nil
	}
	if s.conf.Peers.Credentials != nil {
		return &failure.Error{Kind: failure.KindPermissionDenied, Text: "this is for hosts of the cluster, which prove it with certificates; give all hosts the same --cluster-key-file, or certificates of the same authority"}
	}
	caller, refused := s.admission.admit(r)
	switch {
	case refused != nil:
		return refused
	case caller.require(RoleAdmin) != nil, caller.requireEverywhere() != nil:
		return &failure.Error{Kind: failure.KindPermissionDenied, Text: "this is for hosts of the cluster, which without certificates need an admin's token; give all hosts the same --token"}
	}
	return nil
}

// peerHandler serves the listener that is for hosts alone.
type peerHandler struct{ s *Server }

// ServeHTTP implements [http.Handler].
func (h peerHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.s.serveHTTP(w, r, true) }

// splitter is a listener whose connections may begin with a TLS handshake, which peers
// do, or not, as clients: their first byte tells.
type splitter struct {
	net.Listener
	tls     *tls.Config
	timeout time.Duration // for the first byte

	accepted chan net.Conn
	failed   chan error // of capacity 1
	closed   chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex
	waiting map[net.Conn]struct{} // for their first byte; nil: closed
}

func newSplitter(l net.Listener, conf *tls.Config, timeout time.Duration) *splitter {
	s := &splitter{
		Listener: l, tls: conf, timeout: timeout,
		accepted: make(chan net.Conn), failed: make(chan error, 1), closed: make(chan struct{}), waiting: map[net.Conn]struct{}{},
	}
	s.running.Go(s.run)
	return s
}

func (s *splitter) run() {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			s.failed <- err
			return
		}
		s.mu.Lock()
		open := s.waiting != nil
		if open {
			s.waiting[conn] = struct{}{}
			s.running.Go(func() { s.sort(conn) })
		}
		s.mu.Unlock()
		if !open {
			_ = conn.Close()
		}
	}
}

// handshake is the first byte of a TLS connection, which no HTTP request has.
const handshake = 0x16

// sort waits for a connection's first byte.
func (s *splitter) sort(conn net.Conn) {
	c := &begunConn{Conn: conn}
	_ = conn.SetReadDeadline(time.Now().Add(s.timeout))
	_, err := conn.Read(c.first[:])
	_ = conn.SetReadDeadline(time.Time{})
	s.mu.Lock()
	delete(s.waiting, conn)
	s.mu.Unlock()
	if err != nil {
		_ = conn.Close()
		return
	}
	var sorted net.Conn = c
	if c.first[0] == handshake {
		sorted = tls.Server(c, s.tls)
	}
	select {
	case s.accepted <- sorted:
	case <-s.closed:
		_ = conn.Close()
	}
}

// Accept implements [net.Listener].
func (s *splitter) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case err := <-s.failed:
		return nil, err
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (s *splitter) Close() error {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if waiting == nil {
		return nil
	}
	close(s.closed)
	err := s.Listener.Close()
	for conn := range waiting {
		_ = conn.Close()
	}
	s.running.Wait()
	return err
}

// begunConn is a connection whose first byte was read.
type begunConn struct {
	net.Conn
	first [1]byte
	given bool
}

// Read implements [net.Conn].
func (c *begunConn) Read(p []byte) (int, error) {
	if c.given || len(p) == 0 {
		return c.Conn.Read(p)
	}
	c.given = true
	p[0] = c.first[0]
	return 1, nil
}

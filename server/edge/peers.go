package edge

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/routing"
)

// tlsFor returns the configuration for a port that clients and peers share: the server name that
// a connection asks for tells peers from clients.
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

// splitter is a listener whose connections may begin with a TLS handshake, which peers
// do, or not, as clients: their first byte tells.
type splitter struct {
	net.Listener
	tls     *tls.Config
	timeout time.Duration // for the first byte

	accepted chan net.Conn
	failed   chan error
	closed   chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex
	waiting map[net.Conn]struct{} // for their first byte; nil: closed
}

func newSplitter(l net.Listener, conf *tls.Config, timeout time.Duration) *splitter {
	s := &splitter{
		Listener: l, tls: conf, timeout: timeout,
		accepted: make(chan net.Conn), failed: make(chan error), closed: make(chan struct{}), waiting: map[net.Conn]struct{}{},
	}
	s.running.Go(s.run)
	return s
}

// run accepts connections. Accept returns the errors; [http.Server] calls it again after a
// temporary one, such as too many open files, and waits before that.
func (s *splitter) run() {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			select {
			case s.failed <- err:
				continue
			case <-s.closed:
				return
			}
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

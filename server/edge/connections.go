package edge

import (
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/greenroom-run/greenroom/internal/fair"
	"github.com/greenroom-run/greenroom/server/metrics"
)

// connections is a listener that bounds the connections that are open. Addresses share
// them, so that one address leaves some to others. A connection beyond the bound is closed
// at once.
type connections struct {
	net.Listener
	open    *fair.Account // by address, without the port
	metrics *metrics.Metrics
}

// newConnections bounds the connections of a listener, and counts those that it closes in m.
func newConnections(l net.Listener, most int, m *metrics.Metrics) *connections {
	return &connections{l, fair.NewAccount(fair.Bounds{Name: "connections", Total: int64(most)}), m}
}

// Accept implements [net.Listener].
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := remoteHost(c)
		if l.open.Take(address, 1) == nil {
			return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.open.Give(address, 1) })}, nil
		}
		l.metrics.ConnectionRefused()
		_ = c.Close() // nothing was said on it
	}
}

// remoteHost is the address of a connection's other end, without the port. For IPv6 it is the
// network, since one machine may have all its addresses.
func remoteHost(c net.Conn) string {
	addr, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	ip := addr.Addr().Unmap()
	if ip.Is6() {
		network, _ := ip.WithZone("").Prefix(64)
		return network.String()
	}
	return ip.String()
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// CloseWrite ends what is written, for net/http.
func (c *countedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.closed() // after its file is free
	return err
}

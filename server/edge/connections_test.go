package edge

import (
	"net"
	"net/netip"
	"testing"

	"github.com/greenroom-run/greenroom/server/metrics"
)

// farConn is a connection from an address.
type farConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }
func (c *farConn) Close() error         { c.closed = true; return nil }

// dialed is a listener that accepts what it has.
type dialed struct {
	net.Listener
	conns []*farConn
}

func (l *dialed) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

// TestConnectionsOfOneAddressLeaveSomeToOthers: an address that opens connections and says
// nothing gets no more than its share, and another address gets some; what is closed is free
// again.
func TestConnectionsOfOneAddressLeaveSomeToOthers(t *testing.T) {
	const most, flood = 700, 1500
	far := &dialed{}
	l := newConnections(far, most, metrics.New())
	for range flood {
		far.conns = append(far.conns, &farConn{from: "192.0.2.1"})
	}
	last := &farConn{from: "192.0.2.2"}
	far.conns = append(far.conns, last)
	var open []net.Conn
	for c, err := l.Accept(); err == nil; c, err = l.Accept() {
		open = append(open, c)
	}
	if want := most - most/8 + 1; len(open) != want {
		t.Errorf("%d connections are open, want %d", len(open), want)
	}
	if open[len(open)-1].(*countedConn).Conn != last || last.closed {
		t.Error("a connection of another address was closed")
	}
	for _, c := range open {
		_ = c.Close()
		_ = c.Close()
	}
	if n := l.open.Used(); n != 0 {
		t.Errorf("%d connections are counted after all were closed", n)
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from net.Addr
}

// RemoteAddr implements [net.Conn].
func (a addressed) RemoteAddr() net.Addr { return a.from }

// TestNetworksAreOneAddress: a machine may have all addresses of an IPv6 network, and gets no
// share for each.
func TestNetworksAreOneAddress(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.7:1":            "192.0.2.7",
		"[::ffff:192.0.2.7]:1":   "192.0.2.7",
		"[2001:db8:1:2:3::4]:1":  "2001:db8:1:2::/64",
		"[2001:db8:1:2:ff::9]:2": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":       "fe80::/64",
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
		if got := remoteHost(addressed{from: addr}); got != want {
			t.Errorf("%s counts for %s, want %s", from, got, want)
		}
	}
}

package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// quick is the time that clients have for everything, in tests in which it passes.
const quick = 50 * time.Millisecond

// startInBubble is [start] in a synctest bubble, for tests of what becomes of those
// who are too slow: time passes there only when nobody has anything left to do, so
// that nobody else is. Connections are pipes, which hold nothing.
func startInBubble(t *testing.T, change func(*Config)) (*fixture, *pipes) {
	t.Helper()
	l := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
	f := newFixture(t, func(c *Config) {
		c.Listener = l
		change(c)
	})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, f)
	f.url = "http://localhost"
	return f, l
}

// pipes is a network: it listens, and dials itself.
type pipes struct {
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accept <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// conn is a connection for the test's own use.
func (p *pipes) conn(t *testing.T) net.Conn {
	t.Helper()
	c, err := p.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// client is [client] for these pipes.
func (p *pipes) client(tb testing.TB, http2 bool) *http.Client {
	tb.Helper()
	c := client(tb, http2)
	c.Transport.(*http.Transport).DialContext = p.dial
	return c
}

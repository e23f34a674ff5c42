package edge

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// exhausted is a listener that has too many open files before each connection.
type exhausted struct {
	net.Listener
	conns  chan net.Conn
	fail   bool
	closed chan struct{}
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.fail = !l.fail; l.fail {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *exhausted) Close() error {
	close(l.closed)
	return nil
}

// TestSharedPortOutlivesTemporaryErrors: the port that clients and hosts share returns a temporary
// error, after which net/http goes on, and accepts what comes next.
func TestSharedPortOutlivesTemporaryErrors(t *testing.T) {
	l := &exhausted{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := newSplitter(l, &tls.Config{MinVersion: tls.VersionTLS12}, time.Minute)
	clients := make(chan net.Conn, 3)
	go func() {
		for range cap(clients) {
			client, server := net.Pipe()
			clients <- client
			l.conns <- server
			_, _ = client.Write([]byte("G"))
		}
	}()
	failed := 0
	for accepted := 0; accepted < cap(clients); {
		c, err := s.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			accepted++
			_ = c.Close()
		case errors.As(err, &temporary) && temporary.Temporary():
			failed++
		default:
			t.Fatal(err)
		}
	}
	if failed == 0 {
		t.Error("the errors are hidden from net/http, which waits after one")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

//go:build unix

package cluster_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy passes on connections to a host, or those of one to its database, until it is cut.
type proxy struct {
	net.Listener
	to string

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	refuses bool // new ones are reset
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback, answers at once
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to, conns: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.to) //nolint:noctx // loopback, answers at once
			if err != nil {
				_ = in.Close()
				continue
			}
			if !p.add(in, out) {
				continue
			}
			for _, c := range [][2]net.Conn{{in, out}, {out, in}} {
				running.Go(func() {
					_, _ = io.Copy(c[0], c[1])
					_ = c[0].Close()
					p.mu.Lock()
					delete(p.conns, c[0])
					p.mu.Unlock()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		running.Wait()
	})
	return p
}

// add notes the two ends of a connection, or resets them while that is asked for.
func (p *proxy) add(in, out net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses {
		reset(in)
		reset(out)
		return false
	}
	p.conns[in], p.conns[out] = struct{}{}, struct{}{}
	return true
}

// cut resets all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

// refuse resets all connections, and until further notice each that is opened.
func (p *proxy) refuse(now bool) {
	p.mu.Lock()
	p.refuses = now
	p.mu.Unlock()
	if now {
		p.cut()
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

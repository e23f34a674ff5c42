//go:build unix

package cluster_test

import (
	"bytes"
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
	refuses bool  // new ones are reset
	next    *hold // nil: nothing is to be held
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
			c := &connection{proxy: p, in: in, out: out}
			running.Go(func() { c.pass(in, out) })
			running.Go(func() { c.pass(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.refuse(true)
		running.Wait()
	})
	return p
}

// connection is one that the proxy passes on.
type connection struct {
	proxy   *proxy
	in, out net.Conn
	hold    *hold // guarded by the proxy's mu; nil: nothing of it is held
}

// pass copies one direction.
func (c *connection) pass(from, to net.Conn) {
	p, buf := c.proxy, make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		if h := p.next; h != nil && (from == c.in) == h.call && bytes.Contains(buf[:n], h.mark) {
			p.next, c.hold = nil, h
			h.held = c
		}
		h := c.hold
		p.mu.Unlock()
		if h != nil && n > 0 && (from == c.in) == h.call {
			h.keep(to, buf[:n])
		} else if n > 0 {
			if h != nil && h.isDelivered() && isAnswer(buf[:n]) {
				h.end(h.answered)
			}
			_, werr := to.Write(buf[:n])
			if werr != nil && h == nil {
				err = werr // otherwise the answer to what is held is awaited, whoever reads it
			}
		}
		if err != nil {
			break
		}
	}
	if p.mu.Lock(); c.hold != nil && (from == c.in) != c.hold.call {
		c.hold.end(c.hold.answered) // nothing more comes
	}
	delete(p.conns, to)
	p.mu.Unlock()
	_ = to.Close()
}

// isAnswer reports whether there is a DATA or an RST_STREAM frame among frames of HTTP/2. Others
// are about the connection.
func isAnswer(frames []byte) bool {
	for len(frames) >= 9 {
		size := 9 + int(frames[0])<<16 + int(frames[1])<<8 + int(frames[2])
		if frames[3] == 0 || frames[3] == 3 {
			return true
		}
		frames = frames[min(size, len(frames)):]
	}
	return false
}

// hold keeps a call between hosts, or its answer, and what comes after it on its connection.
type hold struct {
	call bool // otherwise the answer
	mark []byte
	held *connection // once it was found

	found     chan struct{} // it is kept
	delivered chan struct{} // it is passed on
	answered  chan struct{} // the other end has answered it, or sends nothing more
	over      chan struct{} // nothing is kept any more
	mu        sync.Mutex
}

// holdNext keeps the next call that comes through the proxy and has a mark, or the next answer.
func (p *proxy) holdNext(call bool, mark string) *hold {
	h := &hold{call: call, mark: []byte(mark), found: make(chan struct{}), delivered: make(chan struct{}), answered: make(chan struct{}), over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = h
	return h
}

// end closes a channel of h, once.
func (h *hold) end(c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// keep passes on what is held when deliver is called. What follows a call on its connection, such
// as its cancellation, waits until the call is answered.
func (h *hold) keep(to net.Conn, data []byte) {
	h.end(h.found)
	select {
	case <-h.delivered:
		_, _ = to.Write(data)
	case <-h.over:
		return
	}
	if h.call {
		select {
		case <-h.answered:
		case <-h.over:
		}
	}
}

func (h *hold) isDelivered() bool {
	select {
	case <-h.delivered:
		return true
	default:
		return false
	}
}

// deliver passes on what is held.
func (h *hold) deliver() { h.end(h.delivered) }

// leave resets the connection for the caller only.
func (h *hold) leave() { reset(h.held.in) }

// drop resets the connection.
func (h *hold) drop() {
	reset(h.held.in)
	reset(h.held.out)
	h.end(h.over)
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

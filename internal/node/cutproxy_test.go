package node_test

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// cut is where a proxy breaks a connection.
type cut int

// The cuts.
const (
	cutNothing      cut = iota // passes everything on
	cutRequest                 // before anything of a request has reached the server
	cutInRequest               // in the middle of a request
	cutAfterRequest            // when the server has answered, before any of it is passed on
	cutInReply                 // in the middle of what the server answered
	cuts
)

func (c cut) String() string {
	return [...]string{"nothing", "before a request", "in a request", "after a request", "in a reply"}[c]
}

// cutProxy passes connections on to a server and breaks each of them somewhere,
// until it is told to leave them be.
type cutProxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu    sync.Mutex
	rng   *rand.Rand
	calm  bool
	open  map[net.Conn]bool
	fired [cuts]int
}

func startCutProxy(t *testing.T, to string, seed uint64) *cutProxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutProxy{listener: l, to: to, rng: rand.New(rand.NewPCG(seed, 1)), open: make(map[net.Conn]bool)}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *cutProxy) url() string { return "http://" + p.listener.Addr().String() }

// fate draws where a connection is cut: at its n-th piece of data that fits.
func (p *cutProxy) fate() (at cut, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calm {
		return cutNothing, 0
	}
	return cut(1 + p.rng.IntN(int(cuts)-1)), 1 + p.rng.IntN(40)
}

// everyCut reports whether each kind of cut has happened.
func (p *cutProxy) everyCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.fired[1:] {
		if n == 0 {
			return false
		}
	}
	return true
}

// leaveBe ends the cuts of connections that come now, and breaks the others.
func (p *cutProxy) leaveBe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm = true
	for c := range p.open {
		c.Close()
	}
}

func (p *cutProxy) pass(client net.Conn) {
	defer client.Close()
	srv, err := net.Dial("tcp", p.to) //nolint:noctx // loopback
	if err != nil {
		return
	}
	defer srv.Close()
	p.mu.Lock()
	p.open[client], p.open[srv] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, client)
		delete(p.open, srv)
	}()
	at, n := p.fate()
	// asked is closed when what the server says next is to be cut.
	asked := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		defer client.Close()
		defer srv.Close()
		p.pump(srv, client, func(pieces int, data []byte) (pass int, end bool) {
			switch {
			case at == cutNothing || pieces != n:
			case at == cutRequest:
				return 0, true
			case at == cutInRequest:
				return len(data) / 2, true
			default:
				close(asked)
			}
			return len(data), false
		}, at)
	})
	both.Go(func() {
		defer client.Close()
		defer srv.Close()
		p.pump(client, srv, func(_ int, data []byte) (pass int, end bool) {
			select {
			case <-asked:
			default:
				return len(data), false
			}
			if at == cutInReply {
				return len(data) / 2, true
			}
			return 0, true
		}, at)
	})
	both.Wait()
}

// pump passes data on until judge ends it, which it is asked of every piece.
func (p *cutProxy) pump(to, from net.Conn, judge func(pieces int, data []byte) (pass int, end bool), at cut) {
	buffer := make([]byte, 32<<10)
	for pieces := 1; ; pieces++ {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		pass, end := judge(pieces, buffer[:n])
		if _, err := to.Write(buffer[:pass]); err != nil {
			return
		}
		if end {
			p.mu.Lock()
			p.fired[at]++
			p.mu.Unlock()
			return
		}
	}
}

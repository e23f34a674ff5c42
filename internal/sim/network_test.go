package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// network carries the bytes of connections between processes, late, and as long as they
// are not cut off from each other.
type network struct {
	w *world

	mu    sync.Mutex
	at    map[string]*listener // by address
	conns map[*conn]struct{}
	// cut has the ways that are cut, of which there are two between two processes.
	cut map[way]bool
}

type way struct{ from, to string } // names of processes

func newNetwork(w *world) *network {
	return &network{w: w, at: map[string]*listener{}, conns: map[*conn]struct{}{}, cut: map[way]bool{}}
}

// cuts cuts ways, or heals them.
func (n *network) cuts(isCut bool, ways ...way) {
	n.mu.Lock()
	for _, w := range ways {
		if isCut {
			n.cut[w] = true
		} else {
			delete(n.cut, w)
		}
	}
	n.mu.Unlock()
	n.changed()
}

func (n *network) isCut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[way{from, to}]
}

// changed has all ends of connections look again what they may do.
func (n *network) changed() {
	for _, c := range n.all() {
		c.wake()
		n.watch(c)
	}
}

func (n *network) all() []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*conn, 0, len(n.conns))
	for c := range n.conns {
		all = append(all, c)
	}
	return all
}

// resets breaks all connections, and reports how many there were. What is under way on
// them gets lost, or arrives all the same: late, so that what is sent on the next
// connection overtakes it.
func (n *network) resets() int {
	all := n.all()
	for _, c := range all {
		c.reset(syscall.ECONNRESET, c.noise.chance(0.5))
	}
	return len(all) / 2
}

// died ends the connections of a process that is gone. Its peers hear of it if its
// machine is still there to tell them.
func (n *network) died(p *process, silent bool) {
	n.mu.Lock()
	if l := n.at[p.address]; l != nil && l.p == p { // its next life may be there already
		delete(n.at, p.address)
	}
	n.mu.Unlock()
	for _, c := range n.all() {
		switch {
		case c.own == p:
			c.reset(net.ErrClosed, true)
		case c.other == p && !silent:
			c.arrives(chunk{err: syscall.ECONNRESET})
		case c.other == p:
			n.watch(c)
		}
	}
}

// listen gives a process its address, which an earlier one of it may have had.
func (n *network) listen(p *process) *listener {
	l := &listener{n: n, p: p, accept: make(chan *conn, 64), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[p.address] = l
	return l
}

// find waits for as long as it takes to reach who listens at an address.
func (n *network) find(ctx context.Context, p *process, address string) (*listener, error) {
	if !p.pass() {
		return nil, net.ErrClosed
	}
	wait := func(d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-p.dead:
			return net.ErrClosed
		}
	}
	noise := p.noiseOf("dial " + address)
	if err := wait(2 * noise.delay()); err != nil {
		return nil, err
	}
	n.mu.Lock()
	l := n.at[address]
	n.mu.Unlock()
	name := nameAt(address)
	if n.isCut(p.name, name) || n.isCut(name, p.name) || l != nil && l.p.frozen.waits() != nil && noise.chance(0.5) {
		if err := wait(lease); err != nil { // nobody answers
			return nil, err
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return l, nil
}

// connect makes a connection of two processes.
func (n *network) connect(from, to *process) (ours, theirs *conn) {
	name := fmt.Sprintf("connection %d of %s to %s", from.dialed.Add(1), from.life, to.life)
	ours, theirs = newConn(n, from, to, n.w.noiseOf(name)), newConn(n, to, from, n.w.noiseOf(name+", back"))
	ours.peer, theirs.peer, theirs.server = theirs, ours, true
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[ours], n.conns[theirs] = struct{}{}, struct{}{}
	return ours, theirs
}

// dial connects a process with whoever listens at an address.
func (n *network) dial(ctx context.Context, p *process, address string) (net.Conn, error) {
	l, err := n.find(ctx, p, address)
	if err != nil {
		return nil, err
	}
	ours, theirs := n.connect(p, l.p)
	select {
	case l.accept <- theirs:
		return ours, nil
	case <-p.dead:
		return nil, net.ErrClosed
	case <-l.closed:
		_ = ours.Close()
		_ = theirs.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
}

// listener is a process's [net.Listener].
type listener struct {
	n      *network
	p      *process
	accept chan *conn
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		l.p.pass()
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if l.n.at[l.p.address] == l {
		delete(l.n.at, l.p.address)
	}
	for {
		select {
		case c := <-l.accept:
			go c.Close()
		default:
			return nil
		}
	}
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return addrOf(l.p.address) }

// addrOf is an address as [net] has it.
func addrOf(address string) net.Addr {
	a, err := net.ResolveTCPAddr("tcp", address) // numbers: nobody is asked
	if err != nil {
		panic(err)
	}
	return a
}

// conn is one end of a connection. What arrives at it is in order, and each part has its
// own delay. One goroutine at a time reads, and one writes.
type conn struct {
	n          *network
	own, other *process
	peer       *conn
	noise      *noise        // of what arrives here
	server     bool          // the end of who was connected to
	changed    chan struct{} // of capacity 1: reading is to look again
	over       func()        // called when the stream breaks, perhaps more than once; nil: see streams
	watched    bool          // under the network's lock

	mu     sync.Mutex
	in     []chunk
	closed error // what this end's reads and writes get; nil: it is open
	readBy time.Time
}

// chunk is what one write has sent, or how the connection ends.
type chunk struct {
	data []byte
	head *head     // of a response, without data
	at   time.Time // when it arrives
	err  error
	// held: its sender was frozen as it sent it, so that it has not yet.
	held bool
}

func newConn(n *network, own, other *process, noise *noise) *conn {
	return &conn{n: n, own: own, other: other, noise: noise, changed: make(chan struct{}, 1)}
}

func (c *conn) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// arrives has something arrive at this end, after what is under way.
func (c *conn) arrives(ch chunk) {
	ch.at, ch.held = time.Now().Add(c.noise.delay()), c.other.frozen.waits() != nil
	c.mu.Lock()
	if n := len(c.in); n > 0 && c.in[n-1].at.After(ch.at) {
		ch.at = c.in[n-1].at
	}
	c.in = append(c.in, ch)
	c.mu.Unlock()
	c.wake()
	if ch.err != nil && !errors.Is(ch.err, io.EOF) {
		c.tell(time.Until(ch.at))
	}
}

// thawed sends what a process has held while it was frozen.
func (n *network) thawed(p *process) {
	for _, c := range n.all() {
		if c.other != p {
			continue
		}
		c.mu.Lock()
		at := time.Now().Add(c.noise.delay())
		for i := range c.in {
			if ch := &c.in[i]; ch.held {
				ch.at, ch.held = at, false
			}
		}
		c.mu.Unlock()
	}
	n.changed()
}

// reset ends the connection for this end: at once for its writes, and for its reads
// after what is under way, which comes late, or is lost.
func (c *conn) reset(err error, lost bool) {
	var late time.Duration
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return
	}
	if lost {
		c.in, c.closed = nil, err
	} else {
		late = c.noise.below(lease / 2)
		for i := range c.in {
			c.in[i].at = c.in[i].at.Add(late)
		}
		if len(c.in) > 0 {
			c.n.w.happened("message arrives after its connection broke")
		}
		c.in = append(c.in, chunk{err: err, at: time.Now().Add(late)})
	}
	c.mu.Unlock()
	c.wake()
	if lost {
		c.forget()
		c.ended()
	} else {
		c.tell(late)
	}
}

func (c *conn) forget() {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	delete(c.n.conns, c)
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	for {
		var wait time.Duration = -1
		now := time.Now()
		open := !c.n.isCut(c.other.name, c.own.name) && c.own.frozen.waits() == nil
		c.mu.Lock()
		switch {
		case c.closed != nil:
			defer c.mu.Unlock()
			return 0, c.closed
		case !c.readBy.IsZero() && !now.Before(c.readBy):
			c.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case !open || len(c.in) == 0 || c.in[0].held:
		case !c.in[0].at.After(now):
			defer c.mu.Unlock()
			return c.take(p)
		default:
			wait = c.in[0].at.Sub(now)
		}
		if !c.readBy.IsZero() && (wait < 0 || c.readBy.Sub(now) < wait) {
			wait = c.readBy.Sub(now)
		}
		c.mu.Unlock()
		await(c.changed, wait)
	}
}

// take reads from what has arrived. The caller has the lock.
func (c *conn) take(p []byte) (int, error) {
	first := &c.in[0]
	if first.err != nil || first.head != nil {
		return 0, first.err // and so on
	}
	n := copy(p, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		c.in = c.in[1:]
	}
	return n, nil
}

// await waits until something has changed, or for a while.
func await(changed <-chan struct{}, wait time.Duration) {
	if wait < 0 {
		<-changed
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

// Write implements [net.Conn]. It never blocks, since net/http holds a lock meanwhile,
// which would keep the time of a bubble from passing.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.send(chunk{data: append([]byte(nil), p...)}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send sends a chunk, which is the receiver's then.
func (c *conn) send(ch chunk) error {
	c.mu.Lock()
	closed := c.closed
	if n := len(c.in); n > 0 && c.in[n-1].err != nil && !errors.Is(c.in[n-1].err, io.EOF) {
		closed = c.in[n-1].err
	}
	c.mu.Unlock()
	if closed != nil {
		return closed
	}
	c.peer.arrives(ch)
	return nil
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return c.closed
	}
	c.in, c.closed = nil, net.ErrClosed
	c.mu.Unlock()
	c.wake()
	c.forget()
	if c.own.alive() {
		c.peer.arrives(chunk{err: io.EOF})
	}
	return nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return addrOf(c.own.address) }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return addrOf(c.other.address) }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.readBy = t
	c.mu.Unlock()
	c.wake()
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

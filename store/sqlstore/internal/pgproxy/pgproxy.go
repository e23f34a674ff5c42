// Package pgproxy stands between a test's client and its PostgreSQL and breaks
// what they say to each other at a chosen place.
//
// It reads the protocol, and works in units: everything that a client sends up to one Sync,
// or one simple query. A [Fault] names the unit that it waits for by a part of its SQL, and
// what happens to the unit; [Proxy.Plan] fails the test if the unit never came.
package pgproxy

import (
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Action is what a fault does to the unit that it is for.
type Action uint8

const (
	// Lose ends the connection before the server has seen anything of the unit.
	Lose Action = iota
	// LoseSync lets the server do everything of the unit and ends the connection
	// before it sees the Sync that would make it last.
	LoseSync
	// LoseAnswer ends the connection once the server has done the unit, instead
	// of passing its answer on.
	LoseAnswer
	// Strand ends the client's side at once; the server gets the unit, from a
	// client that is no longer there, at [Planned.Release]. Nor can such a client
	// ask for the unit to be cancelled: drivers do when a connection breaks.
	Strand
	// Refuse has the server fail with Fault.Code in place of the unit.
	Refuse
	// Deny answers an ERROR of Fault.Code although the server has done the unit.
	Deny
	// DenyHeld is Deny where rows came back, and as many as the unit's arrays have,
	// that is, where nothing was refused; other answers pass and do not count. It is
	// for [Proxy.Random].
	DenyHeld
	// Terminate ends the session with a FATAL of Fault.Code in place of the unit.
	Terminate
	// TerminateDone does so once the server has done the unit.
	TerminateDone
	// Hold keeps the unit from the server until [Planned.Release].
	Hold
	// Vanish lets the server have the part of the unit that Fault.Part names, and from then
	// on nothing passes in either direction. Neither end hears of it, as where a machine
	// lost its power, or a firewall has forgotten the connection, until [Planned.Release].
	Vanish
)

// Unit is what a client asks of the server at once.
type Unit struct {
	// SQL has the statements that are executed; those only prepared are left out.
	SQL string
	// Transaction: the unit runs inside an explicit transaction.
	Transaction bool
	// Rows is the length of the first array of each execution, added up; an
	// execution whose first parameter is text counts as one.
	Rows int
}

// Commit is the unit that ends an explicit transaction.
const Commit = "COMMIT"

// on reports whether the unit is one that a fault names as on.
func (u Unit) on(on string) bool {
	if on == Commit {
		return strings.EqualFold(strings.TrimSpace(u.SQL), Commit)
	}
	return strings.Contains(u.SQL, on)
}

// Fault is something that goes wrong.
type Fault struct {
	On   string // part of the unit's SQL, or [Commit]
	Do   Action
	Code string // SQLSTATE, for the actions that answer one
	// Part is for Vanish: how many bytes of the unit get to the server.
	Part func(unit []byte) int
	// Times is how many units it strikes. Defaults to 1.
	Times int
}

// Planned is a fault that waits for its unit.
type Planned struct {
	fault    Fault
	left     int           // guarded by Proxy.mu
	struck   chan struct{} // closed when left is 0
	released chan struct{}
	release  sync.Once
}

// Struck is closed once the fault has struck as often as planned: for Hold and
// Strand when the unit arrives, for the others when the server is done with it.
func (p *Planned) Struck() <-chan struct{} { return p.struck }

// Release lets a unit go that Hold or Strand keeps, and ends the connection of Vanish. It
// is safe twice.
func (p *Planned) Release() { p.release.Do(func() { close(p.released) }) }

// Proxy passes connections on to one server.
type Proxy struct {
	listener net.Listener
	server   string
	work     sync.WaitGroup

	mu     sync.Mutex
	plans  []*Planned
	random func(Unit) *Fault
	fired  map[string]int // by SQLSTATE
	conns  map[net.Conn]struct{}
	gone   *sync.Cond // a connection was dropped
	// stranded has the cancel keys of the sessions that Strand struck.
	stranded map[string]struct{}
	closed   bool
}

// Start starts a proxy for the server at the given address. It ends with the
// test, after the cleanups that are registered later.
func Start(t testing.TB, server string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, server: server, fired: make(map[string]int), conns: make(map[net.Conn]struct{}), stranded: make(map[string]struct{})}
	p.gone = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Before starts a proxy for the server of a database URL and returns it with
// the URL that leads through it.
func Before(t testing.TB, database string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	p := Start(t, u.Host)
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

// Plan adds a fault. The test fails if it has not struck by its end.
func (p *Proxy) Plan(t testing.TB, f Fault) *Planned {
	t.Helper()
	planned := &Planned{fault: f, left: max(1, f.Times), struck: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	p.plans = append(p.plans, planned)
	p.mu.Unlock()
	t.Cleanup(func() {
		planned.Release()
		p.mu.Lock()
		defer p.mu.Unlock()
		if planned.left > 0 {
			t.Errorf("the fault planned for %q never struck (%d left)", f.On, planned.left)
		}
		p.plans = slices.DeleteFunc(p.plans, func(other *Planned) bool { return other == planned })
	})
	return planned
}

// Random strikes units by chance: choose is asked about each one that no plan
// waits for, one at a time, and returns nil to let it pass.
func (p *Proxy) Random(seed uint64, choose func(rng *rand.Rand, u Unit) *Fault) {
	rng := rand.New(rand.NewPCG(seed, 0))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.random = func(u Unit) *Fault { return choose(rng, u) }
}

// Fired returns how often an SQLSTATE was injected.
func (p *Proxy) Fired(code string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired[code]
}

// Wait returns once no client's connection is open, stranded ones included.
func (p *Proxy) Wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.conns) > 0 {
		p.gone.Wait()
	}
}

// strike returns the fault for a unit, nil for none.
func (p *Proxy) strike(u Unit) *Planned {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, planned := range p.plans {
		if planned.left > 0 && u.on(planned.fault.On) {
			planned.left--
			return planned
		}
	}
	if p.random != nil {
		if f := p.random(u); f != nil {
			return &Planned{fault: *f, struck: make(chan struct{}), released: make(chan struct{})}
		}
	}
	return nil
}

// strand has the requests to cancel what a session runs lost from now on.
func (p *Proxy) strand(cancelKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stranded[cancelKey] = struct{}{}
}

func (p *Proxy) isStranded(cancelKey string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.stranded[cancelKey]
	return ok
}

// happened counts a fault that has struck.
func (p *Proxy) happened(planned *Planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if planned.fault.Code != "" {
		p.fired[planned.fault.Code]++
	}
	if planned.left == 0 {
		select {
		case <-planned.struck:
		default:
			close(planned.struck)
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

// hold keeps track of a connection, so that it can be cut; false: cut already.
func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	p.gone.Broadcast()
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for _, planned := range p.plans {
		planned.Release()
	}
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

package routing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/api/gen/greenroom/v1/greenroomv1connect"
	"github.com/greenroom-run/greenroom/routing"
)

// proxy passes connections on until it is cut.
type proxy struct {
	net.Listener
	to string

	mu    sync.Mutex
	conns []net.Conn
	over  bool // with the test: connections that come now are closed
}

func newProxy(tb testing.TB, to string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{Listener: l, to: to}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			over := p.over
			p.mu.Unlock()
			if over {
				p.cut()
			}
			for _, c := range [][2]net.Conn{{in, out}, {out, in}} {
				running.Go(func() {
					_, _ = io.Copy(c[0], c[1])
					_ = c[0].Close()
				})
			}
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.cut()
		running.Wait() // for connections of routers that stop after it
	})
	return p
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// blocking makes a host's turns wait: entered gets each that begins.
func blocking(h *fakeHost) (entered chan actor.Invocation, release chan struct{}) {
	entered, release = make(chan actor.Invocation, 100), make(chan struct{})
	h.set(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		entered <- inv
		select {
		case <-release:
			return actor.Reply{Payload: actor.Payload{Data: []byte(h.name)}}, nil
		case <-ctx.Done():
			return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrCanceled}
		}
	})
	return entered, release
}

type outcome struct {
	reply actor.Reply
	err   error
}

func async(ctx context.Context, m *member, inv actor.Invocation) chan outcome {
	done := make(chan outcome, 1)
	go func() {
		reply, err := m.router.Invoke(ctx, inv)
		done <- outcome{reply, err}
	}()
	return done
}

// TestBrokenSession: of what was sent the outcome is unknown; what is harmless to send
// again is. Who asked is told.
func TestBrokenSession(t *testing.T) {
	tb, a, b := pair(t, setup{})
	p := newProxy(t, b.addr)
	tb.update(func() { tb.members[b.id] = p.Addr().String() })
	broken := a.router.Session(b.id).Done()
	entered, release := blocking(b.host)
	plain, keyed, read := call("b"), call("b"), call("b")
	keyed.IdempotencyKey, read.ReadOnly = "k", true
	calls := []chan outcome{async(t.Context(), a, plain), async(t.Context(), a, keyed), async(t.Context(), a, read)}
	for range calls {
		<-entered
	}
	p.cut()
	<-broken
	if got := <-calls[0]; !errors.Is(got.err, actor.ErrAmbiguous) {
		t.Errorf("a call that was sent: %+v", got)
	}
	close(release)
	for i, c := range calls[1:] {
		if got := <-c; got.err != nil || string(got.reply.Payload.Data) != "host-b" {
			t.Errorf("repeatable call %d: %+v", i, got)
		}
	}
	if a.count("lost") != 3 {
		t.Errorf("%d calls were lost, of 3", a.count("lost"))
	}
	select {
	case <-a.router.Session("no member").Done():
	default:
		t.Error("the session to no member is not broken")
	}
}

// exchange opens a stream to b as a process of its own would, and returns it with the error that
// answers its hello.
func exchange(t *testing.T, b *member, process string, channel uint32, number uint64) (*exchangeStream, error) {
	t.Helper()
	client := routing.NewHTTPClient(nil, nil, 2*time.Second)
	t.Cleanup(client.CloseIdleConnections)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := greenroomv1connect.NewInterconnectServiceClient(client, "http://"+b.addr).Exchange(ctx)
	hello := &greenroomv1.ExchangeHello{Cluster: "test", From: "host-x", To: string(b.id), MinProtocol: 1, MaxProtocol: newest, Process: process, Channel: channel, Stream: number}
	if err := s.Send(&greenroomv1.ExchangeRequest{Hello: hello}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Receive()
	return s, err
}

type exchangeStream = connect.BidiStreamForClient[greenroomv1.ExchangeRequest, greenroomv1.ExchangeResponse]

// callOn sends a call of the actor "b" and returns its answer, or why there is none.
func callOn(s *exchangeStream) (string, error) {
	k := call("b").Key
	_ = s.Send(&greenroomv1.ExchangeRequest{Invocations: []*greenroomv1.ForwardedInvocation{ // receiving tells why not
		{Id: 1, Actor: &greenroomv1.ActorKey{App: k.App, Type: k.Type, Id: k.ID}, Method: "M", InvocationId: "i"},
	}})
	for {
		in, err := s.Receive()
		if err != nil {
			return "", err
		}
		if replies := in.GetReplies(); len(replies) > 0 {
			if refused := replies[0].GetError(); refused != nil {
				err = errors.New(refused.GetMessage())
			}
			return string(replies[0].GetPayload()), err
		}
	}
}

// TestOlderStreamIsEnded: once a stream is answered, no call comes from the older one of its
// channel. Other channels and processes keep theirs, and so do older versions, which name neither.
func TestOlderStreamIsEnded(t *testing.T) {
	_, _, b := pair(t, setup{})
	open := func(process string, channel uint32, number uint64) *exchangeStream {
		t.Helper()
		s, err := exchange(t, b, process, channel, number)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	older, channel, process := open("p", 1, 5), open("p", 2, 6), open("q", 1, 1)
	unnumbered := []*exchangeStream{open("", 0, 0), open("", 0, 0)}
	newer := open("p", 1, 7)
	if answer, err := callOn(older); err == nil || b.host.turns.Load() != 0 {
		t.Errorf("a call on the older stream is answered %q, with %d turns", answer, b.host.turns.Load())
	}
	var err error
	for err == nil { // the call may be answered before the stream has ended
		_, err = older.Receive()
	}
	if !strings.Contains(err.Error(), "opened this channel anew") {
		t.Errorf("the older stream ended with %v", err)
	}
	if _, err := exchange(t, b, "p", 1, 6); err == nil || !strings.Contains(err.Error(), "newer stream") {
		t.Errorf("the hello of an older stream: %v", err)
	}
	for i, s := range append(unnumbered, newer, channel, process) {
		if answer, err := callOn(s); err != nil || answer != string(b.id) {
			t.Errorf("stream %d: %q, %v", i, answer, err)
		}
	}
}

// TestLostFiring is sent again, and not as one that nobody can have delivered.
func TestLostFiring(t *testing.T) {
	tb, a, b := pair(t, setup{})
	p := newProxy(t, b.addr)
	tb.update(func() { tb.members[b.id] = p.Addr().String() })
	entered, release := blocking(b.host)
	fires := call("b")
	id := actor.ReminderID{Prefix: 1, Token: 1, Vector: actor.Vector([]byte("abcdefgh"))}
	fires.Firing = &actor.Firing{
		Reminder: id, Key: fires.Key, Name: "n", Method: fires.Method, Attempt: 1, Fresh: true,
		Step: actor.ReminderStep{ReminderName: actor.ReminderName{Key: fires.Key, Name: "n"}, ID: id, Version: 1},
	}
	got := async(t.Context(), a, fires)
	if inv := <-entered; !inv.Firing.Fresh {
		t.Error("the first delivery is not fresh")
	}
	p.cut()
	if inv := <-entered; inv.Firing.Fresh {
		t.Error("the second delivery is fresh")
	}
	close(release)
	if g := <-got; g.err != nil {
		t.Error(g.err)
	}
}

// TestLostThenRefused: a keyed call that was lost and then comes to an end for a reason
// of its last try alone may have taken effect. What a guest answers is the answer, unless an earlier copy may
// arrive yet.
func TestLostThenRefused(t *testing.T) {
	says := func(m *member, err error) {
		m.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) { return actor.Reply{}, err })
	}
	ambiguous := func(err error) bool { return errors.Is(err, actor.ErrAmbiguous) }
	for _, c := range []struct {
		name string
		// lose breaks the session that the call was sent on.
		lose func(tb *table, a, b *member, cut func())
		want func(error) bool
	}{
		{"stopping", func(tb *table, a, _ *member, cut func()) {
			tb.update(func() { delete(tb.owners, "b") })
			cut()
			eventually(t, "it waits", func() bool { n, _ := a.router.Waiting(); return n == 1 })
			a.router.Drain()
		}, ambiguous},
		{"refused", func(_ *table, _, b *member, cut func()) { says(b, actor.ErrUnavailable); cut() }, ambiguous},
		{"refused here", func(tb *table, a, _ *member, cut func()) {
			says(a, actor.ErrMailboxFull)
			tb.update(func() { tb.owners["b"] = a.id })
			cut()
		}, ambiguous},
		{"away", func(tb *table, _, _ *member, cut func()) {
			tb.update(func() { tb.away["b"] = "till-1" })
			cut()
		}, ambiguous},
		{"failed", func(_ *table, _, b *member, cut func()) {
			says(b, &actor.GuestError{Status: 9, Code: "empty", Message: "none left"})
			cut()
		}, func(err error) bool { return err != nil && !ambiguous(err) }},
		{"failed at another host", func(tb *table, a, _ *member, cut func()) {
			says(a, &actor.GuestError{Status: 9, Code: "empty", Message: "none left"})
			tb.update(func() { tb.owners["b"] = a.id })
			cut()
		}, ambiguous}, // the copy may arrive when the actor has come back
		{"failed at another host after the first was lost", func(tb *table, a, b *member, cut func()) {
			says(a, &actor.GuestError{Status: 9, Code: "empty", Message: "none left"})
			tb.update(func() {
				tb.owners["b"] = a.id
				delete(tb.members, b.id)
			})
			cut()
		}, func(err error) bool { return err != nil && !ambiguous(err) }},
		{"of a chain that has its actor", func(_ *table, _, b *member, cut func()) { // by the first try
			says(b, &actor.GuestError{Status: 9, Code: abi.CallNotReentrant, Message: "a turn waits for this call"})
			cut()
		}, ambiguous},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb, a, b := pair(t, setup{})
			p := newProxy(t, b.addr)
			tb.update(func() { tb.members[b.id] = p.Addr().String() })
			entered, release := blocking(b.host)
			defer close(release)
			keyed := call("b")
			keyed.IdempotencyKey = "k"
			got := async(t.Context(), a, keyed)
			<-entered
			c.lose(tb, a, b, p.cut)
			if g := <-got; !c.want(g.err) {
				t.Errorf("it is answered %+v", g)
			}
		})
	}
}

// TestStoppingPeer answers what it took, and what it did not take goes where the actors
// are by then.
func TestStoppingPeer(t *testing.T) {
	tb, a, b := pair(t, setup{})
	entered, release := blocking(b.host)
	taken := async(t.Context(), a, call("b"))
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- b.server.Stop(context.WithoutCancel(t.Context())) }()
	later := async(t.Context(), a, call("b2"))
	tb.update(func() { tb.owners["b2"] = b.id })
	close(release)
	if got := <-taken; got.err != nil || string(got.reply.Payload.Data) != "host-b" {
		t.Errorf("a call that a stopping host had: %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	tb.update(func() { tb.owners["b2"] = a.id })
	if got := <-later; got.err != nil {
		t.Errorf("a call that went to a stopping host: %+v", got)
	}
}

// TestLostMember: what a host owes an answer to that is no member any more is not
// waited for.
func TestLostMember(t *testing.T) {
	tb, a, b := pair(t, setup{router: func(c *routing.Config) { c.PeerTimeout = time.Minute }})
	entered, release := blocking(b.host)
	defer close(release)
	sent := async(t.Context(), a, call("b"))
	<-entered
	keyed := call("b")
	keyed.IdempotencyKey = "k"
	repeated := async(t.Context(), a, keyed)
	<-entered
	tb.update(func() { delete(tb.members, b.id); tb.owners["b"] = a.id })
	if got := <-sent; !errors.Is(got.err, actor.ErrAmbiguous) {
		t.Errorf("a call of a lost host: %+v", got)
	}
	if got := <-repeated; got.err != nil || string(got.reply.Payload.Data) != "host-a" {
		t.Errorf("a keyed call of a lost host: %+v", got)
	}
}

// TestUnreachablePeer: nothing was sent, so the call waits until another host holds
// the actor.
func TestUnreachablePeer(t *testing.T) {
	tb, a, _ := pair(t, setup{})
	tb.update(func() { tb.members["away"], tb.owners["x"] = freeAddr(t), "away" })
	waits := async(t.Context(), a, call("x"))
	eventually(t, "it is known", func() bool { return len(a.router.Unreachable()) == 1 })
	tb.update(func() { tb.owners["x"] = a.id })
	if got := <-waits; got.err != nil || string(got.reply.Payload.Data) != "host-a" {
		t.Errorf("after the actor moved: %+v", got)
	}
	tb.update(func() { tb.owners["x"] = "away" })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.router.Invoke(ctx, call("x")); !errors.Is(err, actor.ErrDeadline) {
		t.Errorf("until its deadline: %v", err)
	}
}

// TestLostHost: a host that has lost the database fails the calls of its own callers at
// once, and gives back those that a peer sent, which go to whoever has the actor by then.
func TestLostHost(t *testing.T) {
	tb, a, b := pair(t, setup{})
	tb.update(func() { tb.lost[b.id] = true })
	if _, err := b.router.Invoke(t.Context(), call("b")); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("its own call: %v", err)
	}
	if err := b.router.Delete(t.Context(), call("b").Key); !errors.Is(err, actor.ErrUnavailable) {
		t.Errorf("its own deletion: %v", err)
	}
	sent, deleted := async(t.Context(), a, call("b")), make(chan error, 1)
	go func() { deleted <- a.router.Delete(t.Context(), call("b").Key) }()
	eventually(t, "they wait", func() bool { n, _ := a.router.Waiting(); return n >= 1 })
	tb.update(func() { tb.owners["b"] = a.id })
	if got := <-sent; got.err != nil || string(got.reply.Payload.Data) != "host-a" {
		t.Errorf("a call that was sent to it: %+v", got)
	}
	if err := <-deleted; err != nil {
		t.Errorf("a deletion that was sent to it: %v", err)
	}
}

// TestStop answers what waits.
func TestStop(t *testing.T) {
	_, a, _ := pair(t, setup{})
	waits := async(t.Context(), a, call("nobody's"))
	eventually(t, "it waits", func() bool { n, _ := a.router.Waiting(); return n == 1 })
	if err := a.router.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-waits; !errors.Is(got.err, actor.ErrStopping) {
		t.Errorf("what waited: %+v", got)
	}
	if _, err := a.router.Invoke(t.Context(), call("nobody's")); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("after the end: %v", err)
	}
	if err := a.router.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStopWithoutPeers: a router that stops does not wait for the answers of hosts that are lost, whose
// connections break or that cannot be reached.
func TestStopWithoutPeers(t *testing.T) {
	for name, lose := range map[string]func(*table, *member, *proxy){
		"no member any more": func(tb *table, b *member, _ *proxy) { tb.update(func() { delete(tb.members, b.id) }) },
		"no connection": func(_ *table, _ *member, p *proxy) {
			_ = p.Close() // nobody can connect again
			p.cut()
		},
	} {
		t.Run(name, func(t *testing.T) {
			tb, a, b := pair(t, setup{router: func(c *routing.Config) { c.PeerTimeout = time.Minute }})
			p := newProxy(t, b.addr)
			tb.update(func() { tb.members[b.id], tb.members["away"], tb.owners["x"] = p.Addr().String(), freeAddr(t), "away" })
			entered, release := blocking(b.host)
			defer close(release)
			waits, sent := async(t.Context(), a, call("x")), async(t.Context(), a, call("b"))
			<-entered
			stopped := make(chan error, 1)
			go func() { stopped <- a.router.Stop(t.Context()) }()
			if got := <-waits; !errors.Is(got.err, actor.ErrStopping) {
				t.Errorf("what waited for a host that cannot be reached: %+v", got)
			}
			lose(tb, b, p)
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if got := <-sent; !errors.Is(got.err, actor.ErrAmbiguous) {
				t.Errorf("what a lost host had: %+v", got)
			}
		})
	}
}

// TestStopLetsPeersAnswer: a router that stops gives peers time to run what they were sent, until its context
// ends; then they cancel that.
func TestStopLetsPeersAnswer(t *testing.T) {
	for _, inTime := range []bool{true, false} {
		t.Run(fmt.Sprint("in time ", inTime), func(t *testing.T) {
			_, a, b := pair(t, setup{})
			runs, goOn, cut := make(chan struct{}), make(chan struct{}), make(chan struct{})
			b.host.set(func(ctx context.Context, _ actor.Invocation) (actor.Reply, error) {
				close(runs)
				select {
				case <-goOn:
					return actor.Reply{Version: 8}, nil
				case <-ctx.Done():
					close(cut)
					return actor.Reply{}, actor.ErrCanceled
				}
			})
			waits, sent := async(t.Context(), a, call("nobody's")), async(t.Context(), a, call("b"))
			<-runs
			eventually(t, "one waits", func() bool { n, _ := a.router.Waiting(); return n == 1 })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan error, 1)
			go func() { stopped <- a.router.Stop(ctx) }()
			<-waits // the stop has begun
			if !inTime {
				cancel()
				<-cut
				if got := <-sent; !errors.Is(got.err, actor.ErrAmbiguous) {
					t.Errorf("what was not answered in time: %+v", got)
				}
			} else {
				select {
				case err := <-stopped:
					t.Errorf("it stops while a peer runs a call, %v", err)
					stopped <- err
				default:
				}
				close(goOn)
				if got := <-sent; got.err != nil || got.reply.Version != 8 {
					t.Errorf("what a peer had: %+v", got)
				}
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDrain: a process that has handed its actors over passes calls on, and makes none
// wait.
func TestDrain(t *testing.T) {
	_, a, b := pair(t, setup{})
	waits := async(t.Context(), a, call("nobody's"))
	eventually(t, "it waits", func() bool { n, _ := a.router.Waiting(); return n == 1 })
	a.router.Drain()
	if got := <-waits; !errors.Is(got.err, actor.ErrStopping) {
		t.Errorf("what waited: %+v", got)
	}
	if _, err := a.router.Invoke(t.Context(), call("nobody's")); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("what would wait: %v", err)
	}
	if err := a.router.Delete(t.Context(), call("nobody's").Key); !errors.Is(err, actor.ErrStopping) {
		t.Errorf("a delete that would wait: %v", err)
	}
	if reply, err := a.router.Invoke(t.Context(), call("b")); err != nil || string(reply.Payload.Data) != string(b.id) {
		t.Errorf("what has an owner: %s, %v", text(reply), err)
	}
	a.router.Drain()
}

// TestManyCalls at once, over few channels, each answered once with what is its own.
func TestManyCalls(t *testing.T) {
	// 7 of the 256 calls are under way at a time; the others wait, and none may give up.
	tb, a, b := pair(t, setup{router: func(c *routing.Config) { c.MaxInFlight, c.MaxWait = 8, patience }})
	b.host.set(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		return actor.Reply{Payload: inv.Payload}, nil
	})
	ids := strings.Split("0123456789abcdef", "")
	tb.update(func() {
		for _, id := range ids {
			tb.owners[id] = b.id
		}
	})
	var callers sync.WaitGroup
	for _, id := range ids {
		for range 16 {
			callers.Go(func() {
				inv := call(id)
				for range 10 {
					inv.Payload.Data = []byte(id)
					reply, err := a.router.Invoke(t.Context(), inv)
					if err != nil || string(reply.Payload.Data) != id {
						t.Errorf("%s: %s, %v", id, reply.Payload.Data, err)
						return
					}
				}
			})
		}
	}
	callers.Wait()
	if n := b.host.turns.Load(); n != 16*16*10 {
		t.Errorf("%d turns", n)
	}
}

// TestReach: each host is asked which of the others it cannot reach, and says why.
func TestReach(t *testing.T) {
	tb, a, b := pair(t, setup{})
	away := freeAddr(t)
	tb.update(func() { tb.members["away"], tb.members["old"], tb.speaks["old"] = away, b.addr, 1 })
	hosts := []actor.HostID{a.id, b.id, "away", "stranger"}
	got := a.router.Reach(t.Context(), hosts)
	if len(got) != len(hosts) {
		t.Fatalf("%+v", got)
	}
	for i, r := range got {
		if r.Host != hosts[i] || r.Answered != (i < 2) {
			t.Errorf("of %s: %+v", hosts[i], r)
		}
		if i >= 2 {
			continue
		}
		if len(r.Unreachable) != 2 || r.Unreachable[0].Host != "stranger" || r.Unreachable[1].Host != "away" || r.Unreachable[1].Address != away || !strings.Contains(r.Unreachable[1].Why, "connection refused") {
			t.Errorf("%s cannot reach %+v", r.Host, r.Unreachable)
		}
		if r.ClockAhead.Abs() > time.Minute {
			t.Errorf("the clock of %s is %v ahead of itself", r.Host, r.ClockAhead)
		}
	}
	// A frozen host takes connections, and does not answer.
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	c := tb.join(t, "host-c", setup{router: func(c *routing.Config) { c.PeerTimeout = 300 * time.Millisecond }})
	tb.update(func() { tb.members["frozen"] = frozen.Addr().String() })
	if got := c.router.Reach(t.Context(), []actor.HostID{c.id, "frozen"}); len(got[0].Unreachable) != 1 || got[0].Unreachable[0].Host != "frozen" || got[1].Answered {
		t.Errorf("a frozen host: %+v", got)
	}
	// Another host has its address, or an older incarnation had.
	tb.update(func() { tb.members["earlier"] = b.addr })
	if got := a.router.Reach(t.Context(), []actor.HostID{a.id, "earlier"}); len(got[0].Unreachable) != 1 || !strings.Contains(got[0].Unreachable[0].Why, "host-b") {
		t.Errorf("an incarnation that is gone: %+v", got)
	}
}

package routing_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/routing"
)

// readable makes hosts readers of all actors, in the eyes of all of them, as long as that
// is wanted. Calls that are ReadOnly may be read, and those of the method Read.
func readable(wanted *atomic.Bool, ids ...actor.HostID) func(self actor.HostID) func(*routing.Config) {
	return func(self actor.HostID) func(*routing.Config) {
		return func(c *routing.Config) {
			c.Readers = func(inv *actor.Invocation) (hosts []actor.HostID, here bool) {
				if !inv.ReadOnly && inv.Method != "Read" || !wanted.Load() {
					return nil, false
				}
				for _, id := range ids {
					here = here || id == self
				}
				return ids, here
			}
		}
	}
}

// TestReadsAtReaders: a call that only reads is answered by the local host if it is a
// reader, without a hop; where neither the actor's host nor a reader is called, all of
// them get a part of such calls. What writes goes to the actor's host.
func TestReadsAtReaders(t *testing.T) {
	table := newTable()
	var wanted atomic.Bool
	wanted.Store(true)
	with := readable(&wanted, "host-r")
	owner := table.join(t, "host-o", setup{router: with("host-o")})
	reader := table.join(t, "host-r", setup{router: with("host-r")})
	other := table.join(t, "host-x", setup{router: with("host-x")})
	table.update(func() { table.owners["a"] = owner.id })
	reader.host.reads.Store(true)
	read := call("a")
	read.ReadOnly = true
	by := func(m *member, inv actor.Invocation) string {
		t.Helper()
		reply, err := m.router.Invoke(t.Context(), inv)
		if err != nil {
			t.Fatal(err)
		}
		begun := make(chan string, 1)
		m.router.Begin(t.Context(), inv, receiver(func(r actor.Reply, err error) {
			if err != nil {
				t.Error(err)
			}
			begun <- string(r.Payload.Data)
		}))
		<-begun
		return string(reply.Payload.Data)
	}
	for range 20 {
		if got := by(reader, read); got != "host-r" {
			t.Fatalf("a read at a reader was answered by %s", got)
		}
		if got := by(owner, read); got != "host-o" {
			t.Fatalf("a read at the actor's host was answered by %s", got)
		}
		if got := by(reader, call("a")); got != "host-o" {
			t.Fatalf("a turn at a reader was answered by %s", got)
		}
	}
	if n := reader.count("reply"); n != 40 {
		t.Errorf("the reader passed %d calls on; want the 40 that are no reads", n)
	}
	seen := map[string]int{}
	for range 100 {
		seen[by(other, read)]++
	}
	if len(seen) != 2 || seen["host-o"] < 20 || seen["host-r"] < 20 {
		t.Errorf("reads elsewhere are answered by %v", seen)
	}

	// Nobody holds it: reads go on.
	table.update(func() { delete(table.owners, "a") })
	for range 5 {
		for _, m := range []*member{reader, other} {
			if got := by(m, read); got != "host-r" {
				t.Fatalf("a read without an owner was answered by %s", got)
			}
		}
	}
	// It is no reader any more, and the others have not heard of it.
	table.update(func() { table.owners["a"] = owner.id })
	reader.host.reads.Store(false)
	for range 20 {
		for _, m := range []*member{reader, other} {
			if got := by(m, read); got != "host-o" {
				t.Fatalf("a read that its reader refused was answered by %s", got)
			}
		}
	}
	// One that has gone is not tried.
	table.update(func() { delete(table.members, "host-r") })
	for range 20 {
		if got := by(other, read); got != "host-o" {
			t.Fatalf("a read whose reader has gone was answered by %s", got)
		}
	}
}

// receiver is a function that gets an answer.
type receiver func(actor.Reply, error)

// Answer implements [host.Receiver].
func (f receiver) Answer(r actor.Reply, err error) { f(r, err) }

// TestReaderIsLost: a call that a reader has only reads, also where its caller did not say
// so: when the reader is lost, or refuses it, the actor's host answers, and nothing is
// ambiguous.
func TestReaderIsLost(t *testing.T) {
	table := newTable()
	var wanted atomic.Bool
	wanted.Store(true)
	with := readable(&wanted, "host-r")
	owner := table.join(t, "host-o", setup{router: with("host-o")})
	reader := table.join(t, "host-r", setup{router: with("host-r")})
	other := table.join(t, "host-x", setup{router: func(c *routing.Config) {
		with("host-x")(c)
		c.SettleGrace = time.Millisecond
	}})
	p := newProxy(t, reader.addr)
	table.update(func() { table.members[reader.id] = p.Addr().String() })
	reader.host.reads.Store(true)
	reached := func(inv actor.Invocation) { // by the session that its call takes
		t.Helper()
		reader.host.set(nil)
		eventually(t, "the reader is reached", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := other.router.Invoke(ctx, inv)
			return err == nil
		})
	}
	keyed := call("b")
	keyed.IdempotencyKey = "k"
	for _, read := range []actor.Invocation{call("a"), keyed} {
		read.Method = "Read"
		reached(read)
		entered, release := blocking(reader.host)
		got := async(t.Context(), other, read) // nobody holds it: to the reader
		if inv := <-entered; !inv.ReadOnly {
			t.Error("a reader was not told that the call only reads")
		}
		table.update(func() { table.owners[read.Key.ID] = owner.id })
		p.cut()
		if got := <-got; got.err != nil || text(got.reply) != "host-o v7 f3" {
			t.Errorf("a read whose reader was lost: %+v, %v", got.reply, got.err)
		}
		close(release)
	}

	fails := call("c")
	fails.Method = "Read"
	reached(fails)
	entered, release := blocking(reader.host)
	owner.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{}, &actor.TurnError{Key: fails.Key, Method: fails.Method, Err: actor.ErrMailboxFull}
	})
	fails.IdempotencyKey = "k"
	got := async(t.Context(), other, fails)
	<-entered
	table.update(func() { table.owners["c"] = owner.id })
	p.cut()
	if got := <-got; !errors.Is(got.err, actor.ErrMailboxFull) {
		t.Errorf("a read that fails after its reader was lost: %v", got.err)
	}
	close(release)
	owner.host.set(nil)

	reader.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{}, &actor.TurnError{Key: fails.Key, Method: fails.Method, Err: actor.ErrNotReadOnly}
	})
	writes := call("d")
	writes.Method = "Read"
	table.update(func() { table.owners["d"] = owner.id })
	for range 20 {
		if reply, err := other.router.Invoke(t.Context(), writes); err != nil || text(reply) != "host-o v7 f3" {
			t.Fatalf("a read whose reader has a newer deployment: %+v, %v", reply, err)
		}
	}

	// One that is given up while a reader has it has done nothing.
	left := call("e")
	left.Method = "Read"
	reached(left)
	began, end := make(chan struct{}), make(chan struct{})
	reader.host.set(func(context.Context, actor.Invocation) (actor.Reply, error) {
		close(began)
		<-end
		return actor.Reply{}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	got = async(ctx, other, left)
	<-began
	cancel()
	if got := <-got; !errors.Is(got.err, actor.ErrCanceled) {
		t.Errorf("a read that was given up at its reader: %v", got.err)
	}
	close(end)
}

// TestReadsGoToNoThirdHost: what a host was sent, and neither holds nor reads, it sends back,
// also if it knows readers: a call goes over one other host at most.
func TestReadsGoToNoThirdHost(t *testing.T) {
	table := newTable()
	var wanted atomic.Bool
	wanted.Store(true)
	asks := table.join(t, "host-x", setup{})
	middle := table.join(t, "host-m", setup{router: readable(&wanted, "host-r")("host-m")})
	reader := table.join(t, "host-r", setup{router: readable(&wanted, "host-r")("host-r")})
	owner := table.join(t, "host-o", setup{})
	table.update(func() { table.owners["a"] = owner.id })
	reader.host.reads.Store(true)
	read := call("a")
	read.ReadOnly = true
	for range 20 { // where it goes on, it goes to the reader or to the actor's host
		asks.view.believes("a", middle.id)
		reply, err := asks.router.Invoke(t.Context(), read)
		if err != nil || string(reply.Payload.Data) != string(owner.id) {
			t.Fatalf("%s, %v", text(reply), err)
		}
	}
	if n := middle.count("reply") + middle.count("redirect"); n != 0 || asks.count("redirect") != 20 {
		t.Errorf("%d calls went on to a third host, %d of 20 came back", n, asks.count("redirect"))
	}
}

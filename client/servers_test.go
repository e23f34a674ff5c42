package client

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/server"
)

// named answers with a name, and as if it had passed the call on to another server.
func named(name, passedOnTo string) *fakeHost {
	h := &fakeHost{}
	h.does(func(context.Context, actor.Invocation) (actor.Reply, error) {
		return actor.Reply{Payload: actor.Payload{Data: []byte(name)}, Host: passedOnTo}, nil
	})
	return h
}

func urlOf(s *server.Server) string { return "http://" + s.Addr().String() }

// TestGoesToTheOwner: the reply names the server that holds the actor, and the next
// call goes there; when that one is gone, to those that are configured.
func TestGoesToTheOwner(t *testing.T) {
	for _, unary := range []bool{false, true} {
		owner := named("owner", "")
		direct := startServer(t, owner, "127.0.0.1:0", nil)
		front := named("front", direct.Addr().String())
		c := newClient(t, urlOf(startServer(t, front, "127.0.0.1:0", nil)), func(c *Config) { c.Unary = unary })
		for _, want := range []string{"front", "owner", "owner"} {
			reply, err := c.Invoke(t.Context(), "T", "x", "M", nil)
			if err != nil || string(reply.Payload) != want {
				t.Errorf("unary %v: %s answered, %v; want %s", unary, reply.Payload, err, want)
			}
		}
		if reply, err := c.Invoke(t.Context(), "T", "y", "M", nil); err != nil || string(reply.Payload) != "front" {
			t.Errorf("unary %v: another actor: %s, %v", unary, reply.Payload, err)
		}
		if err := direct.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if reply, err := c.Query(t.Context(), "T", "x", "M", nil); err != nil || string(reply.Payload) != "front" {
			t.Errorf("unary %v: without the owner: %s, %v", unary, reply.Payload, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestErrorsNameTheOwner as well.
func TestErrorsNameTheOwner(t *testing.T) {
	for _, unary := range []bool{false, true} {
		direct := startServer(t, named("owner", ""), "127.0.0.1:0", nil)
		front := &fakeHost{}
		front.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
			return actor.Reply{Host: direct.Addr().String()}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrActorNotFound}
		})
		c := newClient(t, urlOf(startServer(t, front, "127.0.0.1:0", nil)), func(c *Config) { c.Unary = unary })
		if _, err := c.Invoke(t.Context(), "T", "x", "M", nil); err == nil {
			t.Error("no error")
		}
		if reply, err := c.Invoke(t.Context(), "T", "x", "M", nil); err != nil || string(reply.Payload) != "owner" {
			t.Errorf("unary %v: %s, %v", unary, reply.Payload, err)
		}
	}
}

// TestStaysWithTheFront: a client that is told so remembers nothing.
func TestStaysWithTheFront(t *testing.T) {
	direct := startServer(t, named("owner", ""), "127.0.0.1:0", nil)
	c := newClient(t, urlOf(startServer(t, named("front", direct.Addr().String()), "127.0.0.1:0", nil)), func(c *Config) { c.MaxOwners = -1 })
	for range 3 {
		if reply, err := c.Invoke(t.Context(), "T", "x", "M", nil); err != nil || string(reply.Payload) != "front" {
			t.Errorf("%s, %v", reply.Payload, err)
		}
	}
}

// TestSeveralServers: while one is gone, the others are called, whatever was under way.
func TestSeveralServers(t *testing.T) {
	first, second := startServer(t, named("first", ""), "127.0.0.1:0", nil), startServer(t, named("second", ""), "127.0.0.1:0", nil)
	c := newClient(t, urlOf(first), func(c *Config) { c.URLs = []string{urlOf(second)} })
	if reply, err := c.Invoke(t.Context(), "T", "x", "M", nil); err != nil || string(reply.Payload) != "first" {
		t.Errorf("%s, %v", reply.Payload, err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for range 3 {
		if reply, err := c.Invoke(t.Context(), "T", "x", "M", nil); err != nil || string(reply.Payload) != "second" {
			t.Errorf("%s, %v", reply.Payload, err)
		}
	}
}

// TestStoppingServerIsLeft: a server that says that it stops is left at once, also by calls
// of actors that it is known to hold, instead of being asked until it is gone.
func TestStoppingServerIsLeft(t *testing.T) {
	asked := 0
	stopping := &fakeHost{}
	stopping.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
		if asked++; asked == 1 {
			return actor.Reply{Payload: actor.Payload{Data: []byte("first")}}, nil
		}
		return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: actor.ErrStopping}
	})
	first, second := startServer(t, stopping, "127.0.0.1:0", nil), startServer(t, named("second", ""), "127.0.0.1:0", nil)
	c := newClient(t, urlOf(first), func(c *Config) { c.URLs = []string{urlOf(second)} })
	for _, want := range []string{"first", "second", "second"} {
		if reply, err := c.Invoke(t.Context(), "T", "x", "M", nil); err != nil || string(reply.Payload) != want {
			t.Errorf("%s answered, %v; want %s", reply.Payload, err, want)
		}
	}
	if asked != 2 {
		t.Errorf("the server that stops was asked %d times", asked)
	}
}

// TestLostServerIsLeft: a server that has lost its database, or knows nobody who holds the
// actor, or does not answer, is not asked again before the others were, also for actors that
// it is known to hold.
func TestLostServerIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		repeats bool // in the same call
	}{
		"lost its database": {actor.ErrUnavailable, true}, "knows nobody": {actor.ErrNoOwner, true}, "too late": {actor.ErrDeadline, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // far more than it takes
			defer cancel()
			asked := 0
			lost := &fakeHost{}
			lost.does(func(_ context.Context, inv actor.Invocation) (actor.Reply, error) {
				if asked++; asked == 1 {
					return actor.Reply{Payload: actor.Payload{Data: []byte("first")}}, nil
				}
				return actor.Reply{}, &actor.TurnError{Key: inv.Key, Method: inv.Method, Err: c.err}
			})
			first, second := startServer(t, lost, "127.0.0.1:0", nil), startServer(t, named("second", ""), "127.0.0.1:0", nil)
			cl := newClient(t, urlOf(first), func(c *Config) { c.URLs = []string{urlOf(second)} })
			if reply, err := cl.Invoke(ctx, "T", "x", "M", nil); err != nil || string(reply.Payload) != "first" {
				t.Errorf("%s answered, %v", reply.Payload, err)
			}
			if !c.repeats {
				if _, err := cl.Invoke(ctx, "T", "x", "M", nil); err == nil {
					t.Error("no error")
				}
			}
			for _, id := range []string{"x", "x", "y"} {
				if reply, err := cl.Invoke(ctx, "T", id, "M", nil); err != nil || string(reply.Payload) != "second" {
					t.Errorf("%s: %s answered, %v", id, reply.Payload, err)
				}
			}
			if asked != 2 {
				t.Errorf("the server that is lost was asked %d times", asked)
			}
		})
	}
}

// TestOwnersAreBounded, and what is no address is not called.
func TestOwnersAreBounded(t *testing.T) {
	s := startServer(t, named("front", ""), "127.0.0.1:0", nil)
	c := newClient(t, urlOf(s), func(c *Config) { c.MaxOwners = 2 })
	front := c.servers.configured[0]
	for _, bad := range []string{"", "no port", "user@host:1", "host:1/path", "host:1?x"} {
		c.servers.learn(actor.Key{ID: "bad"}, front, bad)
	}
	if n := c.servers.owners.Len(); n != 0 {
		t.Errorf("%d owners were learned of what is no address", n)
	}
	for _, id := range strings.Split("abcdef", "") {
		c.servers.learn(actor.Key{ID: id}, front, net.JoinHostPort("127.0.0.1", "1"))
	}
	if n, targets := c.servers.owners.Len(), len(c.servers.byBase); n != 2 || targets != 2 {
		t.Errorf("%d owners, %d servers", n, targets)
	}
}

// TestSeekingHoldsUpNobody: calls of actors that nobody holds now wait at a server, and
// keep no call waiting of an actor that it is known to hold.
func TestSeekingHoldsUpNobody(t *testing.T) {
	const inFlight = 2
	waiting := make(chan struct{}, inFlight)
	h := &fakeHost{}
	h.does(func(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
		if inv.Key.ID != "held" { // its server was lost
			waiting <- struct{}{}
			<-ctx.Done()
			return actor.Reply{}, ctx.Err()
		}
		return actor.Reply{Payload: actor.Payload{Data: []byte("here")}}, nil
	})
	s, other := startServer(t, h, "127.0.0.1:0", nil), startServer(t, named("other", ""), "127.0.0.1:0", nil)
	c := newClient(t, urlOf(s), func(c *Config) { c.URLs, c.MaxInFlight = []string{urlOf(other)}, inFlight })
	if _, err := c.Invoke(t.Context(), "T", "held", "M", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for _, id := range []string{"a", "b", "c"} { // more than a stream has under way
		calls.Go(func() {
			if _, err := c.Query(ctx, "T", id, "M", nil); err == nil {
				t.Errorf("%s was answered", id)
			}
		})
	}
	for range inFlight {
		<-waiting
	}
	within, end := context.WithTimeout(t.Context(), time.Minute) // far more than it takes
	defer end()
	if reply, err := c.Invoke(within, "T", "held", "M", nil); err != nil || string(reply.Payload) != "here" {
		t.Errorf("%s, %v", reply.Payload, err)
	}
	cancel()
	calls.Wait()
}

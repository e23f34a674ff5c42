package routing_test

import (
	"testing"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/routing"
)

// TestSessionEndsForWhoAsked: a session that is asked for is opened without a call, and ends for
// who asked when its connection breaks, when its peer is no member any more, and when it cannot be
// opened.
func TestSessionEndsForWhoAsked(t *testing.T) {
	opened := make(chan actor.HostID, 10)
	tb, a, b := pair(t, setup{router: func(c *routing.Config) {
		c.Events.SessionOpened = func(peer actor.HostID) { opened <- peer }
	}})
	p := newProxy(t, b.addr)
	tb.update(func() { tb.members[b.id] = p.Addr().String() })
	whole := a.router.Session(b.id)
	if got := <-opened; got != b.id || whole.Err() != nil {
		t.Fatalf("opened a session to %s, %v", got, whole.Err())
	}
	if a.router.Session(b.id) != whole {
		t.Error("who asks later gets another session")
	}
	p.cut()
	<-whole.Done()

	next := a.router.Session(b.id)
	if got := <-opened; got != b.id || next.Err() != nil {
		t.Fatalf("opened a session to %s, %v", got, next.Err())
	}
	tb.update(func() { delete(tb.members, b.id) })
	<-next.Done()

	tb.update(func() { tb.members["host-c"] = freeAddr(t) })
	<-a.router.Session("host-c").Done()
	if b.host.turns.Load() != 0 {
		t.Error("a turn has run")
	}
}

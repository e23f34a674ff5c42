//go:build unix

package cluster_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestWatchesOfServers: an actor that watches another server learns once that it was killed, or can
// no longer be reached although it goes on, and at its new server that it has moved itself.
func TestWatchesOfServers(t *testing.T) {
	h := &watches{heldCalls: &heldCalls{t: t, members: startCluster(t, pgtest.Start(t).Database(t), nil)}}
	deployGuest(t, h.members[0], "testdata/watcher", guestbuild.Go)
	h.bank = &crash.Bank{Client: newClient(t, h.members, 0)}

	for ended := false; !ended; {
		w := h.watch(1)
		if err := h.members[1].process.Kill(); err != nil {
			t.Fatal(err)
		}
		ended = w.ends(t)
		h.members[1].start(t)
		ended = ended && w.ends(t)
	}
	for ended := false; !ended; {
		w := h.watch(2)
		h.members[2].proxy.refuse(true) // it reaches the others, and they do not reach it
		ended = w.ends(t)
		h.members[2].proxy.refuse(false)
		h.members[2].proxy.cut() // what has no watch any more
		ended = ended && w.ends(t)
	}

	told := 0
	for range 4 {
		w := h.watch(2)
		at := h.holder("Watcher", w.by)
		if err := at.process.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A server that has stopped does not try again.
		switch got := w.learned(t); {
		case slices.Equal(got, []string{"disconnected " + w.of + " moved"}):
			told++
		case len(got) > 0:
			t.Errorf("%s has learned %q", w.by, got)
		}
		at.start(t)
	}
	if told == 0 {
		t.Error("no actor has learned that it has moved")
	}
}

// watches are those of a test.
type watches struct {
	*heldCalls
	lost int // so far, with a lease of the first server, which ends them without a turn
}

// mostLost is how many may be lost.
const mostLost = 2

// watch is a watch of a server, by an actor at the first one.
type watch struct {
	*watches
	by, of string
}

// watch has an actor of the first server watch another server.
func (h *watches) watch(server int) *watch {
	h.t.Helper()
	for i := range h.members { // actors seldom move once all servers have some
		h.at("any", i)
	}
	for {
		w := &watch{h, h.at("by", 0), h.at("of", server)}
		h.call(client.Request{Type: "Watcher", ID: w.by, Method: "Watch", Payload: fmt.Appendf(nil, "%q", w.of), IdempotencyKey: "watch"})
		// Otherwise one had perhaps moved before: to the other one's server, with which both are lost.
		if h.holder("Watcher", w.of) == h.members[server] && h.holder("Watcher", w.by) == h.members[0] {
			return w
		}
	}
}

// at returns a new actor that a server holds.
func (h *watches) at(prefix string, server int) string {
	h.t.Helper()
	for deadline := time.Now().Add(stalled); time.Now().Before(deadline); {
		h.ids++
		if id := fmt.Sprint(prefix, "-", h.ids); h.holder("Watcher", id) == h.members[server] {
			return id
		}
	}
	h.t.Fatalf("server %d holds no actors", server)
	return ""
}

// learned returns what the actor that watches has learned.
func (w *watch) learned(t *testing.T) (list []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(w.call(client.Request{Type: "Watcher", ID: w.by, Method: "Book", ReadOnly: true, Strong: true})), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// ends waits until the watch has ended, once, and reports false if that was because the actor
// that watches has moved, as it may while servers come and go.
func (w *watch) ends(t *testing.T) bool {
	t.Helper()
	var got []string
	for deadline := time.Now().Add(stalled / 4); len(got) == 0 && time.Now().Before(deadline); {
		got = w.learned(t)
	}
	if slices.Equal(got, []string{"disconnected " + w.of + " moved"}) {
		return false
	}
	if len(got) == 0 && w.lost < mostLost {
		w.lost++
		t.Logf("%s has learned nothing", w.by)
		return false
	}
	if want := []string{"disconnected " + w.of + " disconnected"}; !slices.Equal(got, want) {
		t.Fatalf("%s has learned %q, want %q", w.by, got, want)
	}
	return true
}

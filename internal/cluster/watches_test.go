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

	// A server that stops tells it once, and does not wait for the turn.
	told := false
	for try := 0; try < mostStops && !told; try++ {
		w := h.watch(2)
		at := h.holder("Watcher", w.by)
		if err := at.process.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		switch got := w.learned(t); {
		case slices.Equal(got, []string{"disconnected " + w.of + " moved"}):
			told = true
		case len(got) > 0:
			t.Errorf("%s has learned %q", w.by, got)
		}
		at.start(t)
	}
	if !told {
		t.Error("no actor has learned that it has moved")
	}
}

// mostStops is how many servers stop at most until an actor has learned that it has moved.
const mostStops = 20

// TestWatchesOfServices: an actor learns what actors of other servers claim, and at its new server that it
// has moved, where it goes on to watch.
func TestWatchesOfServices(t *testing.T) {
	h := &watches{heldCalls: &heldCalls{t: t, members: startCluster(t, pgtest.Start(t).Database(t), nil)}}
	deployGuest(t, h.members[0], "testdata/watcher", guestbuild.Go)
	h.bank = &crash.Bank{Client: newClient(t, h.members, 0)}
	do := func(id, method, input string) {
		t.Helper()
		h.call(client.Request{Type: "Watcher", ID: id, Method: method, Payload: fmt.Appendf(nil, "%q", input), IdempotencyKey: method + input})
	}
	told := false
	for try := 0; try < mostStops && !told; try++ {
		w := &watch{watches: h, by: h.at("by", 0)}
		first, second, group := h.at("of", 1), h.at("of", 2), fmt.Sprint("work", try, "/")
		do(first, "Claim", group+"1")
		do(w.by, "Follow", group)
		seen := w.sees(t, "services "+group+" "+first)
		do(second, "Claim", group+"2")
		if !seen || !w.sees(t, "services "+group+" "+first+" "+second) {
			continue
		}
		at := h.holder("Watcher", w.by)
		if err := at.process.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		do(second, "Claim", group+"3")
		if slices.Contains(w.learned(t), "services "+group+" moved") { // as in TestWatchesOfServers
			told = true
			w.sees(t, "services "+group+" "+first+" "+second+" "+second)
		}
		at.start(t)
	}
	if !told {
		t.Error("no actor has learned that it has moved")
	}
}

// sees waits until the actor that watches has learned something last. It reports false if the watch was
// lost, as one is with a lease of its server.
func (w *watch) sees(t *testing.T, want string) bool {
	t.Helper()
	var got []string
	for deadline := time.Now().Add(stalled / 4); time.Now().Before(deadline); {
		if got = w.learned(t); len(got) > 0 && got[len(got)-1] == want {
			return true
		}
	}
	if w.lost++; w.lost > mostLost {
		t.Fatalf("%s has learned %q, want %q last", w.by, got, want)
	}
	t.Logf("%s has learned %q, want %q last", w.by, got, want)
	return false
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

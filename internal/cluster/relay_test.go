//go:build unix

package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/crash"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestCallbacks: visits go around three servers and come back to actors whose turns wait for them, while
// the connections between the servers break, or a server is killed and started again. Each visit is repeated
// under its key until it is acknowledged, and then recorded as often as its path says, at every actor.
func TestCallbacks(t *testing.T) {
	h := &heldCalls{t: t, members: startCluster(t, pgtest.Start(t).Database(t), nil)}
	deployGuest(t, h.members[0], "../crash/testdata/bank", guestbuild.Go)
	h.bank = &crash.Bank{Client: newClient(t, h.members, 0)}
	relays := h.relays()
	a, b, c := relays[0], relays[1], relays[2]
	paths := [][]string{{a, b, a}, {a, b, c, a, b}, {b, c, b, a, c, b}, {c, a, c, a}}
	rounds := crash.Rounds(t, 3)
	want := map[string]map[string]int{a: {}, b: {}, c: {}}
	for n := range rounds {
		var fault sync.WaitGroup
		fault.Go(func() {
			switch n % 3 {
			case 0: // nothing breaks
			case 1:
				for range 20 {
					for _, m := range h.members {
						m.proxy.cut()
					}
					<-time.After(lease / 50)
				}
			case 2:
				if err := h.members[1].process.Kill(); err != nil {
					t.Error(err)
				}
				h.members[1].start(t)
			}
		})
		began := time.Now()
		for i := range 5 * len(paths) { // one after the other: chains over hosts may wait for each other
			path, name := paths[i%len(paths)], fmt.Sprintf("visit-%d-%d", n, i)
			for at, id := range path {
				want[id][name] += 2
				if at == len(path)-1 {
					want[id][name]--
				}
			}
			payload, err := json.Marshal(map[string]any{"name": name, "path": path[1:]})
			if err != nil {
				t.Fatal(err)
			}
			h.visit(client.Request{Type: "Relay", ID: path[0], Method: "Visit", Payload: payload, IdempotencyKey: name})
		}
		fault.Wait()
		t.Logf("round %d: %v", n, time.Since(began).Round(time.Millisecond))
	}
	for id, names := range want {
		var got []string
		if err := json.Unmarshal([]byte(h.call(client.Request{Type: "Relay", ID: id, Method: "Book", ReadOnly: true, Strong: true})), &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range got {
			names[name]--
		}
		for name, n := range names {
			if n != 0 {
				t.Errorf("%s: %d records of %s are missing", id, n, name)
			}
		}
	}
	for _, m := range h.members {
		if err := m.process.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
}

// visit makes a call until it succeeds: its idempotency key makes that safe. Only an answer that says that
// the call cannot succeed fails the test.
func (h *heldCalls) visit(req client.Request) {
	h.t.Helper()
	for deadline := time.Now().Add(stalled); ; {
		_, err := (&run{client: h.bank.Client}).reply(h.t.Context(), req)
		var e *client.Error
		switch {
		case err == nil:
			return
		case !errors.As(err, &e) || e.Kind == "request_sent" || time.Now().After(deadline):
			h.t.Fatalf("%s: %v", req.IdempotencyKey, err)
		}
	}
}

// relays returns the IDs of relays that three servers hold, which have run.
func (h *heldCalls) relays() []string {
	h.t.Helper()
	found := map[*member]string{}
	for deadline := time.Now().Add(stalled); len(found) < len(h.members) && time.Now().Before(deadline); {
		h.ids++
		id := fmt.Sprint("relay-", h.ids)
		if m := h.holder("Relay", id); m != nil && found[m] == "" {
			h.call(client.Request{Type: "Relay", ID: id, Method: "Book", ReadOnly: true}) // the module is compiled
			found[m] = id
		}
	}
	var ids []string
	for _, m := range h.members {
		if found[m] == "" {
			h.t.Fatal("a server holds no relay")
		}
		ids = append(ids, found[m])
	}
	return ids
}

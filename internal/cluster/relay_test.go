//go:build unix

package cluster_test

import (
	"encoding/json"
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
// the connections between the servers break and a server is killed and started again. Each acknowledged visit
// is recorded as often as its path says, at every actor.
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
		var visits sync.WaitGroup
		broken := make(chan struct{})
		for i, path := range paths {
			name := fmt.Sprintf("visit-%d-%d", n, i)
			for at, id := range path {
				want[id][name] += 2
				if at == len(path)-1 {
					want[id][name]--
				}
			}
			visits.Go(func() {
				<-broken
				payload, err := json.Marshal(map[string]any{"name": name, "path": path[1:]})
				if err != nil {
					t.Error(err)
					return
				}
				h.call(client.Request{Type: "Relay", ID: path[0], Method: "Visit", Payload: payload, IdempotencyKey: name})
			})
		}
		began := time.Now()
		switch n % 3 {
		case 0: // nothing breaks
			close(broken)
		case 1:
			close(broken)
			for _, m := range h.members {
				m.proxy.cut()
			}
		case 2:
			close(broken)
			if err := h.members[1].process.Kill(); err != nil {
				t.Fatal(err)
			}
			h.members[1].start(t)
		}
		visits.Wait()
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

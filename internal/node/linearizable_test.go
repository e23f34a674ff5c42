package node_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/history"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// TestLinearizableOverCutConnections calls a server through the Go client, with
// idempotency keys, over connections that are cut before, in and after requests and
// in replies: every call is answered, and the answers are those of calls that each
// took effect once, at one moment.
func TestLinearizableOverCutConnections(t *testing.T) {
	stores := map[string]func(*testing.T) node.Config{
		"embedded":   func(*testing.T) node.Config { return node.Config{} },
		"postgresql": func(t *testing.T) node.Config { return node.Config{StoreURL: pgtest.URL(t)} },
		"cockroachdb": func(t *testing.T) node.Config {
			url, ok := pgtest.CockroachURL(t)
			if !ok {
				t.Skipf("%s is not set", pgtest.CockroachVariable)
			}
			return node.Config{StoreURL: url}
		},
	}
	for name, cfg := range stores {
		t.Run(name, func(t *testing.T) {
			r := start(t, cfg(t))
			r.deploy(t, "", example(t, "counter", guestbuild.Go))
			for _, unary := range []bool{false, true} {
				t.Run(fmt.Sprintf("unary=%v", unary), func(t *testing.T) { overCutConnections(t, r, unary) })
			}
		})
	}
}

func overCutConnections(t *testing.T, r *running, unary bool) {
	const callers, each, most, counters = 8, 40, 2000, 2
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	proxy := startCutProxy(t, r.Addr().String(), seed)
	c, err := client.New(client.Config{
		URL: proxy.url(), IdempotencyKeys: true, Unary: unary, StreamOnly: !unary,
		MaxAttempts: 1 << 20, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(in history.Call) (int64, error) {
		req := client.Request{Type: "Counter", ID: in.Counter, Method: "Add", Payload: fmt.Appendf(nil, `{"amount":%d}`, in.Add)}
		if in.Add == 0 {
			req.Method, req.Payload, req.ReadOnly = "Get", nil, true
		}
		reply, err := c.Do(t.Context(), req)
		if err != nil {
			return 0, err
		}
		var count struct{ Count int64 }
		err = json.Unmarshal(reply.Payload, &count)
		return count.Count, err
	}

	var calls history.History
	var working sync.WaitGroup
	for caller := range callers {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(2+caller)))
			for i := 0; i < each || i < most && !proxy.everyCut(); i++ {
				in := history.Call{Counter: fmt.Sprintf("%v-%d", unary, rng.IntN(counters)), Add: rng.Int64N(4)}
				call := calls.Begin(caller, in)
				n, err := ask(in)
				if err != nil {
					t.Errorf("a call that can be repeated failed: %v", err)
					return
				}
				call.Answered(n)
			}
		})
	}
	working.Wait()
	proxy.leaveBe()
	for id, sum := range calls.Sums() {
		if n, err := ask(history.Call{Counter: id}); err != nil || n != sum {
			t.Errorf("%s is %d (%v), and calls that were answered came to %d", id, n, err, sum)
		}
	}
	calls.Check(t)
	for at := cutRequest; at < cuts; at++ {
		n := proxy.fired[at]
		t.Logf("connections cut %v: %d", at, n)
		if n == 0 {
			t.Errorf("no connection was cut %v", at)
		}
	}
	t.Logf("%d calls", calls.Len())
}

package node_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

// counterCall is what a caller asked a counter for.
type counterCall struct {
	id  string
	add int // 0: a read
}

// counterModel is a number for each counter. Every call of the history has an
// answer.
var counterModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byID := make(map[string][]porcupine.Operation)
		for _, op := range history {
			id := op.Input.(counterCall).id
			byID[id] = append(byID[id], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range byID {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		n := state.(int) + input.(counterCall).add
		return output.(int) == n, n
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v gives %v", input, output) },
}

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
	ask := func(in counterCall) (int, error) {
		req := client.Request{Type: "Counter", ID: in.id, Method: "Add", Payload: fmt.Appendf(nil, `{"amount":%d}`, in.add)}
		if in.add == 0 {
			req.Method, req.Payload, req.ReadOnly = "Get", nil, true
		}
		reply, err := c.Do(t.Context(), req)
		if err != nil {
			return 0, err
		}
		var count struct{ Count int }
		err = json.Unmarshal(reply.Payload, &count)
		return count.Count, err
	}

	var clock atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	sums := make(map[string]int)
	var working sync.WaitGroup
	for caller := range callers {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(2+caller)))
			for i := 0; i < each || i < most && !proxy.everyCut(); i++ {
				in := counterCall{id: fmt.Sprintf("%v-%d", unary, rng.IntN(counters)), add: rng.IntN(4)}
				op := porcupine.Operation{ClientId: caller, Input: in, Call: clock.Add(1)}
				n, err := ask(in)
				op.Output, op.Return = n, clock.Add(1)
				if err != nil {
					t.Errorf("a call that can be repeated failed: %v", err)
					return
				}
				mu.Lock()
				history = append(history, op)
				sums[in.id] += in.add
				mu.Unlock()
			}
		})
	}
	working.Wait()
	proxy.leaveBe()
	for id, sum := range sums {
		if n, err := ask(counterCall{id: id}); err != nil || n != sum {
			t.Errorf("%s is %d (%v), and calls that were answered came to %d", id, n, err, sum)
		}
	}
	if !porcupine.CheckOperations(counterModel, history) {
		for _, op := range history {
			t.Logf("%d to %d: %s", op.Call, op.Return, counterModel.DescribeOperation(op.Input, op.Output))
		}
		t.Error("the history is not linearizable")
	}
	for at := cutRequest; at < cuts; at++ {
		n := proxy.fired[at]
		t.Logf("connections cut %v: %d", at, n)
		if n == 0 {
			t.Errorf("no connection was cut %v", at)
		}
	}
	t.Logf("%d calls", len(history))
}

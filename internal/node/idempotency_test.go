package node_test

import (
	"fmt"
	"sync"
	"testing"

	"connectrpc.com/connect"

	greenroomv1 "github.com/greenroom-run/greenroom/api/gen/greenroom/v1"
	"github.com/greenroom-run/greenroom/client"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
	"github.com/greenroom-run/greenroom/internal/node"
	"github.com/greenroom-run/greenroom/internal/pgtest"
)

func (r *running) keyed(t *testing.T, id, key, payload string) (string, error) {
	t.Helper()
	req := connect.NewRequest(&greenroomv1.InvokeRequest{
		Actor: &greenroomv1.ActorKey{Type: "Counter", Id: id}, Method: "Add", Payload: []byte(payload),
	})
	req.Header().Set("Idempotency-Key", key)
	resp, err := r.actors.Invoke(t.Context(), req)
	if err != nil {
		return "", err
	}
	return string(resp.Msg.Payload), nil
}

// TestIdempotencyKeys repeats calls under their keys: at once, after a restart,
// and on another process that shares the database.
func TestIdempotencyKeys(t *testing.T) {
	dir, url := t.TempDir(), pgtest.URL(t)
	for name, cfg := range map[string]node.Config{"embedded": {DataDir: dir}, "postgresql": {StoreURL: url}} {
		t.Run(name, func(t *testing.T) {
			first := start(t, cfg)
			first.deploy(t, "", example(t, "counter", guestbuild.Go))
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if got, err := first.keyed(t, "a", "k1", `{"amount":5}`); err != nil || got != `{"count":5}` {
						t.Errorf("at once: %s %v", got, err)
					}
				})
			}
			wg.Wait()
			first.mustCall(t, "", "Counter", "a", "Add", `{"amount":1}`, `{"count":6}`)
			if _, err := first.keyed(t, "a", "k1", `{"amount":6}`); detail(err).GetKind() != "idempotency_key_reused" {
				t.Errorf("the same key with another payload: %v", err)
			}
			if got, err := first.keyed(t, "b", "k1", `{"amount":7}`); err != nil || got != `{"count":7}` {
				t.Errorf("the same key of another actor: %s %v", got, err)
			}
			if cfg.StoreURL == "" {
				stop(t, first.Node)
			}
			second := start(t, cfg)
			if got, err := second.keyed(t, "a", "k1", `{"amount":5}`); err != nil || got != `{"count":5}` {
				t.Errorf("on another process: %s %v", got, err)
			}
			second.mustCall(t, "", "Counter", "a", "Get", "", `{"count":6}`)
		})
	}
}

// TestGoClient calls through the Go client, which batches over a stream.
func TestGoClient(t *testing.T) {
	r := start(t, node.Config{})
	r.deploy(t, "", example(t, "counter", guestbuild.Go))
	c, err := client.New(client.Config{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	const callers, calls = 16, 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				if _, err := c.Invoke(t.Context(), "Counter", "stream", "Add", []byte(`{"amount":1}`)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	reply, err := c.Query(t.Context(), "Counter", "stream", "Get", nil)
	if want := fmt.Sprintf(`{"count":%d}`, callers*calls); err != nil || string(reply.Payload) != want {
		t.Errorf("got %s %v, want %s", reply.Payload, err, want)
	}
}

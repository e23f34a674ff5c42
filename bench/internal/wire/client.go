package wire

import (
	"context"
	"fmt"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/client"
)

// client makes the calls of package client, over its stream or each as a request
// of its own.
func (s Spec) client() (call load.Call, end func() error) {
	conf := client.Config{URL: s.URL, URLs: s.URLs, Unary: s.Protocol == Unary, StreamOnly: s.Protocol == Stream}
	conf.App, conf.Token, conf.MaxAttempts = s.App, s.Token, s.Attempts
	if s.Forget {
		conf.MaxOwners = -1
	}
	c := must.Get(client.New(conf))
	run := runID()
	return func(ctx context.Context, worker, target, n int) error {
		payload := []byte(s.Payload)
		if s.Transfers {
			from, to := load.Pair(worker, n, s.Plan.Actors)
			if len(s.To) > 0 {
				to = s.To[to]
			}
			target, payload = from, strconv.AppendInt(nil, int64(to), 10)
		}
		if len(s.Pick) > 0 {
			target = s.Pick[target]
		}
		req := client.Request{Type: s.actorType(), ID: id(target), Method: s.Method, Payload: payload, ReadOnly: s.ReadOnly}
		if s.Keys {
			req.IdempotencyKey = key(run, worker, n)
		}
		_, err := c.Do(ctx, req)
		return err
	}, c.Close
}

// probeKeys makes sure that the server runs a call with an idempotency key once:
// a key that is passed over would cost nothing.
func (s Spec) probeKeys(ctx context.Context) {
	c := must.Get(client.New(client.Config{URL: s.URL, StreamOnly: true}))
	defer must.Close(c.Close)
	req := client.Request{Type: "Counter", ID: "probe", Method: "Add", Payload: []byte("1"), IdempotencyKey: runID()}
	first, second := must.Get(c.Do(ctx, req)), must.Get(c.Do(ctx, req))
	if first.Version == 0 || first.Version != second.Version {
		must.Check(fmt.Errorf("a call was repeated with its idempotency key, and ran again: versions %d and %d", first.Version, second.Version))
	}
}

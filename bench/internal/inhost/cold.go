package inhost

import (
	"context"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// ColdRole activates actors that are stored and not in memory, one after the
// other.
const ColdRole = "in-host-cold"

// ColdSpec says how many.
type ColdSpec struct {
	Dir, Wasm string
	Actors    int
}

// ColdResult is what an activation with its first turn took, which reads and
// changes nothing.
type ColdResult struct{ P50, P99 time.Duration }

// coldType is a type of the guest whose activations have instances of their own.
const coldType = "Pinned"

// Cold plays [ColdRole]. The actors are written by another host on the same store,
// so that theirs is cold and the store warm.
func Cold(ctx context.Context, s ColdSpec) (ColdResult, error) {
	p := assemble(ctx, must.Get(embedded.Open(ctx, embedded.Config{Dir: s.Dir, Logger: quiet})), s.Wasm)
	defer must.Close(p.end)
	cfg := p.host
	cfg.MaxActivations = 2 * s.Actors
	during := func(body func(call func(method string, n int) error)) {
		h := must.Get(host.New(cfg))
		must.Check(h.Start(ctx))
		defer must.Close(func() error { return h.Stop(ctx) })
		body(func(method string, n int) error {
			_, err := h.Invoke(ctx, actor.Invocation{ID: "bench", Method: method, Payload: actor.Payload{Data: []byte("1")},
				Key: actor.Key{App: actor.DefaultApp, Type: coldType, ID: "c" + strconv.Itoa(n)}})
			return err
		})
	}
	during(func(call func(string, int) error) {
		must.Get(load.Drive(ctx, load.Plan{Outstanding: 256, Actors: s.Actors + 1, Once: true},
			func(_ context.Context, _, n, _ int) error { return call("Add", n) }))
	})
	took := make([]time.Duration, s.Actors)
	during(func(call func(string, int) error) {
		must.Check(call("Look", s.Actors)) // with what a host does once
		for n := range took {
			began := time.Now()
			must.Check(call("Look", n))
			took[n] = time.Since(began)
		}
	})
	return ColdResult{P50: load.Quantile(took, 0.5), P99: load.Quantile(took, 0.99)}, nil
}

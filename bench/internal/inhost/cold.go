package inhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/bench/internal/load"
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
func Cold(ctx context.Context, s ColdSpec) (res ColdResult, err error) {
	st, err := embedded.Open(ctx, embedded.Config{Dir: s.Dir, Logger: quiet})
	if err != nil {
		return res, err
	}
	p, err := assemble(ctx, st, s.Wasm)
	if err != nil {
		return res, err
	}
	defer func() { err = p.end(err) }()
	cfg := p.host
	cfg.MaxActivations = 2 * s.Actors
	during := func(body func(call func(method string, n int) error) error) error {
		h, err := host.New(cfg)
		if err != nil {
			return err
		}
		if err := h.Start(ctx); err != nil {
			return err
		}
		err = body(func(method string, n int) error {
			_, err := h.Invoke(ctx, actor.Invocation{ID: "bench", Method: method, Payload: actor.Payload{Data: []byte("1")},
				Key: actor.Key{App: actor.DefaultApp, Type: coldType, ID: "c" + strconv.Itoa(n)}})
			return err
		})
		return errors.Join(err, h.Stop(ctx))
	}
	err = during(func(call func(string, int) error) error {
		_, err := load.Drive(ctx, load.Plan{Outstanding: 256, Actors: s.Actors + 1, Once: true},
			func(_ context.Context, _, n, _ int) error { return call("Add", n) })
		return err
	})
	if err != nil {
		return res, err
	}
	took := make([]time.Duration, s.Actors)
	err = during(func(call func(string, int) error) error {
		if err := call("Look", s.Actors); err != nil { // with what a host does once
			return err
		}
		for n := range took {
			began := time.Now()
			if err := call("Look", n); err != nil {
				return fmt.Errorf("actor %d: %w", n, err)
			}
			took[n] = time.Since(began)
		}
		return nil
	})
	slices.Sort(took)
	return ColdResult{P50: took[len(took)/2], P99: took[len(took)*99/100]}, err
}

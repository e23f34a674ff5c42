package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/pipeline"
)

// TestEverythingAtOnce crowds a small host: few activations, little guest memory,
// impatient callers, faults, idleness, deployments that change the placement, and
// a stop in the middle. Every acknowledged turn must be stored, every other one
// not, and no reader may see less than what was acknowledged before it asked.
func TestEverythingAtOnce(t *testing.T) {
	for name, pipelined := range map[string]pipeline.Config{"workers": {}, "callers commit": {CallersCommit: true, Workers: 2}} {
		t.Run(name, func(t *testing.T) { everythingAtOnce(t, pipelined) })
	}
}

func everythingAtOnce(t *testing.T, pipelined pipeline.Config) {
	const callers, each, actors = 16, 150, 8
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := newStage(t, host.Config{
		Pipeline: pipelined, MaxActivations: 5, GuestMemory: 20, InstanceIdle: time.Millisecond, SweepEvery: time.Millisecond,
		Limits: host.Limits{IdleTimeout: time.Millisecond, Instances: 3},
	})
	deploy := func(placement string) {
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement, MemoryBytes: 3,
			Methods: map[string]hosttest.Func{
				"Add": func(t *hosttest.Turn) error {
					if rand.N(10) == 0 {
						return hosttest.Fail("on_purpose")
					}
					if rand.N(20) == 0 {
						panic("on purpose")
					}
					return add(t)
				},
			},
			ReadOnly: map[string]hosttest.Func{"View": view},
		})
	}
	deploy(abi.PlacementRing)

	var acknowledged, unknown [actors]atomic.Int64
	var refused, served atomic.Int64
	halfway := make(chan struct{})
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(caller)))
			for i := range each {
				if caller == 1 && i == each/2 {
					close(halfway)
				}
				if caller == 0 && i%10 == 0 {
					deploy([]string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny}[rng.IntN(3)])
					s.store.plan("commit", []string{"lost", "applied", "unavailable"}[rng.IntN(3)])
				}
				n := rng.IntN(actors)
				before := acknowledged[n].Load()
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(5) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(200))*time.Microsecond, cancel)
				}
				method := "Add"
				if rng.IntN(3) == 0 {
					method = "View"
				}
				reply, err := s.call(ctx, fmt.Sprint(n), method)
				cancel()
				value, _ := strconv.ParseInt(reply, 10, 64)
				switch {
				case err != nil && errors.Is(err, actor.ErrAmbiguous):
					unknown[n].Add(1)
				case err != nil:
					refused.Add(1)
				case method == "View" && value < before:
					t.Errorf("a reader of %d sees %d, %d were acknowledged before", n, value, before)
				case method == "Add":
					acknowledged[n].Add(1)
					served.Add(1)
				}
			}
		})
	}
	<-halfway // and the others are still at it
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	group.Wait()
	for n := range actors {
		var stored int64
		fmt.Sscanf(string(s.store.row(key(fmt.Sprint(n))).State.Data), `{"n":%d}`, &stored)
		if low := acknowledged[n].Load(); stored < low || stored > low+unknown[n].Load() {
			t.Errorf("actor %d: %d stored, %d acknowledged, %d unknown", n, stored, low, unknown[n].Load())
		}
	}
	t.Logf("%d acknowledged, %d refused", served.Load(), refused.Load())
}

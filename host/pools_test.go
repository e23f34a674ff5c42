package host_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// running lists the pools in which turns run.
func (s *stage) running() string {
	var names []string
	for _, p := range s.Pools() {
		if p.Running() > 0 {
			names = append(names, fmt.Sprint(p.Name(), p.Running()))
		}
	}
	return strings.Join(names, " ")
}

// TestTurnsRunInTheirPools: the manifest names the pool of a type, and what the host is configured
// with goes before it; some turns are in a pool by what asks for them.
func TestTurnsRunInTheirPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{
			Slots: 2, Pools: []host.PoolConfig{{Name: "reports", Concurrency: 1}},
			Overrides: map[host.Scope]host.Limits{{App: "app", Type: "Report"}: {Pool: "reports"}, {App: "slow"}: {Pool: "batch"}, {App: "slow", Type: "Quick"}: {Pool: "user"}},
		})
		g := newGate()
		methods := map[string]hosttest.Func{"Hold": g.wait, "Add": add, "CallBatch": func(turn *hosttest.Turn) error {
			_, err := turn.Call("Batch", "b", "Hold", "")
			return err
		}}
		for _, typ := range []struct{ app, name, pool string }{
			{"app", "T", ""}, {"app", "Batch", "batch"}, {"app", "Report", "batch"}, {"slow", "T", ""}, {"slow", "Quick", "batch"},
		} {
			s.world.Deploy(typ.app, typ.name, hosttest.Actor{Yields: true, Pool: typ.pool, Methods: methods})
		}
		origin := &actor.Origin{From: key("elsewhere"), Chain: "c", Depth: 1}
		for _, c := range []struct {
			app, typ, method string
			origin           *actor.Origin
			want             string
		}{
			{"app", "T", "Hold", nil, "user1"}, {"app", "Batch", "Hold", nil, "batch1"}, {"app", "Report", "Hold", nil, "reports1"},
			{"slow", "T", "Hold", nil, "batch1"}, {"slow", "Quick", "Hold", nil, "user1"},
			{"app", "T", "Hold", origin, "interconnect1"}, {"app", "Batch", "Hold", origin, "batch1"},
			{"app", "T", "CallBatch", nil, "user1"},
		} {
			ended := make(chan error, 1)
			go func() {
				_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: c.app, Type: c.typ, ID: "a"}, Method: c.method, Origin: c.origin})
				ended <- err
			}()
			<-g.entered
			if got := s.running(); got != c.want {
				t.Errorf("%+v runs in %q", c, got)
			}
			g.leave <- struct{}{}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if got := s.running(); got != "" {
			t.Errorf("%q run when all have ended", got)
		}
	})
}

// TestMigrationsForReadersRunInTheSystemPool, though the type is in another one.
func TestMigrationsForReadersRunInTheSystemPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{Slots: 1})
		g := newGate()
		of := hosttest.Actor{Yields: true, Pool: "batch", StateSchema: 1, Methods: map[string]hosttest.Func{"Add": add}, ReadOnly: map[string]hosttest.Func{"View": view}}
		s.world.Deploy("app", "T", of)
		if _, err := s.call(t.Context(), "a", "Add"); err != nil {
			t.Fatal(err)
		}
		of.StateSchema, of.Migrate = 2, g.wait
		s.world.Deploy("app", "T", of)
		read := s.start(t.Context(), "a", "View")
		<-g.entered
		if got := s.running(); got != "system1" {
			t.Errorf("the migration runs in %q", got)
		}
		close(g.leave)
		if a := <-read; a.err != nil || a.reply != "1" {
			t.Errorf("read %q, %v", a.reply, a.err)
		}
	})
}

// TestBatchFloodHoldsUpNoUserTurn has 200 actors of a type in batch loop, in each lane, and counts how
// long calls of a type in user take beside them, in the time of the guests.
func TestBatchFloodHoldsUpNoUserTurn(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementAny, abi.PlacementStateless} {
		for _, slots := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(placement, " on ", slots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const actors = 200
					s := newStage(t, host.Config{Slots: slots, LockedTurns: 2 * actors, Limits: host.Limits{Instances: actors}})
					machine := make(processors, slots)
					var ran atomic.Int64
					s.world.Deploy("app", "Slow", hosttest.Actor{Placement: placement, Pool: executor.PoolBatch, Yields: true, Methods: map[string]hosttest.Func{"Spin": func(turn *hosttest.Turn) error {
						for {
							machine.use(grantTime)
							ran.Add(1)
							turn.Yield(grant)
						}
					}}})
					s.world.Deploy("app", "T", hosttest.Actor{Yields: true, Methods: map[string]hosttest.Func{"Add": func(turn *hosttest.Turn) error {
						machine.use(grantTime)
						return add(turn)
					}}})
					ctx, end := context.WithCancel(t.Context())
					for i := range actors {
						go func() {
							_, _ = s.Invoke(ctx, actor.Invocation{Key: actor.Key{App: "app", Type: "Slow", ID: fmt.Sprint(i)}, Method: "Spin"})
						}()
					}
					time.Sleep(time.Second)
					if got := ran.Load(); got == 0 {
						t.Fatal("the flood does not run")
					}
					for range 50 {
						synctest.Wait() // a grant that ends at this instant has passed on its slot
						began := time.Now()
						if _, err := s.call(t.Context(), "a", "Add"); err != nil {
							t.Fatal(err)
						}
						// The one slot may be with the flood for the rest of a grant.
						if took := time.Since(began); took > 2*grantTime || slots > 1 && took > grantTime+grantTime/2 {
							t.Fatalf("a call of %v took %v", grantTime, took)
						}
					}
					end()
				})
			})
		}
	}
}

// TestPoolsThatCannotBe: what is wrong is named.
func TestPoolsThatCannotBe(t *testing.T) {
	for want, cfg := range map[string]host.Config{
		"Pools: pool a has the weight": {Pools: []host.PoolConfig{{Name: "a", Weight: -1}}},
		`Limits.Pool: there is no pool "reports"; the pools are system, interconnect, user, batch`:       {Limits: host.Limits{Pool: "reports"}},
		`Overrides[app/T].Pool: there is no pool "reports"; the pools are system, interconnect, user, b`: {Overrides: map[host.Scope]host.Limits{{App: "app", Type: "T"}: {Pool: "reports"}}},
	} {
		cfg.Committer, cfg.Modules, cfg.Engine = newFakeStore(), hosttest.New(), hosttest.New()
		if _, err := host.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

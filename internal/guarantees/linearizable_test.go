package guarantees

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/history"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// operation is what a caller asked one actor for.
type operation struct {
	actor string
	add   bool // otherwise a read
	touch bool // by a turn that might have written, otherwise by a strong read
}

// call is what the history has of it: an add of one, or a read.
func (o operation) call() history.Call {
	c := history.Call{Counter: o.actor}
	if o.add {
		c.Add = 1
	}
	return c
}

// TestLinearizable lets callers add to and read a few actors, under every fault,
// and checks the history: whatever failed with a definite error must have left
// no trace. Two hosts of one store overtake each other all the time; one alone
// builds long on what is not committed yet.
func TestLinearizable(t *testing.T) {
	t.Run("one host", func(t *testing.T) { linearizable(t, 1, 12) })
	t.Run("two hosts", func(t *testing.T) { linearizable(t, 2, 6) })
}

func linearizable(t *testing.T, hostCount, callers int) {
	const turns, most, actors = 480, 10, 2
	onEveryStore(t, func(t *testing.T, s store.Store) {
		inEveryLane(t, func(t *testing.T, placement string) {
			seed := seeded(t)
			r := newRig(t, s, fmt.Sprintf("linear%d-%s", hostCount, placement), faultstore.Config{Seed: seed, Rates: rates(placement)})
			r.world.Deploy(r.app, "Counter", counter(placement))
			var hosts []*host.Host
			for range hostCount {
				hosts = append(hosts, r.host(t, host.Limits{})) // no turn may be late
			}

			// How many commits and loads the turns come to is a matter of timing: they
			// go on until they have met what is planned.
			met := func() bool {
				folds := hostCount == 1 && placement != abi.PlacementAny
				return len(r.store.Pending()) == 0 && (!folds || r.folded.Load() > 0)
			}
			var calls history.History
			var mu sync.Mutex
			outcomes := map[string]int{}
			var group sync.WaitGroup
			for caller := range callers {
				group.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(caller)))
					for n := 0; n < turns/callers || n < most*turns/callers && !met(); n++ {
						in := operation{actor: fmt.Sprint(rng.IntN(actors)), add: rng.IntN(3) > 0}
						// Where another host may have gone on, a turn without an effect may
						// show what was committed before.
						in.touch = hostCount == 1 && rng.IntN(2) == 0
						call := calls.Begin(caller, in.call())
						n, err := r.ask(t, hosts[rng.IntN(len(hosts))], in)
						mu.Lock()
						switch {
						case err == nil:
							call.Answered(n)
							outcomes["ok"]++
						case errors.Is(err, actor.ErrAmbiguous):
							call.Unknown()
							outcomes["ambiguous"]++
						case errors.Is(err, actor.ErrUnavailable), errors.Is(err, actor.ErrStale):
							outcomes["no effect"]++
						default:
							t.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			group.Wait()
			t.Logf("outcomes: %v; %d turns shared a commit with an earlier one", outcomes, r.folded.Load())
			if outcomes["ok"] == 0 {
				t.Error("nothing succeeded")
			}
			if hostCount == 1 && placement != abi.PlacementAny && r.folded.Load() == 0 {
				t.Error("no turn was built on one that was not committed yet")
			}
			calls.Check(t)
			r.allFired(t)
		})
	})
}

// rates makes every fault that can meet the placement's turns happen often
// enough to be met in a few hundred of them.
func rates(placement string) map[faultstore.Fault]float64 {
	faults := map[faultstore.Fault]float64{faultstore.LoadFails: 0.1, faultstore.SettleFails: 0.5}
	own := []faultstore.Fault{faultstore.CommitFails, faultstore.CommitLost, faultstore.CommitReplyLost}
	if placement == "any" {
		own = []faultstore.Fault{faultstore.TurnRetried, faultstore.TurnFails, faultstore.TurnLost, faultstore.TurnReplyLost}
	}
	for _, f := range own {
		faults[f] = 0.12
	}
	return faults
}

// ask performs an operation on a host.
func (r *rig) ask(t *testing.T, h *host.Host, op operation) (int64, error) {
	inv := actor.Invocation{Key: r.key(op.actor), Method: "Add"}
	switch {
	case op.add:
	case op.touch:
		inv.Method = "Touch"
	default:
		inv.Method, inv.ReadOnly, inv.Consistency = "Get", true, actor.ConsistencyStrong
	}
	reply, err := h.Invoke(t.Context(), inv)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(reply.Payload.Data), 10, 64)
}

package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// TestMoneyIsConserved runs concurrent transfers between accounts. Commits end in every way, and other
// writers change versions. The sum must be unchanged in every answer that shows all accounts, and in
// the store.
func TestMoneyIsConserved(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint("shared ", shared, ", seed ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { conserve(t, shared, seed) })
			})
		}
	}
}

func conserve(t *testing.T, shared bool, seed uint64) {
	const accounts, callers, rounds = 5, 12, 40
	fake := newFakeStore()
	fake.shared = shared
	var folded atomic.Int64
	s := newChainStage(t, host.Config{Committer: fake, Limits: host.Limits{Instances: 3, TurnDeadline: time.Minute}, Observers: []host.Events{{
		Commit: func(e host.CommitEnd) {
			if e.GroupSize > 1 {
				folded.Add(1)
			}
		},
	}}})
	s.store = fake
	name := func(i int) string { return fmt.Sprint("acc", i) }
	total := func() (sum int64) {
		for i := range accounts {
			sum += s.number(t, name(i))
		}
		return sum
	}
	// Commits take a while, so that chains fold into each other's.
	slow, done := make(chan struct{}), make(chan struct{})
	fake.setHold(slow)
	var feeder sync.WaitGroup
	feeder.Go(func() {
		for rng := rand.New(rand.NewPCG(seed, 99)); ; time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond) {
			select {
			case slow <- struct{}{}:
			case <-done:
				return
			}
		}
	})
	defer func() {
		close(done)
		feeder.Wait()
	}()
	var all sync.WaitGroup
	var mu sync.Mutex
	met := map[string]int{}
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			met["ok"]++
		case errors.Is(err, actor.ErrAmbiguous):
			met["ambiguous"]++
		case errors.Is(err, actor.ErrUnavailable):
			met["unavailable"]++
		case errors.Is(err, actor.ErrStale):
			met["stale"]++
		default:
			t.Error(err)
		}
	}
	for caller := range callers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(caller)))
			for range rounds {
				switch rng.IntN(10) {
				case 0: // a chain that only looks
					var ops []op
					for i := range accounts {
						ops = append(ops, op{Do: "must", ID: name(i), Look: true})
					}
					audit := s.do
					if rng.IntN(2) == 0 {
						audit = s.see
					}
					reply, err := audit(t, "auditor", ops...)
					if note(err); err == nil {
						var sum int64
						for _, text := range strings.Fields(strings.NewReplacer("(", "", ")", "").Replace(reply)) {
							var n int64
							fmt.Sscan(text, &n)
							sum += n
						}
						if sum != 0 {
							t.Errorf("an auditor saw %s", reply)
						}
					}
				case 1:
					fault := []string{"lost", "applied", "unavailable", "overtaken"}[rng.IntN(4)]
					fake.plan("commit", fault)
				case 2:
					fake.write(key(name(rng.IntN(accounts))), func(*actor.Row) {})
				default:
					from, to := rng.IntN(accounts), rng.IntN(accounts)
					n := int64(rng.IntN(20) + 1)
					ops := []op{{Do: "add", N: -n}, {Do: "call", ID: name((to + 1) % accounts), Ops: []op{{Do: "add", N: 100}, {Do: "fail"}}}, {Do: "must", ID: name(to), Ops: []op{{Do: "add", N: n}}}}
					if from == to || (to+1)%accounts == from {
						ops = []op{{Do: "add"}}
					}
					_, err := s.do(t, name(from), ops...)
					note(err)
				}
				if rng.IntN(4) == 0 {
					time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	if sum := total(); sum != 0 {
		t.Errorf("the sum is %d", sum)
	}
	t.Logf("met %v, %d commits of several calls", met, folded.Load())
	if folded.Load() == 0 {
		t.Error("no chains share a commit")
	}
	if met["ok"] < callers*rounds/10 {
		t.Errorf("hardly anything went well: %v", met)
	}
}

// TestChainsOfOneAppLeaveMemoryToOthers has chains of one app wait for one actor, each with an instance
// whose place in the pool others have, until the app has no memory for more; another app's chains
// run meanwhile.
func TestChainsOfOneAppLeaveMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, flood, calls = 1 << 20, 60, 20
		s := newStage(t, host.Config{GuestMemory: 80 * size, Limits: host.Limits{Instances: 2}})
		g := newGate()
		for _, app := range []string{"app", "quiet"} {
			chained := scriptedActor()
			chained.Methods["Hang"] = g.wait
			chained.Methods["Chain"] = func(turn *hosttest.Turn) error {
				_, err := turn.Call("T", "hot", "Hang", "")
				return err
			}
			chained.MemoryBytes = size
			s.world.Deploy(app, "T", chained)
		}
		ctx, end := context.WithCancel(t.Context())
		var loud []<-chan answer
		for i := range flood {
			loud = append(loud, s.start(ctx, fmt.Sprint(i), "Chain"))
		}
		synctest.Wait()
		if n := s.world.Open(); n != 40 {
			t.Errorf("the app has %d instances, in the memory of 40", n)
		}
		for i := range calls {
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "quiet", Type: "T", ID: fmt.Sprint("q", i)}, Method: "Do", Payload: actor.Payload{
				Data: []byte(script(op{Do: "must", ID: fmt.Sprint("r", i), Ops: []op{{Do: "must", ID: fmt.Sprint("s", i), Ops: []op{{Do: "add", N: 1}}}}})),
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		end()
		refused := 0
		for _, c := range loud {
			if a := <-c; errors.Is(a.err, actor.ErrOverloaded) || codeOf(a.err) == abi.CallBusy {
				refused++
			}
		}
		if refused == 0 {
			t.Error("no chain of the flood was refused: it was none")
		}
	})
}

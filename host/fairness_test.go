package host_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/pipeline"
)

// TestHotActorStarvesNobody floods one actor to its mailbox's bound, lets others
// call once each, and counts the turns and the groups of commits until all of
// those are answered: as many as if the hot one had few calls.
func TestHotActorStarvesNobody(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		others, flood := 1+rng.IntN(60), 100+rng.IntN(900)
		t.Run(fmt.Sprintf("instances: %d others, %d calls", others, flood), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fairInstances(t, others, flood) })
		})
		rows := 1 + rng.IntN(8)
		t.Run(fmt.Sprintf("groups: %d others, groups of %d, %d calls", others, rows, flood), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fairGroups(t, others, rows, flood) })
		})
	}
}

// fairInstances has everybody wait for the one instance, which the hot actor has.
// (With more of them, who was given one may still wait for a processor.)
func fairInstances(t *testing.T, others, flood int) {
	s := newStage(t, host.Config{Limits: host.Limits{Instances: 1, Mailbox: flood}})
	g := newGate()
	var mu sync.Mutex
	var order []string
	s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
		"Gate": g.wait,
		"Add": func(turn *hosttest.Turn) error {
			mu.Lock()
			order = append(order, turn.Frame.ID)
			mu.Unlock()
			return add(turn)
		},
	}})
	s.start(t.Context(), "hot", "Gate")
	<-g.entered
	for range flood {
		s.start(t.Context(), "hot", "Add")
	}
	for i := range others {
		s.start(t.Context(), fmt.Sprint(i), "Add")
	}
	synctest.Wait()
	close(g.leave)
	synctest.Wait()
	hot, served := 0, 0
	for _, id := range order {
		if id != "hot" {
			served++
		} else if served < others {
			hot++
		}
	}
	// What it gives back goes to who waits longest; it waits like the others then.
	if served != others || hot > 1 {
		t.Errorf("%d of %d others served; the hot actor had %d turns before the last of them", served, others, hot)
	}
	if len(order) != others+flood {
		t.Errorf("%d turns of %d", len(order), others+flood)
	}
}

// fairGroups has everybody wait for a store with one lane.
func fairGroups(t *testing.T, others, rows, flood int) {
	s := newStage(t, host.Config{
		Limits:   host.Limits{Mailbox: flood},
		Pipeline: pipeline.Config{Workers: 1, GroupRows: rows},
	})
	s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
	hold := make(chan struct{})
	s.store.setHold(hold)
	for range flood {
		s.start(t.Context(), "hot", "Add")
	}
	synctest.Wait()
	var answers []<-chan answer
	for i := range others {
		answers = append(answers, s.start(t.Context(), fmt.Sprint(i), "Add"))
	}
	synctest.Wait()
	answered := func() (n int) {
		for _, c := range answers {
			n += len(c)
		}
		return n
	}
	groups := 0
	for ; answered() < others && groups <= others+flood; groups++ {
		hold <- struct{}{} // one group
		synctest.Wait()
	}
	// The hot actor's commit, then the others and its next one, full groups.
	if most := 1 + (others+1+rows-1)/rows; groups > most {
		t.Errorf("the others were answered after %d groups, want %d at most", groups, most)
	}
	close(hold)
}

// TestAppsLockedTurnsLeavePlacesToOthers has one app's locked turns hang, as many as can run and
// as many again that wait; another app's run meanwhile.
func TestAppsLockedTurnsLeavePlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, flood, calls = 8, 50, 20
		s := newStage(t, host.Config{LockedTurns: places, Limits: host.Limits{Instances: flood}})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: abi.PlacementAny, Methods: map[string]hosttest.Func{"Hang": g.wait}})
		s.world.Deploy("quiet", "T", hosttest.Actor{Placement: abi.PlacementAny, Methods: map[string]hosttest.Func{"Add": add}})
		ctx, end := context.WithCancel(t.Context())
		for i := range flood {
			s.start(ctx, fmt.Sprint(i), "Hang")
		}
		synctest.Wait()
		if n := len(g.entered); n != places-1 {
			t.Errorf("of %d places the app has %d", places, n)
		}
		quiet := actor.Key{App: "quiet", Type: "T", ID: "q"}
		for range calls {
			if _, err := s.Invoke(t.Context(), actor.Invocation{Key: quiet, Method: "Add"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Delete(t.Context(), quiet); err != nil {
			t.Error(err)
		}
		end()
	})
}

package host_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

func dedicated() hosttest.Actor {
	return hosttest.Actor{Placement: abi.PlacementSticky, Methods: map[string]hosttest.Func{"Add": add}}
}

// callNew calls actors that nobody called before, each once.
func (s *stage) callNew(t *testing.T, from, n int) {
	t.Helper()
	for i := range n {
		if _, err := s.call(t.Context(), fmt.Sprint("new", from+i), "Add"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
}

// Instances wait for the actors of a type that is called, no more than the host
// allows, and go when nobody needs them.
func TestInstancesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64 // also those that the host makes on its own
		s := newStage(t, host.Config{InstancesAhead: 3, SweepEvery: time.Second, InstanceIdle: time.Hour,
			Events: host.Events{InstanceMade: func(host.InstanceEvent) { made.Add(1) }}})
		s.world.Deploy("app", "T", dedicated())
		s.world.Deploy("app", "Uncalled", dedicated())
		synctest.Wait()
		if s.world.Open() != 0 {
			t.Errorf("%d instances before any call", s.world.Open())
		}
		s.callNew(t, 0, 1)
		if ahead := s.world.Open() - 1; ahead != 1 {
			t.Errorf("%d wait after one call", ahead)
		}
		s.callNew(t, 1, 20)
		if ahead := s.world.Open() - 21; ahead < 1 || ahead > 3 {
			t.Errorf("%d wait after many calls", ahead)
		}
		if int(made.Load()) != s.world.Open() {
			t.Errorf("%d events, %d instances", made.Load(), s.world.Open())
		}
		time.Sleep(3 * time.Second) // the bubble's time: two sweeps without a call at least
		synctest.Wait()
		if s.world.Open() != 21 {
			t.Errorf("%d instances of 21 actors after a while", s.world.Open())
		}
		s.callNew(t, 21, 1)
		s.world.Deploy("app", "T", dedicated())
		s.callNew(t, 22, 1)
		if s.world.Open() > 23+1 {
			t.Errorf("%d instances of 23 actors: those of the old module still wait", s.world.Open())
		}
	})
}

// Under pressure, what was made ahead goes before anything else, and is not made
// from the last of the memory.
func TestInstancesAheadGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 8
		var made atomic.Int64 // also those that the host makes on its own
		s := newStage(t, host.Config{InstancesAhead: room, GuestMemory: room,
			Events: host.Events{InstanceMade: func(host.InstanceEvent) { made.Add(1) }}})
		small := dedicated()
		small.MemoryBytes = 1
		s.world.Deploy("app", "T", small)
		s.callNew(t, 0, room)
		if s.world.Open() != room {
			t.Errorf("%d instances of %d actors in memory for as many", s.world.Open(), room)
		}
		before := made.Load()
		s.callNew(t, 0, room)
		if made.Load() != before {
			t.Errorf("%d actors had lost their instances to those that wait", made.Load()-before)
		}
	})
}

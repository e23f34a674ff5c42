package host_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
)

// TestDropsUnderPressure: of a sticky actor that nobody uses the instance goes first, then
// the state, and the actor stays the host's all the same: what is left of it is that its
// next call runs here, from what the store has.
func TestDropsUnderPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		closed, left := 0, []string{}
		events := host.Events{
			InstanceClosed: func(host.InstanceEvent) { mu.Lock(); defer mu.Unlock(); closed++ },
			Deactivated: func(d host.Deactivation) {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, d.Key.ID+" "+string(d.Reason))
			},
		}
		const instances, activations = 3, 6
		o := newOwned(t, abi.PlacementSticky, actor.HeldClean, host.Config{
			GuestMemory: instances*(3<<20) + 1, GuestMemoryPerApp: instances*(3<<20) + 1, MaxActivations: activations, Observers: []host.Events{events},
		})
		a := o.actor(abi.PlacementSticky)
		a.MemoryBytes = 3 << 20
		o.world.Deploy("app", "T", a)
		seen := func() (int, []string) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return closed, slices.Clone(left)
		}
		for i := range activations {
			o.must(t, fmt.Sprint(i), "Add", "1")
			if gone, dropped := seen(); gone != max(0, i+1-instances) || len(dropped) != 0 {
				t.Errorf("with %d actors: %d instances were closed, and %q left", i+1, gone, dropped)
			}
		}
		loads := o.store.loads
		o.must(t, "0", "Add", "2") // it has no instance, and its state
		if o.store.loads != loads {
			t.Error("the state of an actor without an instance was loaded")
		}
		o.must(t, "more", "Add", "1")
		if _, dropped := seen(); len(dropped) != 1 || !strings.HasSuffix(dropped[0], " "+string(host.DeactivatePressure)) || strings.HasPrefix(dropped[0], "more") {
			t.Errorf("one actor more than there is space for: %q left", dropped)
		}
		for i := range activations {
			o.must(t, fmt.Sprint(i), "View", map[bool]string{true: "2", false: "1"}[i == 0])
		}
		for _, id := range []string{"0", "1", "2", "3", "4", "5", "more"} {
			if o.holdings.Holds(key(id), abi.PlacementSticky) != actor.HeldClean {
				t.Errorf("%s is not the host's any more", id)
			}
		}
	})
}

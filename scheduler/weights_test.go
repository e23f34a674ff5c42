package scheduler

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clustertest"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// sized is the resources of a host that has so many processors, and 2 GiB for each of them.
func sized(processors int) placement.Resources {
	return placement.Resources{Processors: processors, Memory: int64(processors) << 31}
}

// startSized starts a process that announces its resources, under IDs that follow from its
// name.
func (c *testCluster) startSized(name string, r placement.Resources) *process {
	c.t.Helper()
	lives := 0
	p := c.process(name, func(cfg *Config) {
		cfg.Resources = r
		cfg.NewID = func() actor.HostID { lives++; return actor.HostID(fmt.Sprint(name, "-", lives)) }
	})
	if err := p.Start(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	p.alive.Store(true)
	return p
}

// spread waits until nothing of a type moves, as a process knows it, and it is at so many
// hosts, and returns the parts.
func (c *testCluster) spread(p *process, typ string, hosts int) (parts []Part) {
	c.t.Helper()
	c.eventually("ranges of "+typ, func() bool {
		at, moves := map[actor.HostID]bool{}, false
		_, parts, _ = p.Placement("a", typ)
		for _, part := range parts {
			moves = moves || len(part.Hosts) == 0
			for _, id := range part.Hosts {
				at[id] = true
			}
		}
		return !moves && len(at) == hosts
	})
	<-time.After(2 * testLease) // of the bubble's time: and it stays so
	_, parts, _ = p.Placement("a", typ)
	return parts
}

// TestStickyByWeight: new sticky actors come to hosts in proportion to what these have,
// within a third of each one's share; ring types are where they are without weights. Actors
// that have a place keep it when a bigger host comes, and each process knows the weights.
func TestStickyByWeight(t *testing.T) {
	run(t, func(c *testCluster) {
		small, middle, big := c.startSized("small", sized(1)), c.startSized("middle", sized(2)), c.startSized("big", sized(4))
		c.spread(small, "S", 3)
		hosts := []placement.HostID{small.Self(), middle.Self(), big.Self()}
		want, err := placement.Ring{Ranges: placement.DefaultRanges}.Table(hosts)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range c.spread(small, "R", 3) {
			if got := want.Find(part.First).Hosts; !slices.Equal(got, part.Hosts) {
				t.Fatalf("the ring type is at %v from %#x on, and without weights at %v", part.Hosts, uint64(part.First), got)
			}
		}
		const actors = 700
		owners := map[actor.Key]string{}
		counts := map[string]int{}
		for i := range actors {
			owner, _ := c.acquired(c.processes[i%3], key("S", i))
			owners[key("S", i)] = owner
			counts[owner]++
		}
		for name, share := range map[string]int{"small": 100, "middle": 200, "big": 400} {
			if counts[name] < share*2/3 || counts[name] > share*4/3 {
				t.Errorf("%s owns %d actors; its share is %d", name, counts[name], share)
			}
		}

		huge := c.startSized("huge", sized(64))
		parts := c.spread(small, "S", 4)
		for k, owner := range owners {
			if got, _ := c.acquired(huge, k); got != owner {
				t.Errorf("%v went from %s to %s", k, owner, got)
			}
		}
		mostly := 0.0
		for _, part := range parts {
			if part.Hosts[0] == huge.Self() {
				mostly += float64(part.Last-part.First) / (1 << 64)
			}
		}
		if mostly < 0.6 { // 3.6 of 4.4
			t.Errorf("%.0f %% of new actors come to a host of 64 processors beside 7 others", 100*mostly)
		}
		for _, p := range c.processes {
			list, err := p.Hosts(c.t.Context())
			if err != nil {
				t.Fatal(err)
			}
			weights := map[string]string{}
			for _, h := range list.Hosts {
				weights[h.Name] = fmt.Sprintf("%.2f", h.Weight)
			}
			if want := map[string]string{"small": "0.25", "middle": "0.25", "big": "0.25", "huge": "3.36"}; !maps.Equal(weights, want) {
				t.Errorf("%s says that hosts weigh %v, want %v", p.name, weights, want)
			}
		}
	})
}

// TestStickyOfEqualHosts: hosts that announce the same, and those that announce nothing,
// have sticky types where ring types are.
func TestStickyOfEqualHosts(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.startSized("a", sized(4))
		c.startSized("b", sized(4))
		c.startSized("old", placement.Resources{})
		ring, sticky := c.spread(p, "R", 3), c.spread(p, "S", 3)
		if !reflect.DeepEqual(ring, sticky) {
			t.Errorf("the ring type is at %v, the sticky one at %v", ring, sticky)
		}
	})
}

// TestResourcesAreChecked: what cannot be is refused by its name.
func TestResourcesAreChecked(t *testing.T) {
	for _, r := range []placement.Resources{{Processors: -1}, {Memory: -1}, {Weight: -1}, {Weight: placement.MaxGivenWeight + 1}} {
		_, err := New(Config{Store: &clustertest.Link{}, Self: actor.Host{Cluster: "c"}, Resources: r})
		if err == nil || !strings.Contains(err.Error(), "Resources") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

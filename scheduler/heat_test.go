package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clustertest"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// hotCluster is two hosts whose leader tells how it moves ranges, and actors of the first.
type hotCluster struct {
	*testCluster
	leader *process // which hosts nothing
	ps     []*process
	moves  map[string]int
	hot    []actor.Key
}

// newHotCluster starts hosts, and picks actors of the first one: in different cells, n of
// each range.
func newHotCluster(c *testCluster, ranges, n int) *hotCluster {
	h := &hotCluster{testCluster: c, moves: map[string]int{}}
	for _, name := range []string{"leader", "a", "b"} {
		p := c.process(name, func(cfg *Config) {
			if name == "leader" {
				cfg.Self.Roles, cfg.Actors = []string{protocol.RoleScheduler}, nil // it knows the types
			}
			cfg.Events.HeatMoved = func(kind string) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.moves[kind]++
			}
		})
		if err := p.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		p.alive.Store(true)
		if h.leader == nil {
			h.leader = p
			c.eventually("it leads", func() bool { return c.leads() == p })
		} else {
			h.ps = append(h.ps, p)
		}
	}
	c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
	found := map[uint64]map[placement.Cell]bool{}
	for i := 0; len(h.hot) < ranges*n; i++ {
		k := key("R", i)
		p := placement.PointOf(k)
		r := uint64(p) / (1 << 54) // of 1,024
		if !h.ps[0].Find(k, abi.PlacementRing).Here || len(found[r]) == n || found[r] == nil && len(found) == ranges || found[r][placement.CellOf(p)] {
			continue
		}
		if found[r] == nil {
			found[r] = map[placement.Cell]bool{}
		}
		found[r][placement.CellOf(p)] = true
		h.hot = append(h.hot, k)
	}
	return h
}

// load calls the hot actors for a time, so often each second, and returns how often each
// host was called at the end of it.
func (h *hotCluster) load(rate int, during time.Duration) map[string]int {
	h.t.Helper()
	var counts map[string]int
	for range int(during / time.Second) {
		counts = map[string]int{}
		for i := range rate {
			k := h.hot[i%len(h.hot)]
			for _, p := range h.ps {
				if p.alive.Load() && p.Find(k, abi.PlacementRing).Here {
					counts[p.name]++
				}
			}
		}
		<-time.After(time.Second) // of the bubble's time
	}
	return counts
}

func (h *hotCluster) moved(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moves[kind]
}

// parts returns how many parts are not where the ring has them.
func (h *hotCluster) parts(p *process) (n int) {
	_, parts, err := p.Placement("a", "R")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, part := range parts {
		if part.Moved {
			n++
		}
	}
	return n
}

// TestHeatSplits: of a range whose actors keep one host busy a part goes to the other one,
// and no other range moves; what was done stays when a new leader takes over, and when all
// is cold again the ranges are where they were.
func TestHeatSplits(t *testing.T) {
	run(t, func(c *testCluster) {
		h := newHotCluster(c, 1, 8)
		_, before, _ := h.ps[0].Placement("a", "R")
		where := map[string]string{}
		for i := range lookedAt {
			where[key("R", i).ID] = c.holders(key("R", i), abi.PlacementRing)[0]
		}
		counts := h.load(1600, 90*time.Second)
		if counts["a"]+counts["b"] != 1600 || counts["a"] > 1200 || counts["b"] > 1200 {
			t.Fatalf("after the moves %v the hosts are called %v a second", h.moves, counts)
		}
		if h.moved(HeatSplit) == 0 || h.moved(HeatSplit) > 3 || h.moved(HeatBack) > 0 {
			t.Errorf("moves: %v", h.moves)
		}
		hot := uint64(placement.PointOf(h.hot[0])) / (1 << 54)
		for i := range lookedAt {
			k := key("R", i)
			if at := c.holders(k, abi.PlacementRing)[0]; at != where[k.ID] && uint64(placement.PointOf(k))/(1<<54) != hot {
				t.Errorf("%v went from %s to %s, and is in no hot range", k, where[k.ID], at)
			}
		}
		list, err := h.ps[0].Heat(c.t.Context(), "a", "R")
		if err != nil || len(list) != 2 || list[0].Total < 300 || list[1].Total < 300 || list[0].Total+list[1].Total > 2500 {
			t.Errorf("heat: %v, %v", list, err)
		}
		parts := h.parts(h.ps[1])
		if parts == 0 {
			t.Error("no part is known as moved")
		}

		h.leader.kill()
		c.eventually("another leads", func() bool { return c.leads() != nil })
		counts = h.load(1600, 5*time.Second)
		if got := h.parts(h.ps[1]); got != parts || counts["a"] > 1200 || counts["b"] > 1200 {
			t.Errorf("under a new leader %d parts are elsewhere, not %d; calls: %v", got, parts, counts)
		}

		<-time.After(5 * time.Minute) // nobody calls
		c.settled(20 * time.Second)
		for _, p := range h.ps {
			if _, after, _ := p.Placement("a", "R"); !slices.EqualFunc(before, after, func(a, b Part) bool { return a.First == b.First && slices.Equal(a.Hosts, b.Hosts) }) {
				t.Errorf("all is cold, and %s has %d ranges, not the %d of before", p.name, len(after), len(before))
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if h.moves[HeatBack] == 0 {
			t.Errorf("moves: %v", h.moves)
		}
	})
}

// TestHeatOfOneActor: one actor that is hot alone stays where it is.
func TestHeatOfOneActor(t *testing.T) {
	run(t, func(c *testCluster) {
		h := newHotCluster(c, 1, 1)
		if counts := h.load(1600, time.Minute); counts["a"] != 1600 || len(h.moves) > 0 {
			t.Errorf("moves: %v, calls: %v", h.moves, counts)
		}
	})
}

// TestHeatMovesRanges: of ranges that together keep one host busy whole ones go.
func TestHeatMovesRanges(t *testing.T) {
	run(t, func(c *testCluster) {
		h := newHotCluster(c, 16, 1)
		counts := h.load(1600, 2*time.Minute)
		if h.moved(HeatWhole) == 0 || h.moved(HeatSplit) > 0 || h.moved(HeatBack) > 0 || counts["a"] > 1200 || counts["b"] > 1200 {
			t.Errorf("moves: %v, calls: %v", h.moves, counts)
		}
		if n := h.moved(HeatWhole); n > 12 {
			t.Errorf("%d moves in two minutes", n)
		}
	})
}

// BenchmarkFind is what each call costs here before its turn: where the actor is found,
// and that it is held.
func BenchmarkFind(b *testing.B) {
	for _, hosts := range []int{1, 2} {
		for _, policy := range []string{abi.PlacementRing, abi.PlacementSticky} {
			b.Run(fmt.Sprintf("%s/hosts=%d", policy, hosts), func(b *testing.B) {
				s, keys := foundHere(b, hosts, policy)
				for i := 0; b.Loop(); i++ {
					k := keys[i%len(keys)]
					if !s.Find(k, policy).Here || s.Holds(k, policy) == actor.NotHeld {
						b.Fatal("it is not here")
					}
				}
			})
		}
	}
}

// foundHere is a service that is not started, one of some hosts, with actors that it holds.
func foundHere(tb testing.TB, hosts int, policy string) (s *Service, keys []actor.Key) {
	tb.Helper()
	c := &testCluster{db: clustertest.New()}
	s, err := New(Config{Store: &clustertest.Link{DB: c.db}, Self: actor.Host{Cluster: "c"}, Types: func() []protocol.Type { return nil }, Actors: &process{}})
	if err != nil {
		tb.Fatal(err)
	}
	ids := []actor.HostID{s.Self()}
	for i := 1; i < hosts; i++ {
		ids = append(ids, actor.HostID(fmt.Sprint("h", i)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.members[id] = actor.Host{ID: id, Roles: []string{protocol.RoleHost}}
	}
	table, err := placement.Ring{Ranges: placement.DefaultRanges}.Table(ids)
	if err != nil {
		tb.Fatal(err)
	}
	o := protocol.Order{Types: []protocol.TypeName{{App: "a", Type: "T"}}, Policy: policy, Kind: protocol.Unlock}
	for i, r := range table.Ranges() {
		last := placement.LastPoint
		if i+1 < len(table.Ranges()) {
			last = table.Ranges()[i+1].First - 1
		}
		o.Ranges = append(o.Ranges, protocol.Range{First: r.First, Last: last, Hosts: r.Hosts})
	}
	s.holdings.Order(o, s.now())
	o.Kind = protocol.Update
	o.Ranges = slices.DeleteFunc(o.Ranges, func(r protocol.Range) bool { return r.Hosts[0] != ids[0] })
	s.holdings.Order(o, s.now())
	s.until.Store(int64(time.Hour))
	s.publish(true)
	for i := 0; len(keys) < 64; i++ {
		if k := key("T", i); table.Owner(placement.PointOf(k)) == ids[0] {
			keys = append(keys, k)
			s.owned.add(k)
		}
	}
	return s, keys
}

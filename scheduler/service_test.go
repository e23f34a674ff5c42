package scheduler

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/assignment"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestOneProcessHoldsAll: at once, over no network.
func TestOneProcessHoldsAll(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.process("a", func(cfg *Config) { cfg.Dial = nil })
		if err := p.Start(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		p.alive.Store(true)
		if counts := c.settled(200 * time.Millisecond); counts["a"] != lookedAt {
			t.Errorf("it holds %v", counts)
		}
	})
}

// TestHostsShare: hosts that come and go hold equal shares, and nothing is held twice
// on the way.
func TestHostsShare(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a")
		c.settled(time.Second)
		c.start("b", "c")
		synctest.Wait()
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		const actors = 10_000 // so many that chance does not give a host half of them
		counts := map[actor.HostID]int{}
		for n := range actors {
			counts[c.processes[0].Find(key("R", n), abi.PlacementRing).Host]++
		}
		for host, n := range counts {
			if n < actors/6 || n > actors/2 {
				t.Errorf("%s holds %d of %d", host, n, actors)
			}
		}
	})
}

// TestHostCrash: what a crashed host held is held elsewhere within the lease and a
// second; what others hold never pauses.
func TestHostCrash(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b", "c")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		victim := ps[2]
		if victim == c.leads() {
			victim = ps[1]
		}
		owned := map[int]string{}
		for i := range lookedAt {
			if h := c.holders(key("R", i), abi.PlacementRing); h[0] != victim.name {
				owned[i] = h[0]
			}
		}
		victim.kill()
		killed := time.Now()
		for {
			free := 0
			for i := range lookedAt {
				h := c.holders(key("R", i), abi.PlacementRing)
				switch {
				case len(h) > 1:
					t.Fatalf("actor %d is held by %v", i, h)
				case len(h) == 0 && owned[i] != "":
					t.Fatalf("actor %d of %s pauses", i, owned[i])
				case len(h) == 0:
					free++
				}
			}
			if free == 0 {
				break
			}
			if time.Since(killed) > testLease+time.Second {
				t.Fatalf("%d actors are held by nobody %v after the crash", free, time.Since(killed))
			}
			<-time.After(5 * time.Millisecond)
		}
		if since := time.Since(killed); since < testLease/2 {
			t.Errorf("they were given away %v after the crash, and the lease lasted", since)
		}
		for i := range lookedAt {
			if h := c.holders(key("R", i), abi.PlacementRing)[0]; owned[i] == "" && c.named(h).Holds(key("R", i), abi.PlacementRing) != actor.Held {
				t.Fatalf("actor %d was taken over as clean", i)
			}
		}
	})
}

// TestLeaderCrash: nothing that is held or owned pauses, and sticky actors can be
// acquired again within the lease and a second.
func TestLeaderCrash(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a", "b", "c")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		owners := map[int]string{}
		for i := range 50 {
			owners[i], _ = c.acquired(c.processes[i%3], key("S", i))
		}
		leader := c.leads()
		leader.kill()
		killed := time.Now()
		other := c.processes[0]
		if other == leader {
			other = c.processes[1]
		}
		for n := 100; ; n++ { // of those that are alive, by the ring
			_, _ = c.acquired(other, key("S", n))
			if since := time.Since(killed); since > testLease+time.Second {
				t.Fatalf("a sticky actor could be acquired %v after the crash", since)
			}
			for i, owner := range owners {
				if got := c.holders(key("S", i), abi.PlacementSticky); owner != leader.name && !slices.Equal(got, []string{owner}) {
					t.Fatalf("actor %d of %s is held by %v", i, owner, got)
				}
			}
			if l := c.leads(); l != nil && l != leader {
				break
			}
		}
		// What the dead one owned is acquired by another.
		for i, owner := range owners {
			if owner == leader.name {
				if got, _ := c.acquired(other, key("S", i)); got == leader.name {
					t.Fatalf("actor %d is found at the dead host", i)
				}
			}
		}
	})
}

// TestStickyClearsWithTheLeader: what hosts owned is counted when they are cleared, also of the
// leader itself and of one that ends together with it, whose claims the next one has not got.
// What a host that left had owned is not.
func TestStickyClearsWithTheLeader(t *testing.T) {
	run(t, func(c *testCluster) {
		var cleared atomic.Int64
		for _, name := range []string{"a", "b", "c", "d"} {
			p := c.process(name, func(cfg *Config) { cfg.Events.StickyCleared = func(n int) { cleared.Add(int64(n)) } })
			if err := p.Start(c.t.Context()); err != nil {
				c.t.Fatal(err)
			}
			p.alive.Store(true)
		}
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 4 })
		for n := range 60 {
			c.acquired(c.processes[n%4], key("S", n))
		}
		<-time.After(testLease) // all rows are renewed
		leader := c.leads()
		others := slices.DeleteFunc(slices.Clone(c.processes), func(p *process) bool { return p == leader })
		if err := others[2].Stop(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		others[2].alive.Store(false)
		owned := leader.Owned() + others[0].Owned()
		if leader.Owned() == 0 || others[0].Owned() == 0 || owned == 60 {
			c.t.Fatalf("%d and %d actors are owned", leader.Owned(), others[0].Owned())
		}
		leader.kill()
		others[0].kill()
		c.eventually("both are cleared", func() bool { return len(c.db.HostNames()) == 1 })
		c.settled(testLease)
		if n := cleared.Load(); n != int64(owned) {
			c.t.Errorf("%d actors of hosts that ended were counted, of %d", n, owned)
		}
	})
}

// TestStickyOwnerStays: the host that acquired a sticky actor owns it, whoever asks, and
// also when its range has moved; the others find it without asking the leader again.
func TestStickyOwnerStays(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a")
		c.settled(time.Second)
		for i := range 30 {
			if owner, _ := c.acquired(c.processes[0], key("S", i)); owner != "a" {
				t.Fatalf("owner %s", owner)
			}
		}
		c.start("b", "c")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		for i := range 30 {
			for _, p := range c.processes {
				if owner, _ := c.acquired(p, key("S", i)); owner != "a" {
					t.Fatalf("%s finds actor %d at %s", p.name, i, owner)
				}
			}
		}
		b := c.named("b")
		for i := range 30 {
			if where := b.Find(key("S", i), abi.PlacementSticky); where.Host != c.processes[0].Self() {
				t.Fatalf("actor %d is not remembered: %+v", i, where)
			}
		}
		if got := c.named("a").Owned(); got != 30 {
			t.Errorf("a owns %d", got)
		}
	})
}

// TestFrozenHost: a host that is cut off from all pauses before its lease is over, is
// cleared, and begins anew when it is back, having dropped what it had.
func TestFrozenHost(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b", "c")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		victim := ps[2]
		if victim == c.leads() {
			victim = ps[1]
		}
		was := victim.Self()
		victim.db.SetDown(true)
		victim.cut(true)
		cut := time.Now()
		for victim.Current(time.Now()) {
			if time.Since(cut) > testLease {
				t.Fatal("it goes on when its lease is over")
			}
			<-time.After(time.Millisecond)
		}
		if where := victim.Find(key("R", 1), abi.PlacementRing); where.Here {
			t.Error("it takes calls while it is paused")
		}
		victim.alive.Store(false) // for the others' sake: what it knows is of the past
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		victim.alive.Store(true)
		victim.db.SetDown(false)
		victim.cut(false)
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		if victim.Self() == was || victim.drops != 1 {
			t.Errorf("it is %s as before: %v; it dropped its actors %d times", victim.Self(), victim.Self() == was, victim.drops)
		}
	})
}

// TestLostDatabase: a host that loses the database alone waits for it with its calls for a
// lease, and then has those fail that it cannot pass on, until it is back. The others have
// its actors meanwhile.
func TestLostDatabase(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b", "c")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		for _, victim := range ps { // one of them leads
			var own actor.Key
			for i := 0; !victim.Find(key("R", i), abi.PlacementRing).Here; i++ {
				own = key("R", i+1)
			}
			victim.db.SetDown(true)
			c.eventually("its lease is over", func() bool { return !victim.Current(time.Now()) })
			paused := victim.Find(own, abi.PlacementRing)
			if paused.Wait == nil {
				t.Errorf("as its lease is over: %+v", paused)
			}
			<-time.After(testLease + clock.RenewEvery(testLease))
			synctest.Wait() // what happens at this instant has happened
			select {
			case <-paused.Wait:
			default:
				t.Error("who waits is not told")
			}
			if w := victim.Find(own, abi.PlacementRing); !w.Lost {
				t.Errorf("a lease later: %+v", w)
			}
			victim.alive.Store(false) // for the others' sake: what it knows is of the past
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
			victim.alive.Store(true)
			victim.db.SetDown(false)
			c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		}
	})
}

// TestLostHostAcquires: a call that waits for a sticky actor is woken once its host has lost
// the database for long, also where too many are asked for, and what was asked for comes when
// the database is back.
func TestLostHostAcquires(t *testing.T) {
	run(t, func(c *testCluster) {
		p := c.start("a")[0]
		c.settled(testLease)
		p.db.SetDown(true)
		c.eventually("nobody leads", func() bool { return c.leads() == nil && !p.Current(time.Now()) })
		asked := p.Find(key("S", 0), abi.PlacementSticky)
		p.Service.mu.Lock()
		p.sticky.mayAsk = make(chan struct{})
		p.Service.mu.Unlock()
		bounded := p.Find(key("S", 1), abi.PlacementSticky)
		if asked.Wait == nil || bounded.Wait == nil {
			t.Fatalf("without a leader: %+v and %+v", asked, bounded)
		}
		<-time.After(testLease + clock.RenewEvery(testLease))
		synctest.Wait() // what happens at this instant has happened
		for what, wait := range map[string]<-chan struct{}{"for the actor": asked.Wait, "to ask for it": bounded.Wait} {
			select {
			case <-wait:
			default:
				t.Errorf("a call waits %s while its host is lost", what)
			}
		}
		for n := range 2 {
			if w := p.Find(key("S", n), abi.PlacementSticky); !w.Lost {
				t.Errorf("a lease later: %+v", w)
			}
		}
		p.db.SetDown(false)
		for n := range 2 {
			c.acquired(p, key("S", n))
		}
	})
}

// TestRegistrationUnknown: a process that registers anew, and hears of it when the leader
// has cleared that row already, is a member all the same: as yet another host.
func TestRegistrationUnknown(t *testing.T) {
	run(t, func(c *testCluster) {
		a := c.start("a")[0]
		c.settled(testLease)
		b := c.start("b")[0]
		c.settled(testLease)
		away := func() { // until its row is gone, whichever that is
			for b.isRegistered() {
				<-time.After(testLease / 8)
			}
		}
		b.db.SetDown(true)
		away()
		c.db.Mu.Lock()
		b.db.Down, b.db.FailRegister = false, true
		c.db.Mu.Unlock()
		for !b.db.IsDown() || len(c.db.HostNames()) < 2 {
			<-time.After(testLease / 64)
		}
		away()
		b.db.SetDown(false)
		if counts := c.settled(2 * testLease); counts["b"] == 0 || !a.Leadership().Here {
			t.Errorf("they hold %v", counts)
		}
	})
}

// TestDatabaseDown: all pause when their counts run out, and go on as they were.
func TestDatabaseDown(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a", "b")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		<-time.After(testLease) // the rest of what moves
		before, _ := c.look()
		ids := []actor.HostID{c.processes[0].Self(), c.processes[1].Self()}
		set := func(down bool) {
			c.db.Mu.Lock()
			defer c.db.Mu.Unlock()
			c.db.Down = down
		}
		set(true)
		<-time.After(testLease / 2)
		if _, problem := c.look(); problem != "" {
			t.Errorf("half a lease later: %s", problem)
		}
		<-time.After(10 * testLease)
		if h := c.holders(key("R", 1), abi.PlacementRing); len(h) != 0 {
			t.Errorf("%v goes on", h)
		}
		set(false)
		after := c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		if ids[0] != c.processes[0].Self() || ids[1] != c.processes[1].Self() || before["a"] != after["a"] {
			t.Errorf("%v became %v", before, after)
		}
	})
}

// TestStreamLost: a host that loses its stream to the leader goes on with what it holds,
// also with what it was handing over.
func TestStreamLost(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		other := ps[1]
		if other == c.leads() {
			other = ps[0]
		}
		other.busy = make(chan struct{})
		c.start("c") // which is to get some, but the hand-over does not end
		<-time.After(testLease)
		other.cut(true)
		<-time.After(3 * testLease)
		synctest.Wait()
		for i := range lookedAt {
			if h := c.holders(key("R", i), abi.PlacementRing); len(h) != 1 {
				t.Fatalf("actor %d is held by %v", i, h)
			}
		}
		close(other.busy)
		other.cut(false)
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
	})
}

// TestStop: a host that stops hands over first, and ends when the others hold all and know
// it; until its process ends it says where calls go. Its row is gone, and where it led
// another one does.
func TestStop(t *testing.T) {
	for _, which := range []string{"the leader", "another"} {
		t.Run(which, func(t *testing.T) {
			run(t, func(c *testCluster) {
				c.takes = time.Millisecond
				ps := c.start("a", "b", "c")
				c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
				p := c.leads()
				if which == "another" {
					p = ps[(slices.Index(ps, p)+1)%3]
				}
				owner, _ := c.acquired(p, key("S", 1))
				for n := 2; owner != p.name; n++ {
					owner, _ = c.acquired(p, key("S", n))
				}
				began := time.Now()
				if err := p.Stop(c.t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
				p.alive.Store(false)
				synctest.Wait()
				moving := 0 // among the others, since it left
				for n := range lookedAt {
					switch p.Find(key("R", n), abi.PlacementRing).Host {
					case p.Self():
						t.Fatalf("it sends calls of %v to itself", key("R", n))
					case "":
						moving++
					}
				}
				if moving > assignment.MaxMoving {
					t.Errorf("of %d of %d actors it does not know where they are", moving, lookedAt)
				}
				c.eventually("the others have everything", func() bool { _, problem := c.look(); return problem == "" })
				<-time.After(clock.RenewEvery(testLease) / 2)
				if c.leads() == nil {
					t.Error("nobody leads")
				}
				if p.handOvers == 0 || p.Owned() != 0 {
					t.Errorf("%d hand-overs, %d sticky actors left", p.handOvers, p.Owned())
				}
				c.db.Mu.Lock()
				_, there := c.db.Hosts[p.Self()]
				c.db.Mu.Unlock()
				if there {
					t.Error("its row is there")
				}
				c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
			})
		})
	}
}

// TestDrainHost: a host that is asked to drain hands over all, routes calls on, and gets
// nothing new.
func TestDrainHost(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b", "c")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		if err := ps[0].DrainHost(ps[2].Self()); err != nil {
			t.Fatal(err)
		}
		counts := c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		if counts["c"] != 0 || !ps[2].Draining() {
			t.Errorf("c holds %d", counts["c"])
		}
		if err := ps[0].DrainHost("nobody"); !errors.Is(err, actor.ErrHostGone) {
			t.Errorf("drain of a host that is not there: %v", err)
		}
		ps[1].kill() // so that one is left, beside the one that drains
		c.waitFor(func(counts map[string]int) bool { return counts["a"] == lookedAt })
	})
}

// TestAnotherCluster: a process that was started with another name is refused.
func TestAnotherCluster(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a")
		p := c.process("b", func(cfg *Config) { cfg.Self.Cluster = "other" })
		if err := p.Start(c.t.Context()); !errors.Is(err, actor.ErrClusterName) {
			t.Errorf("another cluster's name in the database: %v", err)
		}
	})
}

// TestProtocols: versions that meet use the newest common one; others have no session.
func TestProtocols(t *testing.T) {
	speaks := func(low, high int) func(*Config) {
		return func(cfg *Config) { cfg.Self.MinProtocol, cfg.Self.MaxProtocol = low, high }
	}
	for name, tt := range map[string]struct {
		low, high int
		common    int // 0: none
	}{
		"the same": {1, 2, 2}, "older": {1, 1, 1}, "newer": {2, 3, 2}, "too new": {3, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *testCluster) {
				for i, p := range []*process{c.process("a", speaks(1, 2)), c.process("b", speaks(tt.low, tt.high))} {
					if err := p.Start(c.t.Context()); err != nil {
						t.Fatal(err)
					}
					p.alive.Store(true)
					if i == 0 {
						c.settled(time.Second)
					}
				}
				<-time.After(2 * testLease)
				a, b := c.processes[0], c.processes[1]
				_, protocol, ok := a.Peer(b.Self())
				if ok != (tt.common != 0) || ok && protocol != tt.common {
					t.Errorf("they speak %d: %v", protocol, ok)
				}
				if connected := b.Leadership().Connected; connected != ok {
					t.Errorf("there is a session: %v", connected)
				}
			})
		})
	}
}

// TestAnotherLease: the leader warns of a host whose lease is not as long as its own, once
// however often their sessions begin anew; not of one that does not say.
func TestAnotherLease(t *testing.T) {
	for name, tt := range map[string]struct {
		lease time.Duration
		warns int
	}{"the same": {testLease, 0}, "another": {2 * testLease, 1}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *testCluster) {
				var log syncLog
				a := c.process("a", func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				b := c.process("b", func(cfg *Config) { cfg.Lease = tt.lease })
				for _, p := range []*process{a, b} {
					if err := p.Start(c.t.Context()); err != nil {
						t.Fatal(err)
					}
					p.alive.Store(true)
					c.settled(time.Second)
				}
				b.Service.mu.Lock()
				b.endSession(errors.New("once more"))
				b.Service.mu.Unlock()
				c.settled(time.Second)
				if n := strings.Count(log.String(), "--lease"); n != tt.warns || n > 0 && !strings.Contains(log.String(), "name=b lease="+tt.lease.String()) {
					t.Errorf("%d warnings:\n%s", n, log.String())
				}
			})
		})
	}
}

// syncLog is a log that may be read while it is written.
type syncLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestPolicyChanges: when a deployment makes a ring type sticky everything is handed
// over, and then acquired; and back.
func TestPolicyChanges(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a", "b")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		for generation, policy := range []string{abi.PlacementSticky, abi.PlacementRing, abi.PlacementSticky} {
			for _, p := range c.processes {
				p.setTypes(protocol.Type{App: "a", Name: "R", Placement: policy, Generation: uint64(generation) + 2}, stickyType("S"))
			}
			if policy == abi.PlacementRing {
				c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
				if n := c.processes[0].Owned() + c.processes[1].Owned(); n != 0 {
					t.Fatalf("%d sticky actors are owned", n)
				}
				continue
			}
			for i := range 20 {
				owner, _ := c.acquired(c.processes[0], key("R", i))
				if h := c.holders(key("R", i), policy); !slices.Equal(h, []string{owner}) {
					t.Fatalf("%s owns actor %d, and %v holds it", owner, i, h)
				}
			}
		}
	})
}

// TestInspect: what people ask is answered alike by each process.
func TestInspect(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		owners := map[string]string{}
		for i := range 20 {
			owners[key("S", i).ID], _ = c.acquired(ps[i%2], key("S", i))
		}
		for _, p := range ps {
			list, err := p.Hosts(c.t.Context())
			if err != nil || len(list.Hosts) != 2 || !list.Answered || list.Epoch != 1 || list.ClockAhead != 0 {
				t.Fatalf("%+v, %v", list, err)
			}
			sticky, ranges, leaders := 0, 0, 0
			for _, h := range list.Hosts {
				sticky, ranges = sticky+h.Sticky, ranges+h.Ranges
				if h.Leader {
					leaders++
				}
				if !h.Connected || h.Draining || h.Self != (h.ID == p.Self()) {
					t.Errorf("%+v", h)
				}
			}
			if sticky != 20 || ranges < 1024 || leaders != 1 {
				t.Errorf("%d sticky actors, %d ranges, %d leaders", sticky, ranges, leaders)
			}
			var after actor.Key
			found := 0
			for {
				page, err := p.Sticky(c.t.Context(), "a", "S", "", after, 7)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page {
					if e.Owner != c.named(owners[e.Key.ID]).Self() || e.Key.ID <= after.ID {
						t.Errorf("%v at %s, after %s", e.Key, e.Owner, after.ID)
					}
					after = e.Key
				}
				if found += len(page); len(page) < 7 {
					break
				}
			}
			if found != 20 {
				t.Errorf("%d sticky actors are listed", found)
			}
			for _, k := range []actor.Key{key("S", 3), key("R", 3)} {
				at, err := p.Where(c.t.Context(), k)
				if holders := c.holders(k, at.Policy); err != nil || at.Host.Name != holders[0] || at.Moving {
					t.Errorf("%v is at %+v (%v), not at %v", k, at, err, holders)
				}
			}
			if at, err := p.Where(c.t.Context(), key("S", 99)); err != nil || at.Host.ID != "" {
				t.Errorf("one that was never called is at %+v, %v", at, err)
			}
			if _, err := p.Where(c.t.Context(), key("X", 1)); !errors.Is(err, actor.ErrTypeNotFound) {
				t.Errorf("a type that nobody runs: %v", err)
			}
			if policy, ranges, err := p.Placement("a", "R"); err != nil || policy != abi.PlacementRing || len(ranges) < 2 || ranges[0].First != 0 || ranges[len(ranges)-1].Last != placement.LastPoint {
				t.Errorf("placement %s %v %v", policy, ranges, err)
			}
			if id, err := p.FindHost("b"); err != nil || id != ps[1].Self() {
				t.Errorf("host b is %s, %v", id, err)
			}
		}
	})
}

// TestHotPathDoesNotAllocate: what is asked with each call costs no memory.
func TestHotPathDoesNotAllocate(t *testing.T) {
	run(t, func(c *testCluster) {
		c.start("a", "b")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 2 })
		p, k, now := c.processes[0], key("R", 1), time.Now()
		if n := testing.AllocsPerRun(100, func() {
			_, _, _ = p.Find(k, abi.PlacementRing), p.Holds(k, abi.PlacementRing), p.Current(now)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

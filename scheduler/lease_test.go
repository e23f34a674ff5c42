package scheduler

import (
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestUsable: a count of [clock.Usable] on the slowest clock is over before the lease is on the
// fastest one.
func TestUsable(t *testing.T) {
	for _, lease := range []time.Duration{MinLease, DefaultLease, checkoutLeases * DefaultLease, time.Hour} {
		if counted, lasts := float64(clock.Usable(lease))/0.99, float64(lease)/1.01; counted > lasts {
			t.Errorf("a lease of %v is counted for %v where it lasts for %v", lease, time.Duration(counted), time.Duration(lasts))
		}
	}
}

// TestCountsEndBeforeTheLeases: whatever a process holds a lease of, its count of it is over
// before the lease is, however long the answers of the database take, and whenever that is
// lost: as the host registers, as it is elected, as it leases a partition, or later.
func TestCountsEndBeforeTheLeases(t *testing.T) {
	const takes = testLease / 3
	counted := map[string]bool{}
	for lost := takes + time.Millisecond; lost < 12*testLease; lost += testLease / 5 {
		run(t, func(c *testCluster) {
			p := c.process("a", func(cfg *Config) { cfg.Dial = nil })
			p.types = []protocol.Type{placedType("T", "checkout:2", 1)}
			p.db.setTakes(takes)
			down := time.AfterFunc(lost, func() { p.db.setDown(true) })
			defer down.Stop()
			if err := p.Start(c.t.Context()); err != nil {
				c.t.Fatal(err)
			}
			p.alive.Store(true)
			defer func() { p.db.setDown(false); p.db.setTakes(0) }()
			for began := time.Now(); time.Since(began) < lost+(checkoutLeases+1)*testLease; <-time.After(testLease / 100) {
				for what, ends := range p.leases() {
					counted[what] = true
					if !ends.After(time.Now()) {
						c.t.Fatalf("the database was lost after %v; after %v the lease of the %s is over, and its count is not", lost, time.Since(began), what)
					}
				}
			}
		})
	}
	if len(counted) != 3 {
		t.Errorf("leases were counted of %v alone", counted)
	}
}

// leases returns when the leases end in the database that the process counts on now.
func (p *process) leases() map[string]time.Time {
	p.c.db.mu.Lock()
	defer p.c.db.mu.Unlock()
	p.Service.mu.Lock()
	defer p.Service.mu.Unlock()
	counted := map[string]time.Time{}
	if p.member.Current(p.now()) {
		counted["host"] = p.c.db.hosts[p.self.ID].ExpiresAt
	}
	for _, t := range p.checkouts.types {
		for _, o := range t.owns {
			if o.lease != (actor.Lease{}) && p.now() < o.until {
				counted["partition"] = p.c.db.leases[o.lease.Name].ExpiresAt
			}
		}
	}
	if t := p.term.Load(); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.leader.Leading(p.now()) {
			counted["leader"] = p.c.db.leases[leaderLease].ExpiresAt
		}
	}
	return counted
}

// TestLeasesAreRenewedUnderNoLock: what a leader orders, and what hosts answer, is taken
// under locks that a renewal of the host's row or of the leader's lease does not wait for.
func TestLeasesAreRenewedUnderNoLock(t *testing.T) {
	p := newTestCluster(t).process("a")
	if err := p.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	term := newTerm(p.environment, actor.Lease{Name: leaderLease, Holder: p.Self(), Epoch: 1}, p.now())
	if _, taken, err := p.db.AcquireLease(t.Context(), leaderLease, p.Self(), testLease); err != nil || !taken {
		t.Fatal(taken, err)
	}
	row, lease := p.until.Load(), term.sent.Load()
	p.Service.mu.Lock()
	defer p.Service.mu.Unlock()
	term.mu.Lock()
	defer term.mu.Unlock()
	renewed := make(chan bool)
	go func() {
		_, err := p.renew(t.Context())
		renewed <- err == nil && term.renew(t.Context())
	}()
	select {
	case ok := <-renewed:
		if !ok || p.until.Load() <= row || term.sent.Load() <= lease {
			t.Errorf("renewed: %t; the row's count was %d and is %d, the leader's was sent at %d and is at %d", ok, row, p.until.Load(), lease, term.sent.Load())
		}
	case <-time.After(time.Minute):
		t.Fatal("a renewal waits for the locks of orders")
	}
}

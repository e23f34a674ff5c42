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
// lost: as the host registers, as it leases a partition, or later. Package leader has the same
// test of the leader's lease.
func TestCountsEndBeforeTheLeases(t *testing.T) {
	const takes = testLease / 3
	counted := map[string]bool{}
	for lost := takes + time.Millisecond; lost < 12*testLease; lost += testLease / 5 {
		run(t, func(c *testCluster) {
			p := c.process("a", func(cfg *Config) { cfg.Dial = nil })
			p.types = []protocol.Type{placedType("T", "checkout:2", 1)}
			p.db.SetTakes(takes)
			down := time.AfterFunc(lost, func() { p.db.SetDown(true) })
			defer down.Stop()
			if err := p.Start(c.t.Context()); err != nil {
				c.t.Fatal(err)
			}
			p.alive.Store(true)
			defer func() { p.db.SetDown(false); p.db.SetTakes(0) }()
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
	if len(counted) != 2 {
		t.Errorf("leases were counted of %v alone", counted)
	}
}

// leases returns when the leases end in the database that the process counts on now.
func (p *process) leases() map[string]time.Time {
	p.c.db.Mu.Lock()
	defer p.c.db.Mu.Unlock()
	p.Service.mu.Lock()
	defer p.Service.mu.Unlock()
	counted := map[string]time.Time{}
	if p.ownership.Current(p.now()) {
		counted["host"] = p.c.db.Hosts[p.self.ID].ExpiresAt
	}
	for _, t := range p.competing {
		for _, o := range t.owns {
			if o.lease != (actor.Lease{}) && p.now() < o.until {
				counted["partition"] = p.c.db.Leases[o.lease.Name].ExpiresAt
			}
		}
	}
	return counted
}

// TestRowIsRenewedUnderNoLock: what a leader orders is taken under a lock that a renewal of the
// host's row does not wait for.
func TestRowIsRenewedUnderNoLock(t *testing.T) {
	p := newTestCluster(t).process("a")
	if err := p.registration.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	row := p.until.Load()
	p.Service.mu.Lock()
	defer p.Service.mu.Unlock()
	renewed := make(chan error, 1)
	go func() {
		_, err := p.registration.renew(t.Context())
		renewed <- err
	}()
	select {
	case err := <-renewed:
		if err != nil || p.until.Load() <= row {
			t.Errorf("renewed: %v; the row's count was %d and is %d", err, row, p.until.Load())
		}
	case <-time.After(time.Minute):
		t.Fatal("a renewal waits for the lock of orders")
	}
}

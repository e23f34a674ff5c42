package scheduler

import (
	"errors"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/scheduler/protocol"
)

// TestReady: a process is ready from its first table on, while it has its lease, and as
// long as it is not cut off from a leader that others have; also while nobody leads.
func TestReady(t *testing.T) {
	run(t, func(c *testCluster) {
		is := func(p *process, want error) func() bool {
			return func() bool { return errors.Is(p.Ready(), want) && (want != nil || p.Ready() == nil) }
		}
		if p := c.process("not started"); !is(p, errNoLease)() {
			c.t.Errorf("before it has joined: %v", p.Ready())
		}
		ps := c.start("a", "b", "c")
		late := c.process("late")
		late.cut(true)
		if err := late.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		for _, p := range ps {
			c.eventually(p.name+" is ready", is(p, nil))
		}
		if !is(late, errNoTables)() {
			c.t.Errorf("without a table: %v", late.Ready())
		}
		leader := c.leads()
		var others []*process
		for _, p := range ps {
			if p != leader {
				others = append(others, p)
			}
		}
		// The leader crashes: that alone makes nobody not ready.
		leader.kill()
		late.cut(false)
		late.alive.Store(true)
		for until := time.Now().Add(4 * testLease); time.Now().Before(until); <-time.After(testLease / 16) {
			for _, p := range others {
				if err := p.Ready(); err != nil {
					c.t.Fatalf("%s, after the leader's crash: %v", p.name, err)
				}
			}
		}
		c.eventually("late is ready", is(late, nil))
		// Cut off from the one that leads now.
		p := others[0]
		if p == c.leads() {
			p = others[1]
		}
		p.cut(true)
		c.eventually("it is cut off", is(p, errCutOff))
		p.cut(false)
		c.eventually("it is back", is(p, nil))
		p.deafen(true)
		c.eventually("what it sends is lost", is(p, errCutOff))
		p.deafen(false)
		c.eventually("it is heard", is(p, nil))
		p.db.SetDown(true)
		c.eventually("it has no lease", is(p, errNoLease))
		p.db.SetDown(false)
		c.eventually("it has its lease again", is(p, nil))
	})
}

// TestReadyTables: a process that the leader has answered is not ready before it has heard
// of the tables of its types, of whichever policy; a leader that waits for a host tells none.
func TestReadyTables(t *testing.T) {
	run(t, func(c *testCluster) {
		ps := c.start("a", "b", "c")
		c.waitFor(func(counts map[string]int) bool { return len(counts) == 3 })
		missing := ps[0]
		if missing == c.leads() {
			missing = ps[1]
		}
		missing.cut(true)
		c.leads().kill()
		c.eventually("another leads", func() bool { return c.leads() != nil })
		late := c.process("late", func(cfg *Config) { cfg.Self.Roles = []string{protocol.RoleHost} })
		late.setTypes(placedType("T", "ring:2", 1))
		if err := late.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		late.alive.Store(true)
		c.eventually("it has a session", func() bool { return late.Leadership().Connected })
		for until := time.Now().Add(2 * testLease); time.Now().Before(until); <-time.After(testLease / 8) {
			if err := late.Ready(); !errors.Is(err, errNoTables) {
				c.t.Fatalf("without a table: %v", err)
			}
		}
		missing.cut(false)
		c.eventually("it is ready", func() bool { return late.Ready() == nil })
	})
}

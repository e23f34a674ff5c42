package scheduler

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/scheduler/clock"
)

// otherClocks are clocks that a test sets.
type otherClocks struct{ wall, boot atomic.Int64 }

func (o *otherClocks) clocks(began time.Time) clock.Clocks {
	return clock.Clocks{
		Wall: func(now time.Time) time.Duration { return now.Sub(began) + time.Duration(o.wall.Load()) },
		Boot: func() time.Duration { return time.Since(began) + time.Duration(o.boot.Load()) },
	}
}

// TestClockJumps: a host whose wall clock or boot clock jumps beyond its lease is not
// current from that moment on, though its monotonic clock says that it is, until it has
// renewed its lease; whatever else clocks do changes nothing.
func TestClockJumps(t *testing.T) {
	for name, tt := range map[string]struct {
		wall, boot time.Duration
		pauses     bool
	}{
		"nothing":                       {},
		"the machine was suspended":     {time.Hour, time.Hour, true},
		"the wall clock is set":         {time.Hour, 0, true},
		"suspended, and the clock lost": {0, time.Hour, true},
		"set back meanwhile":            {-2 * time.Hour, time.Hour, true},
		"set back":                      {-time.Hour, 0, false},
		"by less than is left":          {testLease / 4, testLease / 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *testCluster) {
				var other otherClocks
				p := c.process("a", func(cfg *Config) { cfg.Clocks = other.clocks(time.Now()) })
				if err := p.Start(c.t.Context()); err != nil {
					c.t.Fatal(err)
				}
				p.alive.Store(true)
				c.settled(testLease)
				was := p.Self()
				p.db.SetDown(true)
				other.wall.Add(int64(tt.wall))
				other.boot.Add(int64(tt.boot))
				if tt.wall > testLease && p.Current(time.Now()) {
					c.t.Error("it is current at once")
				}
				<-time.After(clock.RenewEvery(testLease)) // nobody asks the boot clock with each call
				if got := p.Current(time.Now()); got == tt.pauses {
					c.t.Errorf("it is current: %v", got)
				}
				p.db.SetDown(false)
				c.settled(testLease)
				if p.Self() != was {
					c.t.Error("it began anew, though its row was there")
				}
			})
		})
	}
}

// TestClockDrifts: a wall clock that runs a little faster is followed in steps, none of
// which pauses a host.
func TestClockDrifts(t *testing.T) {
	run(t, func(c *testCluster) {
		began := time.Now()
		p := c.process("a", func(cfg *Config) {
			cfg.Clocks.Wall = func(now time.Time) time.Duration { d := now.Sub(began); return d + d/2000 }
		})
		if err := p.Start(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		p.alive.Store(true)
		c.settled(testLease)
		for range 10_000 {
			<-time.After(testLease / 30)
			if !p.Current(time.Now()) {
				c.t.Fatalf("it is not current after %v", time.Since(began))
			}
		}
	})
}

// BenchmarkCurrent is what each answer costs, and what it would by the monotonic clock alone.
func BenchmarkCurrent(b *testing.B) {
	s, _ := foundHere(b, 1, abi.PlacementRing)
	began := time.Now()
	for name, current := range map[string]func(time.Time) bool{
		"all clocks":      s.Current,
		"monotonic clock": func(now time.Time) bool { return int64(now.Sub(began)) < s.until.Load() },
	} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for now := time.Now(); b.Loop(); {
				if current(now) {
					n++
				}
			}
		})
	}
}

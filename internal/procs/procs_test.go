package procs

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// process is what a governor under test governs.
type process struct {
	mu      sync.Mutex
	one     bool
	changes int
	used    time.Duration
	load    float64 // of one processor
	since   time.Time
}

func (p *process) change(one bool) func() {
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.one = one
		p.changes++
	}
}

func (p *process) works(load float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.account()
	p.load = load
}

func (p *process) account() {
	now := time.Now()
	p.used += time.Duration(p.load * float64(now.Sub(p.since)))
	p.since = now
}

func (p *process) processorTime() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.account()
	return p.used, true
}

func (p *process) onOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.one
}

// governed runs test under a governor, on the clock of synctest.
func governed(t *testing.T, test func(t *testing.T, g *Governor, p *process)) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{since: time.Now()}
		g := &Governor{spread: make(chan struct{}, 1), toOne: p.change(true), toAll: p.change(false), used: p.processorTime}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { g.Run(ctx) })
		test(t, g, p)
		cancel()
		running.Wait()
		if p.onOne() {
			t.Error("the process has one processor after Run")
		}
	})
}

// pass lets d go by, a moment more than that.
func pass(d time.Duration) {
	<-time.After(d + time.Millisecond) // of synctest's clock
	synctest.Wait()
}

func TestCalmTakesOne(t *testing.T) {
	governed(t, func(t *testing.T, g *Governor, p *process) {
		p.works(0.75)
		for range 4 {
			g.Enter()
			pass(look)
			g.Leave()
		}
		if p.onOne() {
			t.Error("it has one processor before it was calm for long enough")
		}
		pass(look)
		if !p.onOne() {
			t.Error("it has all processors for calls that come one at a time")
		}
	})
}

func TestTwoCallsTakeAll(t *testing.T) {
	governed(t, func(t *testing.T, g *Governor, p *process) {
		pass(calmLooks * look)
		g.Enter()
		synctest.Wait()
		if !p.onOne() {
			t.Fatal("it has all processors for one call")
		}
		g.Enter()
		synctest.Wait()
		if p.onOne() {
			t.Error("it has one processor for two calls")
		}
		g.Leave()
		pass((calmLooks - 1) * look) // the first look finds that there were two
		if p.onOne() {
			t.Error("it went back at once")
		}
		pass(2 * look)
		if !p.onOne() {
			t.Error("it does not go back for the call that goes on")
		}
		g.Leave()
	})
}

// TestLongCallsTakeAll: two calls that take longer than a look are crowded as long
// as they last.
func TestLongCallsTakeAll(t *testing.T) {
	governed(t, func(t *testing.T, g *Governor, p *process) {
		g.Enter()
		g.Enter()
		pass(3 * calmLooks * look)
		if p.onOne() {
			t.Error("it has one processor for two calls")
		}
		g.Leave()
		g.Leave()
	})
}

func TestWorkTakesAll(t *testing.T) {
	governed(t, func(t *testing.T, g *Governor, p *process) {
		pass(calmLooks * look)
		p.works(0.95)
		pass(2 * look)
		if p.onOne() {
			t.Error("it has one processor for what fills it")
		}
		p.works(1.5)
		pass(3 * calmLooks * look)
		if p.onOne() {
			t.Error("it has one processor for what fills more than that")
		}
		p.works(0.1)
		pass((calmLooks + 1) * look)
		if !p.onOne() {
			t.Error("it does not go back")
		}
	})
}

// TestChangesAreRare: however calls come, the world is stopped four times a second
// at most.
func TestChangesAreRare(t *testing.T) {
	governed(t, func(t *testing.T, g *Governor, p *process) {
		const seconds = 20
		for range seconds * 1000 {
			g.Enter()
			if p.onOne() {
				g.Enter()
				g.Leave()
			}
			g.Leave()
			pass(0)
		}
		if p.changes > 4*seconds || p.changes < 2 {
			t.Errorf("%d changes in %d seconds", p.changes, seconds)
		}
	})
}

// TestGOMAXPROCSIsKept: who sets it has decided.
func TestGOMAXPROCSIsKept(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2")
	g := New()
	before := runtime.GOMAXPROCS(0)
	g.Run(t.Context()) // returns at once
	g.Enter()
	g.Leave()
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("GOMAXPROCS went from %d to %d", before, now)
	}
}

// TestProcess governs this process.
func TestProcess(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(2) // so that there is something to decide
	g := New()
	g.one()
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("one is %d", n)
	}
	if used, known := processorTime(); known && used <= 0 {
		t.Errorf("the process has used %s so far", used)
	}
	g.all()
	if n := runtime.GOMAXPROCS(0); n != all {
		t.Errorf("all are %d, not %d", n, all)
	}
}

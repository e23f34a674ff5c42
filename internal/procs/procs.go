package procs

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// look is how often the governor looks at what happened.
	look = 100 * time.Millisecond
	// calmLooks is how many looks in a row have to be calm.
	calmLooks = 5
	// fullShare is how much of one processor counts as all of it: what is left is
	// lost to others anyway. A caller that waits for each of its calls takes about
	// three quarters.
	fullShare = 0.9
)

// Governor decides how many processors the process has. Make it with [New]; its
// methods may be called concurrently.
type Governor struct {
	calls   atomic.Int64 // under way
	crowded atomic.Bool  // there were two at once since the last look
	alone   atomic.Bool  // the process has one processor
	spread  chan struct{}

	toOne, toAll func()
	used         func() (time.Duration, bool) // processor time of the process so far; false: not known
}

// New returns the governor of this process, which has to run, or one that does
// nothing where nothing is to be decided.
func New() *Governor {
	g := &Governor{spread: make(chan struct{}, 1)}
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return g
	}
	g.toOne = func() { runtime.GOMAXPROCS(1) }
	g.toAll = runtime.SetDefaultGOMAXPROCS // which follows the container's limits, as at the start
	g.used = processorTime
	return g
}

// Enter says that a call begins; Leave must follow.
func (g *Governor) Enter() {
	if g.calls.Add(1) == 1 {
		return
	}
	if !g.crowded.Load() {
		g.crowded.Store(true)
	}
	if g.alone.Load() {
		select {
		case g.spread <- struct{}{}:
		default: // said already
		}
	}
}

// Leave says that a call has ended.
func (g *Governor) Leave() { g.calls.Add(-1) }

// Run governs until ctx ends, and leaves all processors to the process.
func (g *Governor) Run(ctx context.Context) {
	if g.toOne == nil {
		return
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	defer g.all()
	looked := time.Now()
	used, _ := g.used()
	for calm := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-g.spread:
			g.all()
			calm = 0
			continue
		case <-tick.C:
		}
		now := time.Now()
		total, known := g.used()
		full := known && total-used >= time.Duration(fullShare*float64(now.Sub(looked)))
		looked, used = now, total
		switch busy := g.crowded.Swap(false) || g.calls.Load() > 1; {
		case busy || full:
			g.all()
			calm = 0
		case !g.alone.Load():
			if calm++; calm >= calmLooks {
				g.one()
			}
		}
	}
}

func (g *Governor) one() {
	g.alone.Store(true)
	if g.calls.Load() > 1 { // its Enter may have come too soon to see that
		g.alone.Store(false)
		return
	}
	g.toOne()
}

func (g *Governor) all() {
	if g.alone.CompareAndSwap(true, false) {
		g.toAll()
	}
}

package sim

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/greenroom-run/greenroom/internal/leaktest"
)

var (
	seedCount = flag.Int("seeds", fewSeeds, "how many seeds TestSimulation runs, from 1 on")
	runFor    = flag.Duration("for", 0, "how long TestSimulation runs random seeds, instead of a number of them")
	seedList  = flag.String("seed", "", "the seeds that TestSimulation runs, separated by commas, instead of those from 1 on")
	repeat    = flag.Int("repeat", 1, "how often TestSimulation runs each seed of -seed")
	ledgered  = flag.Bool("ledgers", false, "let each seed have ledgers, not one of three, as for a seed of TestSabotage")
	traced    = flag.Bool("trace", false, "print what happens in each seed of -seed, or that fails")
)

const (
	fewSeeds = 10
	// manySeeds are so many that everything has happened that may.
	manySeeds = 300
)

func TestMain(m *testing.M) {
	flag.Parse()
	// A seed has little to keep, and its pools keep that until the second collection.
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)
	if *runFor > 0 { // not for a few: goleak takes its time
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(leaktest.Patient(m))
}

// TestSimulation runs seeds: those from 1 on, or random ones for a time. One that fails is run again with -seed.
func TestSimulation(t *testing.T) {
	var seeds []uint64
	for text := range strings.SplitSeq(*seedList, ",") {
		if seed, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
			for range *repeat {
				seeds = append(seeds, seed)
			}
		} else if text != "" {
			t.Fatal(err)
		}
	}
	var total counts
	var next, done atomic.Int64
	began, used := time.Now(), processorTime()
	more := func() (seed uint64, ok bool) {
		n := int(next.Add(1)) - 1
		switch {
		case *seedList != "":
			if n < len(seeds) {
				return seeds[n], true
			}
			return 0, false
		case *runFor > 0:
			return rand.Uint64(), time.Since(began) < *runFor
		default:
			return uint64(n) + 1, n < *seedCount //nolint:gosec // a small number
		}
	}
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for seed, ok := more(); ok && !t.Failed(); seed, ok = more() {
					simulate(t, seed, sabotage{}, &total)
					done.Add(1)
				}
			})
		}
	})
	n, took := done.Load(), time.Since(began)
	each := func(d time.Duration) time.Duration {
		return (d / time.Duration(max(n, 1))).Round(time.Millisecond / 10)
	}
	t.Logf("%d seeds in %v: %.1f a second, %v of processor time each", n, took.Round(time.Second/10), float64(n)/took.Seconds(), each(processorTime()-used))
	for fault := range storeFaults {
		kinds = append(kinds, string(fault))
	}
	for _, kind := range kinds {
		t.Logf("%7d %s", total.of(kind), kind)
		if n >= manySeeds && *seedList == "" && total.of(kind) == 0 {
			t.Errorf("never happened: %s", kind)
		}
	}
	t.Logf("also: %v", total.others())
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// simulate runs one seed, and reports what it violates.
func simulate(t *testing.T, seed uint64, s sabotage, total *counts) {
	t.Helper()
	for _, v := range violations(t, seed, s, total) {
		t.Errorf("seed %d: %s", seed, v)
	}
}

// violations runs one seed, and returns what it violates.
func violations(t *testing.T, seed uint64, s sabotage, total *counts) (found []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, s, total)
		w.run()
		found = w.violations
		if *traced && (len(found) > 0 || *seedList != "") {
			t.Log("\n" + strings.Join(w.trace, "\n"))
		}
	})
	return found
}

// noise is a source of random numbers for several goroutines: what it gives to which of
// them is not known before. So each thing that happens has its own, as far as things can be
// told apart: see [world.noiseOf].
type noise struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (n *noise) chance(p float64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.Float64() < p
}

func (n *noise) below(d time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Duration(n.rng.Int64N(int64(d)))
}

// delay is how long something is under way: mostly not long.
func (n *noise) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := 50*time.Microsecond + time.Duration(n.rng.Int64N(int64(3*time.Millisecond)))
	if n.rng.IntN(100) == 0 {
		d += time.Duration(n.rng.Int64N(int64(lease / 4)))
	}
	return d
}

// until waits for a while, or until ctx ends.
func until(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

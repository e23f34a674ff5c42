package wasm

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/host"
	. "github.com/greenroom-run/greenroom/host/wasm/wasmtest"
)

// resident is what the process holds, in bytes, with the kernel's tables for it.
func resident(tb testing.TB) (rss, tables int64) {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip(err)
	}
	field := func(name string) int64 {
		for line := range bytes.Lines(status) {
			if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
				kb, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
				if err != nil {
					tb.Fatal(err)
				}
				return kb << 10
			}
		}
		return 0
	}
	return field("VmRSS"), field("VmPTE")
}

// BenchmarkCold makes an instance for each of 10,000 actors and runs its first
// turn, and tells the median of both together.
func BenchmarkCold(b *testing.B) {
	const actors = 10_000
	e := newEngine(b, Config{})
	p := load(b, e, Guest{}.Bytes())
	calls, turn := newCalls(), frame("{}")
	for b.Loop() {
		held := make([]host.Instance, 0, actors)
		took := make([]time.Duration, 0, actors)
		for n := range actors {
			turn.ID = strconv.Itoa(n)
			began := time.Now()
			i, err := p.NewInstance(context.Background(), 64<<20)
			if err != nil {
				b.Fatal(err)
			}
			if err := i.Run(context.Background(), turn, calls); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
			held = append(held, i)
		}
		b.ReportMetric(float64(quantile(took, 0.5))/1e3, "median-µs")
		b.ReportMetric(float64(quantile(took, 0.99))/1e3, "p99-µs")
		for _, i := range held {
			i.Close(context.Background())
		}
	}
}

// BenchmarkDedicated holds 100,000 live instances that have each run a turn, and
// tells what one costs: resident, of it on Go's heap, and in the kernel's tables.
func BenchmarkDedicated(b *testing.B) {
	const instances = 100_000
	e := newEngine(b, Config{MaxInstances: instances})
	p := load(b, e, Guest{Turn: Code(I32Const(4096), I32Const(1), Store(), I32Const(0))}.Bytes())
	calls, turn := newCalls(), frame("{}")
	held := make([]host.Instance, 0, instances)
	for b.Loop() {
		for _, i := range held {
			i.Close(context.Background())
		}
		held = held[:0]
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rss, tables := resident(b)
		for range instances {
			i, err := p.NewInstance(context.Background(), 64<<20)
			if err != nil {
				b.Fatal(err)
			}
			held = append(held, i)
			if err := i.Run(context.Background(), turn, calls); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		rss2, tables2 := resident(b)
		b.ReportMetric(float64(rss2-rss)/instances, "resident-B/instance")
		b.ReportMetric(float64(tables2-tables)/instances, "tables-B/instance")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/instances, "heap-B/instance")
		b.ReportMetric(float64(after.NextGC)/float64(after.HeapAlloc), "heap-target/heap")
	}
	for _, i := range held {
		i.Close(context.Background())
	}
}

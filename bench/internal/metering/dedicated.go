package metering

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/engine/compile"
	"github.com/greenroom-run/greenroom/engine/wasm"
	"github.com/greenroom-run/greenroom/internal/guestbuild"
)

const (
	dedicatedRole = "dedicated"
	// dedicatedInstances are live at the same time; each has run a turn.
	dedicatedInstances = 100_000
	// residentLimit is what one may take of the process's resident memory.
	residentLimit = 20_000
)

type dedicatedSpec struct {
	Wasm      string
	Instances int
}

// dedicatedResult is bytes for each instance, and of the whole heap.
type dedicatedResult struct {
	Resident, Tables, Heap float64
	HeapTarget, TwiceHeap  float64
}

// dedicated is metering.3.
func dedicated(b *bar.B) {
	small := b.Build("bench/smallguest", guestbuild.Cargo)
	n := b.Count(dedicatedInstances)
	b.Each(func(run int) {
		res := bar.Call[dedicatedResult](b, dedicatedRole, dedicatedSpec{small, n})
		b.Compare("resident", res.Resident/1e3, residentLimit/1e3)
		b.Compare("heap target over twice the heap", res.HeapTarget/1e6, res.TwiceHeap/1e6)
		b.Note("run %d, %d instances, for each: %s", run, n, res)
	})
	res := bar.Call[dedicatedResult](b, dedicatedRole, dedicatedSpec{b.Guest(), n / 5})
	b.Note("the counter of bench/guest, written with the SDK, %d instances, for each: %s", n/5, res)
}

func (r dedicatedResult) String() string {
	return fmt.Sprintf("%.1f KB resident, of it %.1f on Go's heap; %.1f KB in the kernel's tables", r.Resident/1e3, r.Heap/1e3, r.Tables/1e3)
}

// runDedicated plays [dedicatedRole].
func runDedicated(ctx context.Context, s dedicatedSpec) (dedicatedResult, error) {
	e := must.Get(wasm.New(ctx, wasm.Config{EngineConfig: compile.EngineConfig{MaxInstances: s.Instances + 1}}))
	defer must.Close(func() error { return e.Close(context.WithoutCancel(ctx)) }) // with its instances
	p := must.Get(loadFile(ctx, e, s.Wasm))
	held := make([]engine.Instance, 0, s.Instances)
	add := func() {
		i := must.Get(p.NewInstance(ctx, memoryLimit))
		held = append(held, i)
		must.Check(i.Run(ctx, turn("c"+strconv.Itoa(len(held)), "Add", "1"), new(calls)))
	}
	add() // with what is made once
	before, heapBefore := status(), usage.Memory()
	for len(held) < s.Instances {
		add()
	}
	heapAfter := usage.Memory()
	after := status()
	n := float64(s.Instances - 1)
	live := float64(heapAfter.HeapAlloc + heapAfter.StackInuse)
	return dedicatedResult{
		Resident: (after.resident - before.resident) / n, Tables: (after.tables - before.tables) / n,
		Heap:       float64(heapAfter.HeapAlloc-heapBefore.HeapAlloc) / n,
		HeapTarget: float64(heapAfter.NextGC), TwiceHeap: 2 * live,
	}, nil
}

// memory is in bytes.
type memory struct{ resident, tables float64 }

// status is what this process holds, and the kernel for it; zero where there is no
// /proc.
func status() (m memory) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(string(fields[1]), 64)
		switch string(fields[0]) {
		case "VmRSS:":
			m.resident = kb * 1024
		case "VmPTE:":
			m.tables = kb * 1024
		}
	}
	return m
}

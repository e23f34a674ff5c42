package metering

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
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
func dedicated(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	small, err := r.Build(ctx, "bench/smallguest", guestbuild.Cargo)
	if err != nil {
		return err
	}
	counter, _, err := r.Guest(ctx)
	if err != nil {
		return err
	}
	n := r.Count(dedicatedInstances)
	for run := range r.Runs {
		res, err := role.Call[dedicatedResult](ctx, dedicatedRole, dedicatedSpec{small, n})
		if err != nil {
			return err
		}
		rec.Compare("resident", res.Resident/1e3, residentLimit/1e3)
		rec.Compare("heap target over twice the heap", res.HeapTarget/1e6, res.TwiceHeap/1e6)
		rec.Note("run %d, %d instances, for each: %.1f KB resident, of it %.1f on Go's heap; %.1f KB in the kernel's tables",
			run+1, n, res.Resident/1e3, res.Heap/1e3, res.Tables/1e3)
	}
	res, err := role.Call[dedicatedResult](ctx, dedicatedRole, dedicatedSpec{counter, n / 5})
	if err != nil {
		return err
	}
	rec.Note("the counter of bench/guest, written with the SDK, %d instances, for each: %.1f KB resident, of it %.1f on Go's heap; %.1f KB in the kernel's tables",
		n/5, res.Resident/1e3, res.Heap/1e3, res.Tables/1e3)
	return nil
}

// runDedicated plays [dedicatedRole].
func runDedicated(ctx context.Context, s dedicatedSpec) (res dedicatedResult, err error) {
	e, err := wasm.New(ctx, wasm.Config{EngineConfig: compile.EngineConfig{MaxInstances: s.Instances + 1}})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	p, err := loadFile(ctx, e, s.Wasm)
	if err != nil {
		return res, err
	}
	held := make([]engine.Instance, 0, s.Instances)
	defer func() {
		for _, i := range held {
			err = errors.Join(err, i.Close(ctx))
		}
	}()
	add := func() error {
		i, err := p.NewInstance(ctx, memoryLimit)
		if err != nil {
			return err
		}
		held = append(held, i)
		return i.Run(ctx, turn("c"+strconv.Itoa(len(held)), "Add", "1"), new(calls))
	}
	if err := add(); err != nil { // with what is made once
		return res, err
	}
	before := status()
	heapBefore := heap()
	for len(held) < s.Instances {
		if err := add(); err != nil {
			return res, err
		}
	}
	heapAfter := heap()
	after := status()
	n := float64(s.Instances - 1)
	live := float64(heapAfter.HeapAlloc + heapAfter.StackInuse)
	return dedicatedResult{
		Resident: (after.resident - before.resident) / n, Tables: (after.tables - before.tables) / n,
		Heap:       float64(heapAfter.HeapAlloc-heapBefore.HeapAlloc) / n,
		HeapTarget: float64(heapAfter.NextGC), TwiceHeap: 2 * live,
	}, nil
}

// heap collects and returns what is left.
func heap() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // the first one leaves what it swept to the second
	runtime.ReadMemStats(&m)
	return m
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

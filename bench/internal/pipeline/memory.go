package pipeline

import (
	"fmt"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/must"
	"github.com/greenroom-run/greenroom/bench/internal/usage"
	"github.com/greenroom-run/greenroom/bench/internal/wire"
)

const (
	memoryActors = 1_000_000
	// memorySlices is how often the memory is looked at.
	memorySlices = 20
	// activationBytes is what an activation with 200 bytes of state takes, about,
	// so that cachedActivations of them take 64 MiB.
	activationBytes   = 1 << 10
	cachedActivations = 64 << 20 / activationBytes
)

// flatMemory is pipeline.10. It runs once: its many slices are its runs.
func flatMemory(b *bar.B) {
	total := b.Count(memoryActors)
	slice := total / memorySlices
	if slice == 0 {
		must.Check(fmt.Errorf("%d actors are too few to watch memory with; use %d at least", total, memorySlices))
	}
	s := serveEmbedded(b, "--max-actors", strconv.Itoa(cachedActivations))
	mebis := func() float64 { return float64(usage.Resident(s.PID)) / (1 << 20) }
	var halves [2]float64
	for i := range memorySlices {
		turns := wire.Spec{URL: s.URL}.Fill(i*slice, slice, ballast)
		turns.Plan.Watch = map[string]int{"server": s.PID}
		resident := mebis()
		called(b, fmt.Sprintf("actors %d to %d", i*slice, (i+1)*slice), 1, turns)
		resident = max(resident, mebis())
		b.Note("resident after %d actors: %.0f MiB", (i+1)*slice, resident)
		half := &halves[i*len(halves)/memorySlices]
		*half = max(*half, resident)
	}
	b.Compare("resident", halves[1], halves[0])
}

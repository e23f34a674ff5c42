package pipeline

import (
	"context"
	"fmt"
	"strconv"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/load"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
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
func flatMemory(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	total := r.Count(memoryActors)
	slice := total / memorySlices
	if slice == 0 {
		return fmt.Errorf("%d actors are too few to watch memory with; use %d at least", total, memorySlices)
	}
	return serveEmbedded(ctx, r, func(s *rig.Server) error {
		var halves [2]float64 // MiB
		for i := range memorySlices {
			turns := wire.Spec{URL: s.URL, Protocol: wire.Stream, Method: "Fill", Payload: strconv.Itoa(ballast),
				Plan: load.Plan{Outstanding: many, First: i * slice, Actors: slice, Once: true, Watch: map[string]int{"server": s.PID}}}
			resident := float64(usage.Resident(s.PID)) / (1 << 20)
			if _, err := called(ctx, rec, fmt.Sprintf("actors %d to %d", i*slice, (i+1)*slice), 1, turns); err != nil {
				return err
			}
			resident = max(resident, float64(usage.Resident(s.PID))/(1<<20))
			rec.Note("resident after %d actors: %.0f MiB", (i+1)*slice, resident)
			half := &halves[i*len(halves)/memorySlices]
			*half = max(*half, resident)
		}
		rec.Compare("resident", halves[1], halves[0])
		return nil
	}, "--max-actors", strconv.Itoa(cachedActivations))
}

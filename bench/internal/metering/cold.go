package metering

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
	"github.com/greenroom-run/greenroom/bench/internal/rig"
	"github.com/greenroom-run/greenroom/bench/internal/role"
)

const (
	// coldActors are activated, one after the other.
	coldActors = 10_000
	coldLimit  = 60 * time.Microsecond
)

// cold is metering.4.
func cold(ctx context.Context, r *rig.Rig, rec *bar.Record) error {
	module, _, err := r.Guest(ctx)
	if err != nil {
		return err
	}
	for run := range r.Runs {
		dir, remove, err := r.Folder()
		if err != nil {
			return err
		}
		res, err := role.Call[inhost.ColdResult](ctx, inhost.ColdRole,
			inhost.ColdSpec{Dir: dir, Wasm: module, Actors: r.Count(coldActors)})
		remove()
		if err != nil {
			return err
		}
		rec.Note("run %d: median %s, p99 %s", run+1, res.P50, res.P99)
		rec.Compare("median", float64(res.P50)/1e3, float64(coldLimit)/1e3)
	}
	return nil
}

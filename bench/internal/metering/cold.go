package metering

import (
	"time"

	"github.com/greenroom-run/greenroom/bench/internal/bar"
	"github.com/greenroom-run/greenroom/bench/internal/inhost"
)

const (
	// coldActors are activated, one after the other.
	coldActors = 10_000
	coldLimit  = 60 * time.Microsecond
)

// cold is metering.4.
func cold(b *bar.B) {
	b.Each(func(run int) {
		res := bar.Call[inhost.ColdResult](b, inhost.ColdRole, inhost.ColdSpec{Dir: b.Folder(), Wasm: b.Guest(), Actors: b.Count(coldActors)})
		b.Note("run %d: median %s, p99 %s", run, res.P50, res.P99)
		b.Compare("median", bar.Micros(res.P50), bar.Micros(coldLimit))
	})
}

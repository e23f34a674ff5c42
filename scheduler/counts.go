package scheduler

import (
	"maps"
	"math/rand/v2"
	"sync/atomic"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/scheduler/clock"
	"github.com/greenroom-run/greenroom/scheduler/placement"
)

// Hosts count what they are asked for, by type and cell of the hash space, and report the
// cells that stand out. The leader has ranges of ring types split and moved by it
// ([placement.Cooling]).

const (
	// heatSample: one call in so many is counted.
	heatSample = 16
	// heatFloor: a cell with less than this part of the calls of its type is not reported.
	heatFloor = 1.0 / 1024
	// idleReports: after so many reports without a call the counts of a type are freed.
	idleReports = 12
)

// callCounts counts the calls of one type. It takes memory once there are any.
type callCounts struct {
	cells  atomic.Pointer[[placement.Cells]atomic.Uint32] // of ring types that are called
	others atomic.Uint32                                  // while there are no cells
	idle   int                                            // reports without a call; of the one that reports
}

// count notes a call, if it is among those that are counted. It never blocks and does not
// allocate.
func (c *callCounts) count(key actor.Key) {
	if rand.Uint32()%heatSample != 0 { //nolint:gosec // statistics
		return
	}
	if cells := c.cells.Load(); cells != nil {
		cells[placement.CellOf(placement.PointOf(key))].Add(1)
	} else {
		c.others.Add(1)
	}
}

// take returns the calls since it was called last, which is so long ago: the rate of all,
// and, of a ring type, those of the cells that stand out. It is for one goroutine at a time.
func (c *callCounts) take(since clock.Instant, ring bool) (total float64, cells map[placement.Cell]float64) {
	others := c.others.Swap(0)
	counts := c.cells.Load()
	if counts == nil {
		if others > 0 && ring {
			c.idle = 0
			c.cells.Store(new([placement.Cells]atomic.Uint32))
		}
		return float64(others) * heatSample / since.Seconds(), nil
	}
	cells = map[placement.Cell]float64{}
	for i := range counts {
		if counts[i].Load() == 0 {
			continue
		}
		rate := float64(counts[i].Swap(0)) * heatSample / since.Seconds()
		total += rate
		cells[placement.Cell(i)] = rate //nolint:gosec // an index of it
	}
	maps.DeleteFunc(cells, func(_ placement.Cell, rate float64) bool { return rate < total*heatFloor })
	if c.idle++; total > 0 {
		c.idle = 0
	} else if c.idle >= idleReports {
		c.cells.Store(nil)
	}
	return total, cells
}

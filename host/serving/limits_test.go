package serving

import (
	"math"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
)

// A manifest lowers limits, and never raises one.
func TestLowered(t *testing.T) {
	own := Limits{StateBytes: 100, PayloadBytes: 100, Mailbox: 100, TurnDeadline: 100 * time.Millisecond, MemoryBytes: 100, Fuel: 100, IdempotencyTTL: 100 * time.Millisecond}
	for asked, want := range map[int64]int64{0: 100, 7: 7, 100: 100, 101: 100, math.MaxInt64: 100} {
		got := own.lowered(abi.Limits{StateBytes: asked, PayloadBytes: asked, Mailbox: asked, TurnMillis: asked, MemoryBytes: asked, Fuel: asked, IdempotencyMillis: asked})
		if got != (Limits{StateBytes: want, PayloadBytes: want, Mailbox: int(want), TurnDeadline: time.Duration(want) * time.Millisecond,
			MemoryBytes: want, Fuel: uint64(want), IdempotencyTTL: time.Duration(want) * time.Millisecond}) {
			t.Errorf("asked for %d: %+v", asked, got)
		}
	}
	if got := (Limits{}).lowered(abi.Limits{Fuel: 7}); got.Fuel != 7 {
		t.Errorf("where a host sets no limit of fuel, 7 became %d", got.Fuel)
	}
}

package extism

import "math"

// fuelBegin is what refill is called with when an export begins. When one ends it
// is called with the fuel left, which is not below zero then. See [settle].
const fuelBegin = math.MinInt64 + 1

const (
	// importCost is the fuel of a call of the kernel or the host, about the least
	// that the way through the SDK costs.
	importCost = 200
	// byteUnits is how many bytes that the host copies or reads are one unit, as
	// in engine/wasm.
	byteUnits = 4
)

// refill is what a metered plug-in calls: with fuel below zero when it needs more,
// and at the beginning and the end of an export. What its kernel does beyond
// importCost is not in its fuel; it is bounded by the deadline.
func refill(c *call, s []uint64) {
	t := &c.instance.tank
	switch remaining := int64(s[0]); {
	case remaining == fuelBegin:
		s[0] = uint64(t.Begin())
	case remaining >= 0:
		t.End(remaining)
	default:
		s[0] = uint64(t.Refill(remaining))
	}
}

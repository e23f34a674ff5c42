package extism

import "math"

// fuelBegin is what refill is called with when an export begins. When one ends it
// is called with the fuel left, which is not below zero then. See [settle].
const fuelBegin = math.MinInt64 + 1

// refill is what a metered plug-in calls: with fuel below zero when it needs more,
// and at the beginning and the end of an export. What the kernel and the host do
// for a plug-in is not in its fuel; it is bounded by the deadline.
func refill(c *call, s []uint64) {
	t := &c.instance.tank
	switch left := int64(s[0]); {
	case left == fuelBegin:
		s[0] = uint64(t.Begin())
	case left >= 0:
		t.End(left)
	default:
		s[0] = uint64(t.Refill(left))
	}
}

package placement

import "math/bits"

// Static returns the index of the host that an actor belongs to among n hosts with
// stable names that are known beforehand: floor(point · n / 2^64). Nothing about it
// changes while the server runs: an actor whose host is down waits for it. n is at
// least 1.
func Static(p Point, n int) int {
	i, _ := bits.Mul64(uint64(p), uint64(n))
	return int(i)
}

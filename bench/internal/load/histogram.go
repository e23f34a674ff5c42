package load

import (
	"math/bits"
	"time"
)

// subBits says how many equal parts each power of two is cut into: 32, so that
// a value is off by 3 % at most.
const subBits = 5

// histogram counts durations in buckets that grow with their values.
type histogram struct {
	counts [64 << subBits]uint64
	total  uint64
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.total++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// quantile returns the upper end of the bucket that holds the value below which
// the share q of all lies; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.total))
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if n > 0 && seen > rank || seen == h.total && n > 0 {
			return time.Duration(upper(i))
		}
	}
	return 0
}

func bucket(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

func upper(b int) uint64 {
	if b < 1<<subBits {
		return uint64(b)
	}
	shift := b>>subBits - 1
	return (uint64(b&(1<<subBits-1)+1<<subBits)+1)<<shift - 1
}

package recent

import (
	"math/bits"
	"time"
)

// Durations are counted in buckets whose limits grow by the square root of 2 or a little more: the
// first has those below 64 µs, the last those from 16 s on.
const (
	firstLimit = 6 // 64 µs is 1<<6
	octaves    = 18
	buckets    = 2*octaves + 2
)

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond) //nolint:gosec // not negative
	octave := bits.Len64(us) - firstLimit      // 1: from 64 µs on
	if octave < 1 {
		return 0
	}
	half := int(us>>(octave+firstLimit-2)) & 1 // whether it is in the octave's upper half
	return min(1+2*(octave-1)+half, buckets-1)
}

// lower returns the shortest duration in a bucket.
func lower(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	octave, half := (bucket-1)/2, (bucket-1)%2
	return time.Duration(2+half) << (octave + firstLimit - 1) * time.Microsecond
}

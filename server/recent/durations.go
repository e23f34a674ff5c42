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

// sum adds up steps.
type sum struct {
	turns, errors uint64
	durations     [buckets]uint64
}

// add adds a step. What a server of another version counts in more buckets is added to the last one.
func (s *sum) add(c *StepCounts) {
	turns := uint64(0)
	for i, n := range c.Durations {
		s.durations[min(i, buckets-1)] += uint64(n)
		turns += uint64(n)
	}
	s.turns += turns
	s.errors += min(uint64(c.Errors), turns) // a turn that fails now is in errors first
}

func (s *sum) count(index int) Count {
	return Count{Index: index, Turns: s.turns, Errors: s.errors, P50: s.quantile(50), P99: s.quantile(99)}
}

// quantile returns a duration that so many of 100 turns did not exceed, as if the durations of a
// bucket were spread evenly over it.
func (s *sum) quantile(percent uint64) time.Duration {
	rank := (s.turns*percent + 99) / 100
	for i, n := range s.durations {
		if n == 0 || rank > n {
			rank -= n
			continue
		}
		from, to := lower(i), lower(i+1)
		return from + time.Duration(float64(to-from)*float64(rank)/float64(n))
	}
	return 0
}

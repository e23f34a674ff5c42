package embedded_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// BenchmarkRecorded updates rows with a recorded call each, four groups of 64 on
// their way, where a million calls are recorded already: with the filters that tell
// which calls cannot be, and with a search for each. What counts is the processor time
// between the two.
func BenchmarkRecorded(b *testing.B) {
	s := open(b, embedded.Config{Dir: b.TempDir()})
	const stored, group = 1_000_000, 2_000
	commits := make([]actor.Commit, group)
	for n := 0; n < stored; n += group {
		for i := range commits {
			commits[i] = actor.Commit{ID: actor.NewCommitID(), Records: []actor.IdempotencyRecord{{
				Actor: actor.Key{App: "app", Type: "Cart", ID: fmt.Sprint(i)}, Method: "Add", Key: fmt.Sprint(n), TTL: 24 * time.Hour,
				Reply: actor.Payload{Data: []byte(`{"count":1}`)},
			}}}
		}
		for _, err := range s.Commit(b.Context(), commits) {
			must(b, err)
		}
	}
	for _, filtered := range []bool{true, false, true, false} {
		b.Run(fmt.Sprintf("filters=%t", filtered), func(b *testing.B) {
			s.SetFilters(filtered)
			began := processorTime(b)
			benchmarkCommit(b, s, 4, 64, true)
			b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

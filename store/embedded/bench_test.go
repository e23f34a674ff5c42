package embedded_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
)

// BenchmarkCommit updates rows of 200 bytes on a real disk, with sync. What
// counts are the ratios between its lines in one run: one commit at a time is
// the price of a sync, and the others show how well it is shared.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct{ inFlight, group int }{{1, 1}, {64, 1}, {1024, 1}, {1, 256}, {4, 256}} {
		b.Run(fmt.Sprintf("in_flight=%d/group=%d", c.inFlight, c.group), func(b *testing.B) {
			benchmarkCommit(b, open(b, embedded.Config{Dir: b.TempDir()}), c.inFlight, c.group, false)
		})
	}
}

// benchmarkCommit updates rows in groups, with a recorded call each if keyed.
func benchmarkCommit(b *testing.B, s store.Store, inFlight, group int, keyed bool) {
	b.Helper()
	state := &actor.EncodedState{Format: actor.FormatEnvelope, Data: make([]byte, 200)}
	lanes := make([][]actor.Commit, inFlight)
	for i := range lanes {
		lanes[i] = make([]actor.Commit, group)
		for j := range lanes[i] {
			lanes[i][j] = insert(actor.Key{App: "app", Type: "Cart", ID: fmt.Sprintf("%s-%d-%d-%d", b.Name(), b.N, i, j)}, "")
			lanes[i][j].Rows[0].State = state
		}
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, commits := range lanes {
		wg.Go(func() {
			for left.Add(-int64(group)) > -int64(group) {
				for _, err := range s.Commit(b.Context(), commits) {
					if err != nil {
						b.Error(err)
						return
					}
				}
				for i := range commits {
					commits[i].ID = actor.NewCommitID()
					if keyed {
						commits[i].Records = []actor.IdempotencyRecord{{
							Actor: commits[i].Rows[0].Key, Method: "Add", Key: commits[i].ID.String(), TTL: 24 * time.Hour,
							Reply: actor.Payload{Data: []byte(`{"count":1}`)},
						}}
					}
					row := &commits[i].Rows[0]
					row.ReadVersion = row.NewVersion
					row.NewVersion++
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkLoad reads rows of 200 bytes that are on disk and in the cache.
func BenchmarkLoad(b *testing.B) {
	s := open(b, embedded.Config{Dir: b.TempDir()})
	keys := make([]actor.Key, 10_000)
	commits := make([]actor.Commit, len(keys))
	for i := range keys {
		keys[i] = actor.Key{App: "app", Type: "Cart", ID: fmt.Sprint(i)}
		commits[i] = insert(keys[i], string(make([]byte, 200)))
	}
	for _, err := range s.Commit(b.Context(), commits) {
		must(b, err)
	}
	must(b, s.Flush())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, err := s.LoadActors(b.Context(), keys[i%len(keys):i%len(keys)+1], actor.LoadOptions{})
		must(b, err)
	}
}

// BenchmarkLoadAbsent looks for rows that are not there, between others that are
// in the lowest level, as those of new actors are.
func BenchmarkLoadAbsent(b *testing.B) {
	s := open(b, embedded.Config{Dir: b.TempDir()})
	commits := make([]actor.Commit, 100_000)
	keys := make([]actor.Key, len(commits))
	for i := range commits {
		commits[i] = insert(actor.Key{App: "app", Type: "Cart", ID: fmt.Sprint(i)}, string(make([]byte, 200)))
		keys[i] = actor.Key{App: "app", Type: "Cart", ID: fmt.Sprint(i, "x")}
	}
	for _, err := range s.Commit(b.Context(), commits) {
		must(b, err)
	}
	must(b, s.Flush())
	must(b, s.Compact(b.Context()))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, err := s.LoadActors(b.Context(), keys[i*7919%len(keys):][:1], actor.LoadOptions{})
		must(b, err)
	}
}

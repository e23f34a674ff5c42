package guarantees

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/internal/pgtest"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/embedded"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// BenchmarkNeighboursOfARepetition measures what the callers of an actor have left
// of their rate when one more client repeats a recorded call as fast as it can: the
// ratio to the rate with a client in its place that makes a new call each time, in
// the same run.
func BenchmarkNeighboursOfARepetition(b *testing.B) {
	const callers = 32
	for _, name := range []string{"embedded", "postgresql"} {
		b.Run(name, func(b *testing.B) {
			var s store.Store
			if name == "embedded" {
				var err error
				if s, err = embedded.Open(b.Context(), embedded.Config{Dir: b.TempDir(), MinFreeBytes: -1}); err != nil {
					b.Fatal(err)
				}
				closing(b, s)
			} else {
				s = openSQL(b, pgtest.URL(b))
			}
			r := newRig(b, s, "repetition", faultstore.Config{})
			r.world.Deploy(r.app, "Counter", counter(abi.PlacementRing))
			h := r.host(b, host.Limits{})
			repeat := actor.Invocation{Key: r.key("x"), Method: "Add", IdempotencyKey: "K"}
			other := actor.Invocation{Key: r.key("x"), Method: "Add", IdempotencyKey: "L"}
			for _, inv := range []actor.Invocation{repeat, other} {
				if _, err := h.Invoke(b.Context(), inv); err != nil {
					b.Fatal(err)
				}
			}
			measure := func(repeating bool) (rate float64) {
				var left, repeated atomic.Int64
				left.Store(int64(b.N))
				done := make(chan struct{})
				var neighbours, client sync.WaitGroup
				client.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-done:
							return
						default:
						}
						inv := repeat
						if !repeating {
							inv = actor.Invocation{Key: r.key("x"), Method: "Add", IdempotencyKey: fmt.Sprint(time.Now().UnixNano(), n)}
						}
						if _, err := h.Invoke(b.Context(), inv); err != nil {
							b.Error(err)
							return
						}
						repeated.Add(1)
					}
				})
				began := time.Now()
				for range callers {
					neighbours.Go(func() {
						for left.Add(-1) >= 0 {
							if _, err := h.Invoke(b.Context(), actor.Invocation{Key: r.key("x"), Method: "Add"}); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				neighbours.Wait()
				took := time.Since(began)
				close(done)
				client.Wait()
				return float64(b.N) / took.Seconds()
			}
			var with, without float64
			for range 3 { // in turns, since the machine's pace changes
				without += measure(false)
				with += measure(true)
			}
			b.ReportMetric(with/without, "ratio")
			b.ReportMetric(with/3, "neighbours/s")
		})
	}
}

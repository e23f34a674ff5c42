package load

import (
	"context"
	"sync"
	"time"
)

// TracePlan says how to load something that may fail.
type TracePlan struct {
	// Actors is how many actors are called, in turns, First the number of the first of
	// them.
	Actors, First int
	// Rate is how many calls begin in a second, evenly spaced and whatever
	// their outcomes.
	Rate float64
	// Timeout bounds each call.
	Timeout time.Duration
}

// Traced is the outcome of one call. Times are of the wall clock, which processes of
// one machine share.
type Traced struct {
	Actor int   `json:"a"`
	Began int64 `json:"b"` // Unix time in ns
	Took  int64 `json:"t"` // ns
	// Error is empty if the call was answered.
	Error string `json:"e,omitempty"`
}

// Ended returns when the call was answered or failed.
func (t Traced) Ended() time.Time { return time.Unix(0, t.Began+t.Took) }

// Trace makes calls until ctx ends, waits for those that it has begun, and returns the
// outcome of each, in the order in which they ended. A call that fails is noted, and
// nothing else follows from it.
func Trace(ctx context.Context, p TracePlan, call Call) []Traced {
	var (
		mu    sync.Mutex
		all   []Traced
		calls sync.WaitGroup
	)
	started := time.Now()
	for n := 0; ; n++ {
		due := started.Add(time.Duration(float64(n) / p.Rate * float64(time.Second)))
		if early := time.Until(due); early > 0 {
			_ = Pause(ctx, early)
		}
		if ctx.Err() != nil {
			break
		}
		began, target := time.Now(), p.First+n%p.Actors
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Timeout)
			defer cancel()
			err := call(ctx, 0, target, n)
			t := Traced{Actor: target, Began: began.UnixNano(), Took: time.Since(began).Nanoseconds()}
			if err != nil {
				t.Error = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, t)
		})
	}
	calls.Wait()
	return all
}

package load

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestQuantile(t *testing.T) {
	var all []time.Duration
	for i := 1000; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0: time.Microsecond, 0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond} {
		if got := Quantile(all, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
}

// drivers are the two ways to run a plan of the same calls.
var drivers = map[string]func(context.Context, Plan, Call) (Result, error){
	"waited for": Drive,
	"begun": func(ctx context.Context, p Plan, call Call) (Result, error) {
		return DriveBegun(ctx, p, func(ctx context.Context, worker, actor, n int, done func(error)) {
			if n%2 == 0 {
				done(call(ctx, worker, actor, n))
				return
			}
			go func() { done(call(ctx, worker, actor, n)) }()
		})
	},
}

func both(t *testing.T, test func(t *testing.T, drive func(context.Context, Plan, Call) (Result, error))) {
	t.Helper()
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) { test(t, drive) })
	}
}

func TestDriveMeasuresAfterTheWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Drive(t.Context(), Plan{Outstanding: 4, Actors: 10, Warmup: time.Second, Duration: 2 * time.Second},
			func(ctx context.Context, _, _, _ int) error { _ = Pause(ctx, 10*time.Millisecond); return nil })
		want4Callers(t, r, err)
	})
	synctest.Test(t, func(t *testing.T) {
		r, err := DriveBegun(t.Context(), Plan{Outstanding: 4, Actors: 10, Warmup: time.Second, Duration: 2 * time.Second},
			func(_ context.Context, _, _, _ int, done func(error)) {
				time.AfterFunc(10*time.Millisecond, func() { done(nil) })
			})
		want4Callers(t, r, err)
	})
}

func want4Callers(t *testing.T, r Result, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if rate := r.Rate(); rate < 390 || rate > 410 {
		t.Errorf("rate = %v, want 4 callers at 100 calls/s", rate)
	}
	if r.P50 < 10*time.Millisecond || r.P99 > 11*time.Millisecond {
		t.Errorf("p50 %v, p99 %v of calls of 10 ms", r.P50, r.P99)
	}
}

// In an open loop, what a slow server keeps from being called in time counts as
// latency.
func TestRateCountsLatencyFromWhenACallIsDue(t *testing.T) {
	for _, c := range []struct {
		name                  string
		rate, wantRate        float64
		atLeastP50, atMostP50 time.Duration
	}{
		{"below what the server can do", 50, 50, 10 * time.Millisecond, 11 * time.Millisecond},
		{"above", 200, 100, time.Second, 3 * time.Second}, // half of what was due in up to 3 s
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := Drive(t.Context(), Plan{Outstanding: 1, Actors: 10, Rate: c.rate, Warmup: time.Second, Duration: 2 * time.Second},
					func(ctx context.Context, _, _, _ int) error { _ = Pause(ctx, 10*time.Millisecond); return nil })
				if err != nil {
					t.Fatal(err)
				}
				if rate := r.Rate(); rate < 0.95*c.wantRate || rate > 1.05*c.wantRate {
					t.Errorf("rate = %v, want %v", rate, c.wantRate)
				}
				if r.P50 < c.atLeastP50*95/100 || r.P50 > c.atMostP50 {
					t.Errorf("p50 = %v, want %v to %v", r.P50, c.atLeastP50, c.atMostP50)
				}
			})
		})
	}
	if _, err := Drive(t.Context(), Plan{Outstanding: 1, Actors: 1, Once: true, Rate: 1}, nil); err == nil {
		t.Error("a plan of every actor once with a rate was run")
	}
}

func TestOnceCallsEachActorOnce(t *testing.T) {
	both(t, func(t *testing.T, drive func(context.Context, Plan, Call) (Result, error)) {
		var seen [100]atomic.Int32
		r, err := drive(t.Context(), Plan{Outstanding: 7, Actors: len(seen), Once: true}, func(_ context.Context, _, actor, _ int) error {
			seen[actor].Add(1)
			return nil
		})
		if err != nil || r.Calls != int64(len(seen)) {
			t.Fatalf("%d calls, %v", r.Calls, err)
		}
		for i := range seen {
			if n := seen[i].Load(); n != 1 {
				t.Errorf("actor %d was called %d times", i, n)
			}
		}
	})
}

func TestFailedCallEndsTheRun(t *testing.T) {
	both(t, func(t *testing.T, drive func(context.Context, Plan, Call) (Result, error)) {
		broken := errors.New("no such actor")
		_, err := drive(t.Context(), Plan{Outstanding: 3, Actors: 5, Duration: time.Hour}, func(ctx context.Context, worker, _, n int) error {
			if worker == 1 && n == 2 {
				return broken
			}
			return ctx.Err()
		})
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "call of actor") {
			t.Fatalf("err = %v", err)
		}
	})
}

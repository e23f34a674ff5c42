package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTraceGoesOnWhateverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Millisecond)
		defer cancel()
		began := time.Now()
		all := Trace(ctx, TracePlan{Actors: 4, First: 10, Rate: 100, Timeout: 5 * time.Second}, func(ctx context.Context, _, target, n int) error {
			switch {
			case n == 0: // it is not answered
				<-ctx.Done()
				return ctx.Err()
			case target == 11:
				return errors.New("refused")
			}
			<-time.After(20 * time.Millisecond)
			return nil
		})
		if len(all) != 101 {
			t.Fatalf("%d calls in a second, want 101", len(all))
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v, want as long as the call that was not answered", took)
		}
		failed := 0
		for _, c := range all {
			switch {
			case c.Actor == 11 && c.Error == "refused" && c.Took == 0:
				failed++
			case c.Actor == 11 || c.Actor < 10 || c.Actor > 13:
				t.Errorf("call = %+v", c)
			case c.Error == "" && c.Took != (20*time.Millisecond).Nanoseconds():
				t.Errorf("it took %v: %+v", time.Duration(c.Took), c)
			}
		}
		last := all[len(all)-1]
		if failed != 25 || last.Actor != 10 || last.Error == "" || !last.Ended().Equal(began.Add(5*time.Second)) {
			t.Errorf("%d failed; the last was %+v", failed, last)
		}
	})
}

package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/store"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// TestKeyedCallsHappenOnceUnderFaults repeats each increment under its
// idempotency key, from two clients at once, until both have its answer. With a
// key no outcome stays unknown: each call counts once, and both clients are told
// the same.
func TestKeyedCallsHappenOnceUnderFaults(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rates := make(map[faultstore.Fault]float64)
			for _, f := range faultstore.Faults() {
				if f != faultstore.ModuleWriteFails && f != faultstore.SettingFails && f != faultstore.VersionsFail && f != faultstore.LeaseFails && f != faultstore.LeaseReplyLost &&
					f != faultstore.ReminderReadFails && f != faultstore.BucketFails && f != faultstore.BucketReplyLost {
					rates[f] = 0.15
				}
			}
			s := open(t, faultstore.Config{Seed: seed, Rates: rates})
			const calls, counters = 60, 3
			var replies [2][calls]int
			var wg sync.WaitGroup
			for client := range replies {
				wg.Go(func() {
					for i := range calls {
						n, err := incrementKeyed(t.Context(), s, key(fmt.Sprint(i%counters)), fmt.Sprint(i), (i+client)%2 == 0)
						if err != nil {
							t.Error(err)
							return
						}
						replies[client][i] = n
					}
				})
			}
			wg.Wait()
			// How often each operation happens is a matter of timing.
			for i := calls; i < 20*calls && len(s.Pending()) > 0; i++ {
				for range 2 { // the second time it is recorded
					if _, err := incrementKeyed(t.Context(), s, key("other"), fmt.Sprint(i), i%2 == 0); err != nil {
						t.Error(err)
					}
				}
			}
			if p := s.Pending(); len(p) > 0 {
				t.Errorf("planned faults that never happened: %q", p)
			}
			s.Calm()
			if replies[0] != replies[1] {
				t.Errorf("two clients were told\n %v and\n %v", replies[0], replies[1])
			}
			for at := range counters {
				if got := count(load(t, s, key(fmt.Sprint(at)))); got != calls/counters {
					t.Errorf("counter %d is %d after %d calls", at, got, calls/counters)
				}
				var seen []int
				for i := at; i < calls; i += counters {
					seen = append(seen, replies[0][i])
				}
				slices.Sort(seen)
				for i, n := range seen {
					if n != i+1 {
						t.Errorf("counter %d answered %v", at, seen)
						break
					}
				}
			}
		})
	}
}

// incrementKeyed returns what the call under idem answers, however often it has
// to be tried.
func incrementKeyed(ctx context.Context, s store.Store, k actor.Key, idem string, locked bool) (int, error) {
	for {
		n, err := tryKeyed(ctx, s, k, idem, locked)
		if errors.Is(err, actor.ErrKeyExists) {
			var found []actor.Recorded
			if found, err = s.LoadIdempotency(ctx, []actor.KeyedCall{{Actor: k, Method: "Add", Key: idem}}); err == nil {
				return strconv.Atoi(string(found[0].Record.Reply.Data))
			}
		}
		if err == nil || !errors.Is(err, actor.ErrStale) && !errors.Is(err, actor.ErrUnavailable) && !errors.Is(err, actor.ErrAmbiguous) {
			return n, err
		}
	}
}

func tryKeyed(ctx context.Context, s store.Store, k actor.Key, idem string, locked bool) (n int, err error) {
	next := func(row actor.Row) actor.Commit {
		n = count(row) + 1
		c := counted(k, row, n)
		c.Records = []actor.IdempotencyRecord{{
			Actor: k, Method: "Add", Key: idem, TTL: time.Hour, Reply: actor.Payload{Data: []byte(strconv.Itoa(n))},
		}}
		return c
	}
	if locked {
		c, err := s.LockedTurn(ctx, k, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
			c := next(row)
			return &c, nil
		})
		if errors.Is(err, actor.ErrAmbiguous) {
			err = settled(ctx, s, *c, err)
		}
		return n, err
	}
	rows, err := s.LoadActors(ctx, []actor.Key{k}, actor.LoadOptions{})
	if err != nil {
		return 0, err
	}
	c := next(rows[0])
	return n, settled(ctx, s, c, s.Commit(ctx, []actor.Commit{c})[0])
}

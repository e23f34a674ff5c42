package host_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// Turns with equal inputs, among them the time and Config.Random, show their guests equal bytes and
// have equal effects.
func TestTurnsAreRepeatable(t *testing.T) {
	history := func(seed byte) (seen []string) {
		var mu sync.Mutex
		see := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf(format, args...))
		}
		synctest.Test(t, func(t *testing.T) {
			random := rand.NewChaCha8([32]byte{seed})
			s := newStage(t, host.Config{Random: func(p []byte) { mu.Lock(); defer mu.Unlock(); random.Read(p) }, Observers: []host.Events{{TurnEnd: func(e host.TurnEnd) {
				see("end %s %v %v", e.InvocationID, e.Duration, e.Err)
			}}}})
			s.store.applying = func(c *actor.Commit) {
				see("commit %x", c.Rows[0].State)
			}
			s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
				"Set": sequence(timerSet(abi.Reminder{Name: "t", Method: "Write", DelayNano: seconds(1), PeriodNano: seconds(10)}), add),
				"Write": func(t *hosttest.Turn) error {
					bytes := make([]byte, 40)
					t.Calls.Random(bytes)
					frame := *t.Frame
					frame.Revision = 0 // names the guest's caches, which are not part of what it computes
					see("guest %x %v %+v", bytes, t.Calls.Now(), frame)
					return t.Set("v", string(bytes))
				},
			}})
			s.mustCall(t, "a", "Set", "1")
			synctest.Wait()
			for range 3 {
				s.mustCall(t, "a", "Write", "")
			}
			time.Sleep(2 * time.Second) // of a bubble's clock: the timer fires
			synctest.Wait()
		})
		return seen
	}
	first := history(1)
	if again := history(1); !slices.Equal(first, again) {
		t.Errorf("equal inputs give\n%q, and then\n%q", first, again)
	}
	if other := history(2); slices.Equal(first, other) {
		t.Errorf("the seed changes nothing of\n%q", first)
	}
}

package host_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// waits is a hook that does not end by itself.
func waits(t *hosttest.Turn) error { <-t.Context.Done(); return t.Context.Err() }

// TestLeavingHookHasASecond: one hook takes a second at most, though all of a hand-over have more.
func TestLeavingHookHasASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaver(t, waits)
		l.must(t, "a", "Add", "1")
		began := time.Now()
		l.handOver(t)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestTimeOfHooksIsForHooks: a hand-over that waits for turns, and has no hooks, uses up nothing of the time that hooks have.
func TestTimeOfHooksIsForHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaver(t, add)
		l.world.Deploy("app", "U", hosttest.Actor{Methods: map[string]hosttest.Func{"Gate": l.gate.wait}})
		ended := make(chan error, 1)
		go func() {
			_, err := l.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "U", ID: "u"}, Method: "Gate"})
			ended <- err
		}()
		<-l.gate.entered
		time.AfterFunc(8*time.Second, func() { close(l.gate.leave) })
		l.handOver(t)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.holdings.Set(func(actor.Key) actor.Hold { return actor.HeldClean })
		l.must(t, "a", "Add", "1")
		if l.handOver(t); l.left.Load() != 1 {
			t.Errorf("%d hooks ran", l.left.Load())
		}
	})
}

// TestLeavingHookOfATypePlacedAnew: a type whose actors no host holds any more has no hook that runs when one leaves.
func TestLeavingHookOfATypePlacedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaver(t, add)
		l.must(t, "a", "Add", "1")
		a := l.actor(abi.PlacementAny)
		a.Life.Hooks = abi.Hooks{Leaving: "OnLeaving"}
		a.Methods["OnLeaving"] = func(t *hosttest.Turn) error { l.left.Add(1); return add(t) }
		l.world.Deploy("app", "T", a)
		if l.handOver(t); l.left.Load() != 0 {
			t.Errorf("%d hooks ran", l.left.Load())
		}
		if n := l.number(t, "a"); n != "1" {
			t.Errorf("it has %s", n)
		}
	})
}

// TestHooksWithoutTimeAreCounted: the log has a line for each hook that has failed, and one that says for how many there
// was no time.
func TestHooksWithoutTimeAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &leaver{owned: newOwned(t, abi.PlacementRing, actor.HeldClean, host.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})}
		a := l.actor(abi.PlacementRing)
		a.Life.Hooks = abi.Hooks{Leaving: "OnLeaving"}
		a.Methods["OnLeaving"] = func(t *hosttest.Turn) error {
			l.left.Add(1)
			select {
			case <-time.After(700 * time.Millisecond): // the time of all ends within a hook
			case <-t.Context.Done():
			}
			return hosttest.Fail("no")
		}
		l.world.Deploy("app", "T", a)
		const actors = 600
		for i := range actors {
			l.must(t, fmt.Sprint("a", i), "Set1", "1")
		}
		l.handOver(t)
		synctest.Wait()
		ran := int(l.left.Load())
		if failed := strings.Count(log.String(), "the hook of a leaving actor failed"); failed != ran || ran == 0 || ran == actors {
			t.Errorf("%d hooks ran, and %d are in the log", ran, failed)
		}
		if want := fmt.Sprintf(`"there was no time for the hooks of actors that leave" actors=%d`, actors-ran); !strings.Contains(log.String(), want) {
			t.Errorf("%d hooks ran, and the log has no %s", ran, want)
		}
	})
}

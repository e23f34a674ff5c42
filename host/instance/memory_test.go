package instance

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
)

// sizedEngine makes instances that take as much as they may have, and hold a tenth once
// they have settled.
type sizedEngine struct{}

type sized struct {
	memory  engine.Memory
	counted int64
	holds   int64
	running bool
}

func (sizedEngine) Load(context.Context, actor.Digest, func(context.Context) ([]byte, error)) (engine.Program, error) {
	return sizedEngine{}, nil
}

func (sizedEngine) NewInstance(ctx context.Context, limit int64) (engine.Instance, error) {
	s := &sized{memory: engine.MemoryOf(ctx), holds: limit / 10}
	if !s.memory.Take(limit) {
		return nil, actor.ErrOverloaded
	}
	s.counted = limit
	return s, nil
}

func (s *sized) Run(context.Context, *abi.Turn, engine.Calls) error { return nil }
func (s *sized) MemoryBytes() int64                                 { return s.counted }
func (s *sized) Close(context.Context) error                        { s.memory.Give(s.counted); return nil }

func (s *sized) Trim() bool {
	if !s.running {
		s.memory.Give(s.counted - s.holds)
		s.counted = s.holds
	}
	return !s.running
}

// turn has the instance's turn begin, which takes what it may touch.
func (s *sized) turn(bytes int64) bool {
	s.running = s.memory.Take(bytes)
	if s.running {
		s.counted += bytes
	}
	return s.running
}

func sizedPools() *Pools {
	return New(Config{
		Engine: sizedEngine{}, Memory: 100, MemoryPerApp: 60, Logger: slog.New(slog.DiscardHandler), Slots: executor.New(8, []executor.PoolConfig{{Name: executor.PoolUser}}),
		ModuleBytes: func(context.Context, string, actor.Digest) ([]byte, error) { return nil, nil },
		Made:        func(Event) {}, Closed: func(Event) {},
	})
}

// make1 makes a dedicated instance of an app, which is in use for as long as busy is true.
func make1(t *testing.T, ps *Pools, app string, bytes int64, busy *bool) *Instance {
	t.Helper()
	in, err := ps.Get(Key{App: app, MemoryBytes: bytes, Max: 10}).Make(t.Context(), func(*Instance) bool { return !*busy })
	if err != nil {
		t.Fatalf("%s: %v", app, err)
	}
	return in
}

func (ps *Pools) usedBy(app string) int64 { return ps.apps[app].used }

// An app is refused beyond its own bound, and what it does not hold or use makes room
// before: first what is counted and not held, then idle instances.
func TestAppsMemoryIsBounded(t *testing.T) {
	ps, busy := sizedPools(), true
	first := make1(t, ps, "a", 50, &busy)
	if first.Guest.(*sized).turn(20) {
		t.Error("it grew beyond the app's bound")
	}
	if !first.Guest.(*sized).turn(10) {
		t.Error("it did not grow within the app's bound")
	}
	_, err := ps.Get(Key{App: "a", MemoryBytes: 50, Max: 10}).Make(t.Context(), nil)
	if !errors.Is(err, actor.ErrOverloaded) {
		t.Errorf("beside a turn that may touch all: %v", err)
	}
	first.Guest.(*sized).running = false
	second := make1(t, ps, "a", 50, &busy)
	if got := ps.usedBy("a"); got != 55 || first.Guest.MemoryBytes() != 5 {
		t.Errorf("with one settled, %d bytes are counted", got)
	}
	second.Guest.(*sized).running = true
	busy = false
	third := make1(t, ps, "a", 10, &busy) // in the place of the idle one
	if got := ps.usedBy("a"); got != 60 || !first.closed || second.closed {
		t.Errorf("%d bytes are counted; closed: %t and %t", got, first.closed, second.closed)
	}
	second.Discard()
	third.Guest.(*sized).turn(1)
	third.Guest.(*sized).running = false
	ps.CloseIdle(time.Now())
	if got := ps.usedBy("a"); got != 1 || ps.used != 1 {
		t.Errorf("%d bytes are counted for the instance that is left", got)
	}
}

// At the bound of all apps, the app that holds most gives back what it does not use, and
// none gives anything to one that holds more.
func TestNoAppTakesAnothersMemory(t *testing.T) {
	ps, busy, idle := sizedPools(), true, false
	large, small := make1(t, ps, "large", 40, &idle), make1(t, ps, "small", 30, &idle)
	large.Guest.(*sized).running, small.Guest.(*sized).running = true, true
	make1(t, ps, "large", 20, &busy).Guest.(*sized).running = true
	make1(t, ps, "new", 10, &busy).Guest.(*sized).running = true // all is taken
	ok, _, from := ps.take(small, 1)
	if ok || len(from) != 2 || from[0] != large.pool.app || from[1] != small.pool.app {
		t.Errorf("who gives to the small one: %v, %t", from, ok)
	}
	make1(t, ps, "new", 5, &busy) // in the place of the large app's idle one
	if !large.closed || small.closed {
		t.Errorf("closed: %t, %t", large.closed, small.closed)
	}
	if make1(t, ps, "other", 34, &busy); small.closed {
		t.Error("an instance went without need")
	}
	if _, err := ps.Get(Key{App: "other", MemoryBytes: 2, Max: 1}).Make(t.Context(), nil); !errors.Is(err, actor.ErrOverloaded) || small.closed {
		t.Errorf("an app that holds more took from one that holds less: %v", err)
	}
}

// What an idle instance does not hold makes room before the instance is closed.
func TestIdleInstancesSettleFirst(t *testing.T) {
	ps, idle := sizedPools(), false
	first := make1(t, ps, "a", 50, &idle)
	first.Guest.(*sized).turn(5)
	first.Guest.(*sized).running = false
	make1(t, ps, "a", 50, &idle)
	if got := ps.usedBy("a"); first.closed || got != 55 {
		t.Errorf("closed: %t; %d bytes are counted", first.closed, got)
	}
}

// An instance is in each list once, and nothing is left of one that is closed.
func TestClosedInstancesLeaveNothing(t *testing.T) {
	ps, busy := sizedPools(), true
	in := make1(t, ps, "a", 50, &busy)
	a, guest := in.pool.app, in.Guest.(*sized)
	guest.turn(3)
	guest.turn(2)
	if untrimmed, dedicated := a.untrimmed.Len(), a.dedicated.Len(); untrimmed != 1 || dedicated != 1 {
		t.Errorf("it is listed %d and %d times", untrimmed, dedicated)
	}
	if ps.closeIdleOf(a) {
		t.Error("it was closed while it was in use")
	}
	guest.counted -= 5 // which it does not give back
	in.Discard()
	if untrimmed, dedicated := a.untrimmed.Len(), a.dedicated.Len(); untrimmed+dedicated+int(ps.used) != 0 {
		t.Errorf("it is listed %d and %d times; %d bytes are counted", untrimmed, dedicated, ps.used)
	}
}

// Two apps whose turns are under way and take all that they can leave memory to a third, which has
// nothing yet.
func TestAppsLeaveMemoryToAnother(t *testing.T) {
	ps, busy := sizedPools(), true
	for _, app := range []string{"a", "b"} {
		in := make1(t, ps, app, 1, &busy)
		in.Guest.(*sized).running = true
		for in.Guest.(*sized).turn(1) {
		}
		in.Guest.(*sized).running = true
	}
	if a, b := ps.usedBy("a"), ps.usedBy("b"); a != 60 || b != 35 {
		t.Errorf("of 100 bytes the apps have %d and %d", a, b)
	}
	make1(t, ps, "c", 4, &busy)
}

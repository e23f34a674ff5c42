package instance

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/executor"
)

// largeEngine makes programs and observes whether the last one is still in memory.
type largeEngine struct{ last weak.Pointer[largeProgram] }

type largeProgram struct{ _ [1 << 20]byte }

type anInstance struct{}

func (e *largeEngine) Load(context.Context, actor.Digest, func(context.Context) ([]byte, error)) (engine.Program, error) {
	p := &largeProgram{}
	e.last = weak.Make(p)
	return p, nil
}

func (*largeProgram) NewInstance(context.Context, int64) (engine.Instance, error) {
	return &anInstance{}, nil
}
func (*anInstance) Run(context.Context, *abi.Turn, engine.Calls) error { return nil }
func (*anInstance) MemoryBytes() int64                                 { return 1 }
func (*anInstance) Close(context.Context) error                        { return nil }

// A pool without instances keeps no program in memory: the machine code of every
// module that was ever called would stay, beyond every bound of it.
func TestProgramGoesWithItsLastInstance(t *testing.T) {
	e := &largeEngine{}
	ps := New(Config{
		Engine: e, Memory: 1 << 30, MemoryPerApp: 1 << 30, Logger: slog.New(slog.DiscardHandler), Slots: executor.New(8, []executor.PoolConfig{{Name: executor.PoolUser}}),
		ModuleBytes: func(context.Context, string, actor.Digest) ([]byte, error) { return nil, nil },
		Made:        func(Event) {}, Closed: func(Event) {},
	})
	pool := ps.Get(Key{App: "a", Digest: "d", MemoryBytes: 1 << 20, Max: 1})
	for range 2 {
		shared, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dedicated, err := pool.Make(t.Context(), func(*Instance) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		shared.GiveBack(nil, time.Now())
		ps.CloseIdle(time.Now().Add(time.Hour))
		runtime.GC()
		if e.last.Value() == nil {
			t.Error("an instance is left, and the program is gone")
		}
		dedicated.Discard()
		runtime.GC()
		if e.last.Value() != nil {
			t.Error("no instance is left, and the program is still in memory")
		}
	}
	runtime.KeepAlive(ps)
}

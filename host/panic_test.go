package host_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/pipeline"
)

// panicky is a store whose next commit panics, before or after it has applied.
type panicky struct {
	*fakeStore
	before, after bool
}

func (s *panicky) Commit(ctx context.Context, commits []actor.Commit) []error {
	if s.before {
		s.before = false
		panic("a fault of ours")
	}
	errs := s.fakeStore.Commit(ctx, commits)
	if s.after {
		s.after = false
		panic("a fault of ours")
	}
	return errs
}

// TestPanicWhileCommitting: a panic on the goroutine of a caller that brings its
// commit to the store, which the caller's server recovers from, takes neither the
// lane nor the flight with it: the outcome is settled, and others go on.
func TestPanicWhileCommitting(t *testing.T) {
	for _, applied := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeStore()
			store := &panicky{fakeStore: fake, before: !applied, after: applied}
			s := newStage(t, host.Config{Committer: store, Pipeline: pipeline.Config{Workers: 1, CallersCommit: true}})
			s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was kept from the server")
					}
				}()
				s.call(t.Context(), "a", "Add")
			}()
			synctest.Wait() // it is settled, and run again if it never applied
			for _, id := range []string{"b", "a"} {
				want := map[string]string{"a": "2", "b": "1"}[id]
				if reply, err := s.call(t.Context(), id, "Add"); reply != want || err != nil {
					t.Errorf("applied %t, %s afterwards: %q, %v", applied, id, reply, err)
				}
			}
		})
	}
}

// broken is an engine whose instances panic in a method's run.
type broken struct{ engine.Engine }

func (b broken) Load(ctx context.Context, d actor.Digest, wasm func(context.Context) ([]byte, error)) (engine.Program, error) {
	p, err := b.Engine.Load(ctx, d, wasm)
	return brokenProgram{p}, err
}

type brokenProgram struct{ engine.Program }

func (p brokenProgram) NewInstance(ctx context.Context, limit int64) (engine.Instance, error) {
	in, err := p.Program.NewInstance(ctx, limit)
	return brokenInstance{in}, err
}

type brokenInstance struct{ engine.Instance }

func (in brokenInstance) Run(ctx context.Context, frame *abi.Turn, calls engine.Calls) error {
	if strings.HasPrefix(frame.Method, "Panic") {
		panic("a fault of ours")
	}
	return in.Instance.Run(ctx, frame, calls)
}

// TestPanicWhileRunning: a panic of the engine is the error of its call alone. The
// instance, the actor's place and its mailbox are there for the next one.
func TestPanicWhileRunning(t *testing.T) {
	for _, placement := range []string{abi.PlacementRing, abi.PlacementSticky, abi.PlacementAny, abi.PlacementStateless} {
		synctest.Test(t, func(t *testing.T) {
			w := hosttest.New()
			fake := newFakeStore()
			s := &stage{store: fake, world: w}
			h, err := host.New(host.Config{
				Committer: fake, Modules: w, Engine: broken{w}, MaxActivations: 1, LockedTurns: 1, Limits: host.Limits{Instances: 1, Mailbox: 1},
				Observers: []host.Events{{TurnEnd: func(host.TurnEnd) { panic("in a callback") }}},
			})
			if err != nil {
				t.Fatal(err)
			}
			s.Host = h
			if err := h.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			one := func(t *hosttest.Turn) error { return t.ReplyNumber(1) }
			w.Deploy("app", "T", hosttest.Actor{
				Placement: placement, Methods: map[string]hosttest.Func{"Panic": one, "One": one},
				ReadOnly: map[string]hosttest.Func{"PanicRead": one},
			})
			for range 3 {
				for _, method := range []string{"Panic", "PanicRead"} {
					_, err := s.call(t.Context(), "a", method)
					if err == nil || actor.AsCondition(err) != nil {
						t.Errorf("%s %s: %v", placement, method, err)
					}
				}
			}
			if reply, err := s.call(t.Context(), "a", "One"); reply != "1" || err != nil {
				t.Errorf("%s afterwards: %q, %v", placement, reply, err)
			}
			if err := h.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if n := h.CallMemory(); n != 0 {
				t.Errorf("%s: %d bytes count for calls that are over", placement, n)
			}
		})
	}
}

package host_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

func TestStopFinishesWhatIsQueued(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement, Methods: map[string]hosttest.Func{"Add": add, "Gate": g.addAfter},
			ReadOnly: map[string]hosttest.Func{"View": view},
		})
		calls := []<-chan answer{s.start(t.Context(), "a", "Gate")}
		<-g.entered
		for range 5 {
			calls = append(calls, s.start(t.Context(), "a", "Add"))
		}
		synctest.Wait()
		stopped := make(chan error, 2)
		for range 2 {
			go func() { stopped <- s.Stop(context.Background()) }()
		}
		synctest.Wait()
		for _, method := range []string{"Add", "View"} {
			_, err := s.call(t.Context(), "b", method)
			wantCondition(t, err, actor.ErrStopping)
		}
		close(g.leave)
		for i, c := range calls {
			if got := <-c; got.err != nil {
				t.Errorf("call %d: %v", i, got.err)
			}
		}
		for range 2 {
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}
		s.world.CheckClosed(t)
	})
}

func TestStopInAHurry(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		s := newStage(t, host.Config{})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{
			Placement: placement, Methods: map[string]hosttest.Func{"Add": add, "Gate": g.wait},
			ReadOnly: map[string]hosttest.Func{"GateView": g.wait},
		})
		calls := []<-chan answer{s.start(t.Context(), "a", "Gate"), s.start(t.Context(), "a", "GateView")}
		<-g.entered
		<-g.entered
		for range 5 {
			calls = append(calls, s.start(t.Context(), "a", "Add"))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v", err)
		}
		for _, c := range calls {
			wantCondition(t, (<-c).err, actor.ErrStopping)
		}
		if row := s.store.row(key("a")); row.Version != 0 {
			t.Error("a stopped turn left a trace")
		}
	})
}

func TestStopBeforeStart(t *testing.T) {
	w := hosttest.New()
	h, err := host.New(host.Config{Committer: newFakeStore(), Modules: w, Engine: w})
	if err != nil {
		t.Fatal(err)
	}
	w.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
	_, err = h.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Add"})
	wantCondition(t, err, actor.ErrStopping)
	for range 2 {
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := h.Start(t.Context()); err == nil {
		t.Error("a stopped host can be started")
	}
	_, err = h.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "Add"})
	wantCondition(t, err, actor.ErrStopping)
}

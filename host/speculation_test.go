package host_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/store/faultstore"
)

// TestDroppedWhileAWorkerStarts: calls whose state is dropped in the moment in which
// a worker is made for a call, which its caller then takes back, go again.
func TestDroppedWhileAWorkerStarts(t *testing.T) {
	for range 300 { // some of them meet the moment
		synctest.Test(t, func(t *testing.T) {
			fake := newFakeStore()
			faults := faultstore.New(committer{fakeStore: fake}, faultstore.Config{})
			s := newStage(t, host.Config{Committer: faults})
			s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Add": add}})
			held := faults.Hold(faultstore.BeforeCommit)
			to, _ := s.begin(t.Context(), "a", "Add")
			<-held.Reached()
			fake.write(key("a"), func(*actor.Row) {})
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			go held.Release()
			wantCondition(t, s.Delete(gone, key("a")), actor.ErrCanceled)
			synctest.Wait()
			if len(to) == 0 {
				t.Fatal("a call whose state was dropped is not answered")
			}
			if got := <-to; got.reply != "1" || got.err != nil {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestReadersDoNotGoBackWithThePlacement: nor does a deployment make them.
func TestReadersDoNotGoBackWithThePlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := faultstore.New(committer{fakeStore: newFakeStore()}, faultstore.Config{})
		s := newStage(t, host.Config{Committer: faults})
		deploy := func(placement string) {
			s.world.Deploy("app", "T", hosttest.Actor{
				Placement: placement, Methods: map[string]hosttest.Func{"Add": add}, ReadOnly: map[string]hosttest.Func{"View": view},
			})
		}
		deploy(abi.PlacementRing)
		held := faults.Hold(faultstore.AfterCommit)
		c := s.start(t.Context(), "a", "Add")
		<-held.Reached()
		for _, placement := range []string{abi.PlacementAny, abi.PlacementRing} {
			deploy(placement)
			if reply, err := s.call(t.Context(), "a", "View"); reply != "1" || err != nil {
				t.Errorf("%s: %q, %v", placement, reply, err)
			}
		}
		held.Release()
		if got := <-c; got.reply != "1" || got.err != nil {
			t.Errorf("got %+v", got)
		}
	})
}

// TestReadersDoNotGoBack: what one reader found in the store, the next one sees as
// well, though the host has no answer to the commit yet.
func TestReadersDoNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := faultstore.New(committer{fakeStore: newFakeStore()}, faultstore.Config{})
		s := newStage(t, host.Config{Committer: faults})
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods: map[string]hosttest.Func{"Add": add}, ReadOnly: map[string]hosttest.Func{"View": view},
		})
		held := faults.Hold(faultstore.AfterCommit)
		c := s.start(t.Context(), "a", "Add")
		<-held.Reached()
		for _, consistency := range []actor.Consistency{actor.ConsistencyStrong, actor.ConsistencyDefault} {
			r, err := s.Invoke(t.Context(), actor.Invocation{Key: key("a"), Method: "View", Consistency: consistency})
			if string(r.Payload.Data) != "1" || err != nil {
				t.Errorf("consistency %d: %q, %v", consistency, r.Payload.Data, err)
			}
		}
		held.Release()
		if got := <-c; got.reply != "1" || got.err != nil {
			t.Errorf("got %+v", got)
		}
	})
}

package host_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
	"github.com/greenroom-run/greenroom/host/pipeline"
)

// TestStoreThatHangs: calls whose commits wait for a store that answers nothing
// are told so long before their deadlines, and later ones at once; none of them
// has an effect. What the store had is answered when it answers.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall, workers, waiting = time.Second, 2, 20
		s := newStage(t, host.Config{Pipeline: pipeline.Config{Workers: workers, StallAfter: stall}})
		s.world.Deploy("app", "T", hosttest.Actor{
			Methods:  map[string]hosttest.Func{"Add": add},
			ReadOnly: map[string]hosttest.Func{"View": view},
		})
		hold := make(chan struct{})
		s.store.setHold(hold)
		var atStore []<-chan answer
		for i := range workers {
			atStore = append(atStore, s.start(t.Context(), fmt.Sprint("first", i), "Add"))
			time.Sleep(stall / 10) // the bubble's time: until it has a lane
		}
		began := time.Now()
		var queued []<-chan answer
		for i := range waiting {
			queued = append(queued, s.start(t.Context(), fmt.Sprint(i), "Add"))
		}
		for _, c := range queued {
			wantCondition(t, (<-c).err, actor.ErrUnavailable)
		}
		if took := time.Since(began); took > 2*stall {
			t.Errorf("refused after %v", took)
		}
		began = time.Now()
		for _, id := range []string{"0", "new", "first0"} { // the last one's commit is at the store
			_, err := s.call(t.Context(), id, "Add")
			wantCondition(t, err, actor.ErrUnavailable)
		}
		if reply, err := s.call(t.Context(), "first0", "View"); reply != "0" || err != nil {
			t.Errorf("a reader gets %q, %v", reply, err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("later calls waited for %v", took)
		}
		close(hold)
		for _, c := range atStore {
			if got := <-c; got.reply != "1" || got.err != nil {
				t.Errorf("%+v", got)
			}
		}
		for i := range waiting {
			if reply, err := s.call(t.Context(), fmt.Sprint(i), "Add"); reply != "1" || err != nil {
				t.Errorf("afterwards: %q, %v", reply, err)
			}
		}
	})
}

package host_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host"
	"github.com/greenroom-run/greenroom/host/hosttest"
)

// oneTurn lets one turn of the type T run at a time.
func oneTurn() actor.Rules {
	return actor.Rules{Limits: map[actor.LimitScope]actor.Limit{{Type: "T"}: {Concurrency: 1}}}
}

// TestCancelMessageThatWaitsForItsPlace: the turn of a message that waits until the limit of its type lets it run has not
// begun: the message is given back to who delivers it, and is none of those that run, however often it is cancelled.
func TestCancelMessageThatWaitsForItsPlace(t *testing.T) {
	both(t, func(t *testing.T, placement string) {
		book := &rulebook{}
		s, rems := remind(t, host.Config{Rules: book})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Gate": g.addAfter, "Take": add}})
		book.rule(t, s, oneTurn())
		running := s.start(t.Context(), "a", "Gate")
		<-g.entered
		f := rems.place(t, "b", "Take")
		f.Message = &actor.Message{}
		fired := make(chan error, 1)
		go func() { fired <- s.fire(t.Context(), f) }()
		synctest.Wait()
		for range 2 { // the second time its end is on its way
			wantCancelled(t, s, key("b"), host.Cancelled{})
		}
		var failed error
		if failed = <-fired; failed == nil || actor.AsCondition(failed) == nil || !actor.AsCondition(failed).Retryable() {
			t.Errorf("the message got %v", failed)
		}
		close(g.leave)
		if a := <-running; a.err != nil {
			t.Error(a.err)
		}
		if err := s.fire(t.Context(), f); err != nil { // its place is free
			t.Error(err)
		}
	})
}

// TestCancelLeavesTurnsThatRunAgain: turns that have run, and run again since their commit did not happen, go on: those
// that wait for their place, and those that wait for their actor.
func TestCancelLeavesTurnsThatRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{"Gate": g.addAfter, "Add": add}})
		book.rule(t, s, oneTurn())
		hold := make(chan struct{})
		s.store.setHold(hold)
		s.store.plan("commit", "lost")
		var calls []<-chan answer
		for range 3 {
			calls = append(calls, s.start(t.Context(), "a", "Add"))
			synctest.Wait()
		}
		running := s.start(t.Context(), "b", "Gate")
		<-g.entered
		s.store.setHold(nil)
		close(hold)
		synctest.Wait()
		later := s.start(t.Context(), "a", "Add")
		synctest.Wait()
		wantCancelled(t, s, key(""), host.Cancelled{Calls: 1})
		wantCondition(t, (<-later).err, actor.ErrCallCancelled)
		close(g.leave)
		if a := <-running; a.err != nil {
			t.Error(a.err)
		}
		for i, c := range calls {
			if a := <-c; a.err != nil || a.reply != []string{"1", "2", "3"}[i] {
				t.Errorf("call %d: %q, %v", i, a.reply, a.err)
			}
		}
	})
}

// TestCancelCallsTogether: several calls that have effect together wait, and are cancelled, as one; timers that wait for
// their actor stay.
func TestCancelCallsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, host.Config{})
		g := newGate()
		s.world.Deploy("app", "T", hosttest.Actor{Methods: map[string]hosttest.Func{
			"Gate": g.addAfter, "Add": add, "Later": timerSet(abi.Reminder{Name: "t", Method: "Add", DelayNano: int64(time.Second)}),
		}})
		if _, err := s.call(t.Context(), "a", "Later"); err != nil {
			t.Fatal(err)
		}
		running := s.start(t.Context(), "a", "Gate")
		<-g.entered
		together := make(chan error, 1)
		go func() {
			_, err := doAll(t, s.Host, "", "a Add ", "b Add ")
			together <- err
		}()
		time.Sleep(2 * time.Second) // the timer is due
		synctest.Wait()
		wantCancelled(t, s, key("a"), host.Cancelled{Calls: 1})
		if err := <-together; !errors.Is(err, actor.ErrCallCancelled) {
			t.Errorf("calls together: %v", err)
		}
		close(g.leave)
		if a := <-running; a.err != nil || a.reply != "1" {
			t.Errorf("%+v", a)
		}
		synctest.Wait()
		if n, err := s.call(t.Context(), "a", "Add"); err != nil || n != "3" { // with the timer's
			t.Errorf("it has %q, %v", n, err)
		}
	})
}

// TestCancelLeavesNoticesOfWatches: an actor that waits for its turn learns all the same that a host was lost.
func TestCancelLeavesNoticesOfWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs, w := watchers(t, host.Limits{})
		g := newGate()
		for _, s := range hs.stages {
			a := w.actor(abi.PlacementRing)
			a.Life.Sets, a.Methods["Gate"] = nil, g.wait
			s.world.Deploy("app", "W", a)
		}
		hs.run(t, "a", "Watch", "b", "false")
		s := hs.stages[hs.holder("a")]
		ended := make(chan error, 1)
		go func() {
			_, err := s.Invoke(t.Context(), actor.Invocation{Key: actor.Key{App: "app", Type: "W", ID: "a"}, Method: "Gate"})
			ended <- err
		}()
		<-g.entered
		hs.breakSession(1)
		synctest.Wait()
		if c := host.QueuesOf(s.Host).CancelQueued(actor.Key{App: "app", Type: "W"}); c.Calls+c.Tells > 0 {
			t.Errorf("%+v were cancelled", c)
		}
		close(g.leave)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		w.learned.want(t, "W/b: at a disconnected")
	})
}

// TestCancelOutsideASet: calls that wait until their actor accepts them are cancelled, and do not run when it does.
func TestCancelOutsideASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ends []host.TurnEnd
		cfg := host.Config{Observers: []host.Events{{TurnEnd: func(e host.TurnEnd) {
			mu.Lock()
			defer mu.Unlock()
			if e.Err != nil {
				ends = append(ends, e)
			}
		}}}}
		o := newOwned(t, abi.PlacementRing, actor.HeldClean, cfg)
		a := doorActor()
		a.Methods["Wait"] = o.gate.wait
		o.world.Deploy("app", "T", a)
		o.must(t, "a", "Close", "")
		running := o.start(t.Context(), "b", "Wait")
		<-o.gate.entered
		waits := []<-chan answer{o.start(t.Context(), "b", "Enter"), o.start(t.Context(), "a", "Enter"), o.start(t.Context(), "a", "Pass")}
		synctest.Wait()
		wantCancelled(t, o.stage, key(""), host.Cancelled{Calls: 3})
		for _, c := range waits {
			wantCondition(t, (<-c).err, actor.ErrCallCancelled)
		}
		synctest.Wait()
		mu.Lock()
		for _, e := range ends {
			if e.Lane != host.LaneWarm || !errors.Is(e.Err, actor.ErrCallCancelled) {
				t.Errorf("ended: %+v", e)
			}
		}
		if len(ends) != 3 {
			t.Errorf("%d have ended", len(ends))
		}
		mu.Unlock()
		close(o.gate.leave)
		if a := <-running; a.err != nil {
			t.Error(a.err)
		}
		o.must(t, "a", "Open", "")
		o.must(t, "a", "Enter", "1")
	})
}

// TestCancelTwice: what was cancelled a moment ago, and has not ended yet, is not counted again.
func TestCancelTwice(t *testing.T) {
	eachPlacement(t, func(t *testing.T, placement string) {
		book := &rulebook{}
		s := newStage(t, host.Config{Rules: book})
		s.world.Deploy("app", "T", hosttest.Actor{Placement: placement, Methods: map[string]hosttest.Func{"Nothing": idle}})
		book.rule(t, s, paused(false))
		call := s.start(t.Context(), "a", "Nothing")
		synctest.Wait()
		wantCancelled(t, s, key(""), host.Cancelled{Calls: 1})
		wantCancelled(t, s, key(""), host.Cancelled{})
		wantCondition(t, (<-call).err, actor.ErrCallCancelled)
	})
}

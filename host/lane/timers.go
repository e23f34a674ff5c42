package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/follow"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
	"github.com/greenroom-run/greenroom/host/turn"
)

// Timers are what turns do with the timers of this host's actors: protocol.md has the
// rules. It is a [turn.Timers].
type Timers struct {
	*timer.Clock
	Table *activation.Table
	// Followers are what watches of services follow; nil: there are none.
	Followers *follow.Services
}

// Held implements [turn.Timers].
func (ts *Timers) Held(key actor.Key) map[string]int64 {
	s := ts.Table.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Timers.Held(key)
}

// Watched implements [turn.Timers].
func (ts *Timers) Watched(key actor.Key) map[actor.Key]struct{} {
	s := ts.Table.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Timers.Watched(key)
}

// Get returns a timer of an actor; actor.ErrTimerNotFound if there is none of that name.
func (ts *Timers) Get(key actor.Key, name string) (actor.Timer, error) {
	s := ts.Table.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if t, ok := s.Timers.Get(key, name); ok {
		return t, nil
	}
	return actor.Timer{}, fmt.Errorf("%w: it has none that is called %q", actor.ErrTimerNotFound, name)
}

// Ask works out what a call does that sets or cancels a timer.
func (ts *Timers) Ask(c *call.Call, s *serving.Type) error {
	r := c.Set
	var changes turn.TimerChanges
	if r.Set == nil {
		r.Existed = changes.Cancel(ts, c.Inv.Key, r.Name)
	} else {
		if problem := s.MethodProblem("timer", r.Set.Method); problem != "" {
			return &actor.ArgumentError{Field: "timer method", Problem: "cannot run: " + problem}
		}
		var err error
		if r.Existed, err = changes.Set(ts, r.Set); err != nil {
			return &actor.ArgumentError{Field: "timer", Problem: "is too much: " + err.Error()}
		}
	}
	c.Timers = timer.NewChanges(changes, nil, s.Placed())
	return nil
}

// look makes sure that the timer whose firing asks for a call still exists, by what is
// committed and by what the activation is about to commit. over means that it does not, or
// that this is not known: then o is the outcome.
func (ts *Timers) look(ctx context.Context, a *activation.Activation, c *call.Call) (o call.Outcome, over bool) {
	s := a.Shard
	s.Mu.Lock()
	touched := s.Timers.Touched(c.Timer)
	s.Mu.Unlock()
	if touched {
		if dropped, err := a.AwaitCommits(ctx); err != nil || dropped {
			return call.Outcome{Result: call.Result{Err: err}, Retry: dropped}, true
		}
	}
	if err := ts.Begin(c); err != nil {
		return call.Failed(err), true
	}
	return call.Outcome{}, false
}

// Begin begins the turn of the firing that asks for a call; actor.ErrCanceled if its timer
// was cancelled or set anew before.
func (ts *Timers) Begin(c *call.Call) error {
	s := ts.Table.Shard(c.Inv.Key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if !s.Timers.Begin(c.Timer, time.Now()) {
		return actor.ErrCanceled
	}
	return nil
}

// deleted ends the timers of an actor that was deleted.
func (ts *Timers) deleted(key actor.Key) {
	s := ts.Table.Shard(key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Timers.Delete(key)
}

// Stop ends all timers, and waits for what they have begun. Nothing sets any more.
func (ts *Timers) Stop() {
	for i := range ts.Table.Shards {
		ts.Table.Shards[i].EndTimers(func(actor.Key, bool) bool { return true })
		ts.Table.Shards[i].DropDelayed()
	}
	ts.Wait()
	if ts.Followers != nil {
		ts.Followers.Wait()
	}
}

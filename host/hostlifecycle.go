package host

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
)

// killGrace is how long a forced Stop waits for turns that it has cancelled. A
// guest ends within milliseconds and a store honours its context; only a broken
// engine or store takes longer, and must not hold up the process for ever.
const killGrace = 5 * time.Second

// Start begins to take calls, and to look for idle actors in the background,
// until Stop; ctx is not kept. It can be called once.
func (h *Host) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l := &h.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Load() != lifeNew {
		return fmt.Errorf("start host: it was started or stopped before; make a new one")
	}
	sweeping, stop := context.WithCancel(context.Background())
	l.stopSweep = stop
	go h.sweep(sweeping)
	l.state.Store(lifeRunning)
	return nil
}

// Stop refuses new calls, finishes those that were admitted, runs the hooks leaving of the actors
// that it still has, and closes every instance. If ctx ends first, queued calls are refused with actor.ErrStopping
// and running turns are stopped; the error is then ctx's. Stop is safe twice,
// concurrently, and before Start.
func (h *Host) Stop(ctx context.Context) error {
	h.beginStop()
	select {
	case <-h.life.drained:
		return nil
	case <-ctx.Done():
	}
	h.kill()
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case <-h.life.drained:
		return fmt.Errorf("stop host: turns were cut short: %w", ctx.Err())
	case <-grace.C:
		return fmt.Errorf("stop host: turns did not end within %s of being stopped: %w", killGrace, ctx.Err())
	}
}

// beginStop closes the doors, once, and begins to wait for what is inside.
func (h *Host) beginStop() {
	l := &h.life
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.state.Swap(lifeStopped)
	if was == lifeStopped {
		return
	}
	if was == lifeNew {
		close(l.swept)
	}
	l.stopSweep()
	for i := range h.table.Shards {
		s := &h.table.Shards[i]
		s.Mu.Lock()
		s.Closed = true
		s.Timers.Close()
		s.Mu.Unlock()
	}
	go h.drain()
}

// drain waits for the calls that were admitted and then closes everything.
func (h *Host) drain() {
	h.rules.Stop() // calls that wait by their rules end
	h.refuseAside()
	defer close(h.life.drained)
	<-h.life.swept
	h.awaitWork()
	h.leaveAll()
	h.store.Wait()
	h.timers.Stop()
	h.tells.stop()
	for a := h.table.Evict(); a != nil; a = h.table.Evict() {
		h.table.Deactivated(a, activation.DeactivateStop)
	}
	for h.table.DropCopy() {
	}
	for _, p := range h.pools.All() {
		for in := p.TakeOldest(); in != nil; in = p.TakeOldest() {
			in.Discard()
		}
	}
	h.store.End()
}

// awaitWork waits until no shard has work.
func (h *Host) awaitWork() {
	for i := range h.table.Shards {
		h.table.Shards[i].Work.Wait()
	}
}

// refuseAside refuses the calls that wait for method sets.
func (h *Host) refuseAside() {
	for i := range h.table.Shards {
		var answered call.Answers
		s := &h.table.Shards[i]
		s.Mu.Lock()
		for _, a := range s.Actors {
			for c := a.Calls.TakeAside(); c != nil; c = a.Calls.TakeAside() {
				c.EndOutside()
				c.Result = call.Result{Err: actor.ErrStopping, Stats: c.Stats}
				c.Answer(&answered)
			}
		}
		s.Mu.Unlock()
		h.answering.Send(&answered)
	}
}

// leaveAll runs the hooks leaving of all actors. No call is admitted any more.
func (h *Host) leaveAll() {
	hooks := newLeaving(context.Background(), h)
	defer hooks.finish()
	for i := range h.table.Shards {
		s := &h.table.Shards[i]
		s.Mu.Lock()
		for _, a := range s.Actors {
			hooks.add(a)
		}
		s.Mu.Unlock()
	}
	hooks.work()
	h.awaitWork()
}

// kill refuses what is queued and stops what runs.
func (h *Host) kill() {
	h.store.End()
	for i := range h.table.Shards {
		s := &h.table.Shards[i]
		s.Mu.Lock()
		s.Killed = true
		for c := range s.Running.All() {
			c.Kill()
		}
		s.Mu.Unlock()
	}
}

// sweep closes what nobody used for long enough, now and then.
func (h *Host) sweep(ctx context.Context) {
	defer close(h.life.swept)
	tick := time.NewTicker(h.cfg.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		for i := range h.table.Shards {
			expired, skipped := h.table.Expired(&h.table.Shards[i], now)
			for _, a := range expired {
				h.table.Deactivated(a, activation.DeactivateIdle)
			}
			for _, key := range skipped {
				h.events.IdleSkipped(key)
			}
			h.table.DropCopies(&h.table.Shards[i], now.Add(-activation.CopyIdle))
		}
		h.table.EvictToBudget()
		h.pools.CloseIdle(now.Add(-h.cfg.InstanceIdle))
	}
}

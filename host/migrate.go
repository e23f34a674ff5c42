package host

import (
	"time"

	"github.com/greenroom-run/greenroom/actor"
)

// migration is a turn under way that does nothing but migrate an actor's state. All
// readers that came upon the state wait for it.
type migration struct {
	done chan struct{}
	err  error // set before done is closed
}

// migrate has the state of a read's actor migrated and committed, by one turn for all
// reads. An error is that of the migrate hook, or of the caller's context, and the read's.
// If there is no turn, or it could not be committed, the read migrates for itself, as it
// does where it must not wait: while a turn runs, which moves the state on as well.
func (ad *admission) migrate(c *call, s *served) error {
	c.migrated = true
	sh := ad.table.shard(c.inv.Key)
	for {
		sh.mu.Lock()
		m := sh.migrations[c.inv.Key]
		first := m == nil
		if a := sh.actors[c.inv.Key]; first && a != nil && !a.idle() {
			sh.mu.Unlock()
			return nil
		}
		if first {
			m = &migration{done: make(chan struct{})}
			if sh.migrations == nil {
				sh.migrations = make(map[actor.Key]*migration)
			}
			sh.migrations[c.inv.Key] = m
		}
		sh.mu.Unlock()
		if first {
			inv := actor.Invocation{Key: c.inv.Key, ID: c.inv.ID, Trace: c.inv.Trace}
			turn := &call{request: request{ctx: c.ctx, op: opMigrate, inv: inv, arrived: time.Now()}}
			m.err = ad.counted(turn, func(turn *call) result { return ad.queued(turn, s, true) }).err
			sh.mu.Lock()
			delete(sh.migrations, c.inv.Key)
			sh.mu.Unlock()
			close(m.done)
		}
		select {
		case <-m.done:
		case <-c.ctx.Done():
			return contextError(c.ctx)
		}
		switch {
		case ofGuest(m.err):
			return m.err
		case first || !isContextError(m.err):
			return nil
		}
		// The caller of the one that was first gave up.
	}
}

package host

import (
	"context"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/list"
	"github.com/greenroom-run/greenroom/host/mailbox"
	"github.com/greenroom-run/greenroom/host/residency"
)

// activation is the presence of one actor in memory.
type activation struct {
	key   actor.Key
	shard *shard

	// Guarded by the shard's lock.
	calls    mailbox.Mailbox[*call]
	weighed  int64 // what the activation counts for in table.states
	busy     bool  // a worker or a commit exists; one of shard.work counts it
	working  bool  // a worker exists; always, while a call can be run
	called   bool  // since it was idle, by other than its timers
	lastUsed time.Time
	skipped  time.Time               // when it was last found to be idle and to stay
	used     list.Place[*activation] // in shard.order
	member   member
	drained  chan struct{} // if not nil, closed when there is no batch any more
	tenure
	residency.Known
	// confirmation is the question whether what readers see is still the newest; nil if
	// none is under way.
	confirmation *confirmation

	// Changed by the worker, with the shard's lock; while the activation is idle,
	// by anyone who has the lock. The worker alone may read them without it.
	dedicated   *instance.Instance // of a type with dedicated instances
	sticky      bool
	idleTimeout time.Duration
	announced   bool   // Activated was called
	rev         uint64 // of tip's state, for the next turn

	// The worker's own.
	serving *served // what the latest turn ran under
	checked uint64  // ModuleSource.Changes when that was what serves the type
	paused  int     // for as many conflicts it has paused
}

func (a *activation) idle() bool { return !a.busy }

// empty reports whether the activation holds nothing worth keeping.
func (a *activation) empty() bool { return a.Loaded == nil && a.dedicated == nil }

// dropState forgets the activation's state; its next turn reads the row.
func (a *activation) dropState() {
	s := a.shard
	s.mu.Lock()
	a.forget()
	s.mu.Unlock()
}

// dropAll brings an activation to what the lanes without one want.
func (a *activation) dropAll() {
	if a.Loaded != nil { // it is drained: nobody else changes it
		a.dropState()
	}
	if a.dedicated != nil {
		a.takeDedicated().Discard()
	}
}

// instanceFor returns the instance for the activation's next turn.
func (a *activation) instanceFor(ctx context.Context, s *served) (*instance.Instance, error) {
	if a.dedicated != nil {
		if s.dedicated && a.dedicated.Pool() == s.pool {
			return a.dedicated, nil
		}
		a.takeDedicated().Discard()
	}
	if !s.dedicated {
		return s.pool.Acquire(ctx)
	}
	in, err := s.pool.Make(ctx, a.releaseDedicated)
	if err != nil {
		return nil, err
	}
	sh := a.shard
	sh.mu.Lock()
	a.dedicated = in
	sh.mu.Unlock()
	return in, nil
}

// giveBack ends the use of an instance whose run ended with err.
func (a *activation) giveBack(in *instance.Instance, err error, now time.Time) {
	switch {
	case !in.Dedicated():
		in.GiveBack(err, now)
	case instance.Broken(err):
		a.takeDedicated().Discard()
	}
}

// releaseDedicated takes its dedicated instance from an activation that has no work,
// and reports false if it has some, or another instance.
func (a *activation) releaseDedicated(in *instance.Instance) bool {
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.idle() || a.dedicated != in {
		return false
	}
	a.dedicated = nil
	return true
}

// takeDedicated takes its dedicated instance from an activation. It is for the worker.
func (a *activation) takeDedicated() *instance.Instance {
	s := a.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	in := a.dedicated
	a.dedicated = nil
	return in
}

// awaitCommits waits until all of the activation's state is committed. It reports
// whether the state was dropped instead: then what was to be done on it comes
// after the calls that go again. It is for the worker.
func (a *activation) awaitCommits(ctx context.Context) (dropped bool, err error) {
	s := a.shard
	s.mu.Lock()
	if a.member.Flight() != nil && a.drained == nil {
		a.drained = make(chan struct{})
	}
	drained := a.drained
	dropped = a.member.Dropped() != nil
	s.mu.Unlock()
	if drained == nil {
		return dropped, nil
	}
	select {
	case <-drained:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.member.Dropped() != nil, nil
}

// forget drops the activation's state. The caller has the shard's lock.
func (a *activation) forget() {
	a.shard.history.Drop(a.key, &a.Known, time.Now())
	a.weigh()
}

// giveBackCalls answers all calls that wait at an activation that leaves; none of them
// has an effect. The caller has the shard's lock, and counts them.
func (a *activation) giveBackCalls(answered *mailbox.Answers[*call]) {
	for c := a.calls.Take(); c != nil; c = a.calls.Take() {
		c.stats.lane = c.lane
		c.result = result{err: actor.ErrNotOwner, stats: c.stats}
		a.shard.answer(answered, c)
	}
}

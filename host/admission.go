package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/chain"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
)

// admission decides where a call runs, and what it gets.
type admission struct {
	grace       time.Duration // Config.SettleGrace
	answering   *answering
	life        *lifecycle
	memory      *callMemory
	table       *table
	store       *storage.Store
	deployments *serving.Deployments
	ownership   *ownership
	records     *recordings
	reads       *reads
	stateless   *statelessLane
	workers     *workers
	timers      *timers
	graph       *chain.Graph[*activation]
}

// counted admits a call whose caller waits, and gives back what it counted for.
func (ad *admission) counted(c *call, admit func(*call) result) result {
	defer func() { ad.memory.answered(c) }()
	return admit(c)
}

// admit hands an invocation to its lane, if what serves its type takes it.
func (ad *admission) admit(c *call) result {
	if c.inv.Method == actor.MethodAll {
		return ad.admitAll(c)
	}
	s, m, err := ad.find(c)
	here := true
	if err != nil {
		if s, m, err = ad.findNew(c, err); err != nil {
			return result{err: err}
		}
		here = false // it took its time, and c.arrived is when a turn here would begin
	}
	if m.Private && c.fromOutside() {
		return result{err: errPrivate(&c.inv)}
	}
	// Strings that all calls of the type share are compared by where they are.
	c.inv.Key.App, c.inv.Key.Type, c.inv.Method = s.Deployment.App, s.Deployment.Type, m.Name
	if c.cause == actor.CauseKeyedCall {
		c.sum = actor.PayloadSum(c.inv.Payload)
	}
	run := ad.reads.turn
	switch {
	case c.cause == actor.CauseFiring: // something is committed, whatever the method does
		return ad.queued(c, s, here)
	case s.Lane == serving.LaneStateless && (m.ReadOnly || c.cause == actor.CauseCall):
		run = ad.stateless.turn
	case m.ReadOnly && !c.chained:
	case c.cause == actor.CauseKeyedCall && ad.records.repeats.Recent(&c.inv.Key, c.arrived):
		return ad.lookUpFirst(c, s.Lane, func() result { return ad.queued(c, s, false) })
	default:
		return ad.queued(c, s, here)
	}
	r := ad.alone(c, s, run)
	switch {
	case errors.Is(r.err, errUnfenced):
		if f := ad.fence(c, s); f.err != nil {
			return f
		}
	case errors.Is(r.err, errUnmigrated):
		if err := ad.migrate(c, s); err != nil {
			return result{err: err, stats: r.stats}
		}
	case errors.Is(r.err, errChained):
		c.chained = true
	case !errors.Is(r.err, errMoved):
		return r
	}
	// Another lane's turn by now, which is to begin.
	c.stats = turnStats{runs: c.stats.runs, fuel: c.stats.fuel}
	return ad.admit(c)
}

// admitAll is admit for several calls in one.
func (ad *admission) admitAll(c *call) result {
	calls, err := actor.DecodeCalls(c.inv.Key.App, c.inv.Payload.Data)
	if err != nil {
		return result{err: err}
	}
	if calls[0].Key != c.inv.Key {
		return result{err: &actor.ArgumentError{Field: "actor", Problem: "is not that of the first call"}}
	}
	first := &call{request: request{ctx: c.ctx, arrived: c.arrived, inv: actor.Invocation{Key: c.inv.Key, Method: calls[0].Method, Payload: calls[0].Payload}}}
	s, _, err := ad.find(first)
	here := err == nil
	if err != nil {
		if s, _, err = ad.findNew(first, err); err != nil {
			return result{err: &actor.CallError{Key: c.inv.Key, Method: calls[0].Method, Err: err}}
		}
	}
	if s.Lane != serving.LaneWarm {
		return result{err: notTogether(s)}
	}
	c.inv.Key.App, c.inv.Key.Type = s.Deployment.App, s.Deployment.Type
	c.op, c.list = opAll, calls
	if c.cause == actor.CauseKeyedCall {
		c.sum = actor.PayloadSum(c.inv.Payload)
		if ad.records.repeats.Recent(&c.inv.Key, c.arrived) {
			return ad.lookUpFirst(c, s.Lane, func() result { return ad.queued(c, s, false) })
		}
	}
	return ad.queued(c, s, here)
}

// find returns what serves a call.
func (ad *admission) find(c *call) (s *serving.Type, m serving.Method, err error) {
	if s, err = ad.deployments.Of(c.inv.Key.App, c.inv.Key.Type); err == nil {
		m, err = c.methodOf(s)
	}
	return s, m, err
}

// findNew returns what serves a valid call that find has refused with err: the
// type, or the method, may have been deployed through another host a moment ago.
func (ad *admission) findNew(c *call, err error) (*serving.Type, serving.Method, error) {
	if !ad.deployments.MayBeNew(err, c.arrived) {
		return nil, serving.Method{}, err
	}
	if err := ad.refresh(c); err != nil {
		return nil, serving.Method{}, err
	}
	s, m, err := ad.find(c)
	if err != nil {
		ad.deployments.NotNew(c.arrived)
	}
	return s, m, err
}

// refresh reads the deployments of a call's app again.
func (ad *admission) refresh(c *call) error {
	err := ad.deployments.Refresh(c.ctx, c.inv.Key.App)
	if err != nil && c.ctx.Err() != nil {
		err = fmt.Errorf("refresh deployments: %w", contextError(c.ctx))
	}
	return err
}

// admitDelete is admit for a delete.
func (ad *admission) admitDelete(c *call) result {
	s, err := ad.deployments.Of(c.inv.Key.App, c.inv.Key.Type)
	if err != nil && ad.ownership.cluster != nil {
		// Another host may hold the actor: its type may have been deployed a moment ago.
		if err := ad.refresh(c); err != nil {
			return result{err: err}
		}
		s, err = ad.deployments.Of(c.inv.Key.App, c.inv.Key.Type)
	}
	if err == nil {
		return ad.queued(c, s, false)
	}
	r := ad.queued(c, ad.deployments.Unserved(c.inv.Key.App, c.inv.Key.Type), false)
	r.stats.lane = serving.LaneNone // for TurnEnd: the type is only what a caller wrote
	return r
}

// fence has the activation of a read's actor moved past the commits of earlier owners.
func (ad *admission) fence(c *call, s *serving.Type) result {
	f := &call{request: request{ctx: c.ctx, op: opFence, inv: actor.Invocation{Key: c.inv.Key}, arrived: time.Now()}}
	return ad.counted(f, func(f *call) result { return ad.queued(f, s, true) })
}

// migrate has the state of a read's actor migrated and committed, by one turn for all
// reads. An error is that of the migrate hook, or of the caller's context, and the read's.
// If there is no turn, or it could not be committed, the read migrates for itself, as it
// does where it must not wait: while a turn runs, which moves the state on as well.
func (ad *admission) migrate(c *call, s *serving.Type) error {
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

// alone runs a call on its caller's goroutine, under s.
func (ad *admission) alone(c *call, s *serving.Type, run aloneFunc) result {
	sh := ad.table.shard(c.inv.Key)
	if err := ad.life.running(); err != nil {
		return result{err: err}
	}
	if err := ad.memory.charge(c); err != nil {
		return result{err: err}
	}
	warm, err := ad.ownership.enter(sh, c, s)
	if err != nil {
		return result{err: err}
	}
	defer sh.leave(c)
	c.placed()
	if c.ctx.Err() != nil {
		return result{err: contextError(c.ctx)}
	}
	c.limit, c.limitSetting = s.Limits.TurnDeadline, s.Settings.Deadline
	c.stats.began = c.arrived
	ctx := c.begin(c.arrived, c.limit)
	defer ctx.stop()
	defer func() { // c may be run again, in another lane
		ad.memory.Give(c.inv.Key.App, c.loaded)
		c.loaded = 0
	}()
	reply, err := run(ctx, c, s, warm)
	if c.timers != nil {
		sh.mu.Lock()
		c.settleTimers(&sh.timers, err == nil)
		sh.mu.Unlock()
	}
	if err != nil {
		if over := c.overdue(ctx); over != nil && isContextError(err) {
			err = over
		}
	}
	return result{reply: reply, err: err, stats: c.stats}
}

// aloneFunc runs a call under s, which serves its type. warm is what the actor's
// activation holds, nil if there is none.
type aloneFunc func(ctx *turnContext, c *call, s *serving.Type, warm *residency.Row) (actor.Reply, error)

// queued puts a call into its actor's mailbox and waits for the answer. With here
// this goroutine may run the turn, if it is one of an idle actor.
func (ad *admission) queued(c *call, s *serving.Type, here bool) result {
	if err := ad.life.running(); err != nil {
		return result{err: err}
	}
	lane := s.Lane
	c.limit, c.limitSetting, c.lane = s.Limits.TurnDeadline, s.Settings.Deadline, lane
	if c.receiver == nil {
		c.answered = make(chan struct{}, 1)
	}
	a, run, err := ad.enqueue(c, s, here && lane == serving.LaneWarm)
	if err != nil {
		return result{err: err, stats: turnStats{lane: lane}}
	}
	if run {
		c.placed()
		ad.workers.runHere(a, c)
	}
	if c.receiver != nil {
		return result{later: true}
	}
	select {
	case <-c.answered:
		return c.result
	case <-c.ctx.Done():
	}
	if a.shard.withdraw(c) {
		return result{err: contextError(c.ctx), stats: turnStats{lane: lane}}
	}
	// Running: the guest is being stopped, or the turn is sealed and its commit
	// under way. Either way the answer reports the outcome.
	grace := time.NewTimer(ad.grace)
	defer grace.Stop()
	select {
	case <-c.answered:
		return c.result
	case <-grace.C:
		return result{err: actor.ErrAmbiguous, stats: turnStats{lane: lane}}
	}
}

// enqueue admits a call to its actor's mailbox. Somebody has to run it: if there
// is no worker, the caller if onCaller allows, which run then tells, or a new one.
func (ad *admission) enqueue(c *call, by *serving.Type, onCaller bool) (a *activation, run bool, err error) {
	s := ad.table.shard(c.inv.Key)
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, false, actor.ErrStopping
		}
		a = s.actors[c.inv.Key]
		hold, err := ad.ownership.admits(s, c.inv.Key, a, by, c.arrived)
		if err == nil && a == nil {
			err = ad.memory.charge(c)
		}
		if err != nil {
			s.mu.Unlock()
			return nil, false, err
		}
		if a == nil {
			a = ad.table.activate(s, c.inv.Key)
		}
		if a != nil {
			a.hold = hold
			if o := c.inv.Origin; o != nil && ad.graph.Holds(o.Chain, a) {
				s.mu.Unlock()
				return nil, false, notReentrant(&c.inv.Key)
			}
			run, err = ad.workers.deliver(s, a, c, by.Limits.Mailbox, onCaller)
			s.mu.Unlock()
			return a, run, err
		}
		s.mu.Unlock()
		victim := ad.table.evict()
		if victim == nil {
			return nil, false, &actor.ReasonError{Condition: actor.ErrOverloaded, Reason: "all actors in memory have work, and there are as many as may be, by --max-actors of the server"}
		}
		ad.table.deactivated(victim, DeactivatePressure)
	}
}

// lookUpFirst looks up a call that its actor was sent again lately, before the call is
// admitted: off the actor's worker, so that others pay nothing. If the call is not
// recorded, admit admits it.
func (ad *admission) lookUpFirst(c *call, lane serving.Lane, admit func() result) result {
	s := ad.table.shard(c.inv.Key)
	if err := ad.memory.charge(c); err != nil {
		return result{err: err}
	}
	if err := s.beginLookUp(c); err != nil {
		return result{err: err}
	}
	c.stats.lane = lane
	if c.receiver != nil {
		ad.store.Records.Ask(c.keyedCall(), func(found actor.Recorded, err error) {
			defer s.work.Done()
			s.endLookUp(c) // one that was given up meanwhile has its answer, and gets no other
			r, ok := ad.records.asRecorded(c, found, err)
			if !ok {
				if c.ctx.Err() != nil {
					r = result{err: contextError(c.ctx), stats: c.stats}
				} else if r = admit(); r.later {
					return
				}
			}
			ad.answering.respond(c, r)
		})
		return result{later: true}
	}
	defer s.work.Done()
	found, err := ad.store.Records.Get(c.ctx, c.keyedCall())
	if err != nil && c.ctx.Err() != nil {
		return result{err: contextError(c.ctx), stats: c.stats}
	}
	if r, ok := ad.records.asRecorded(c, found, err); ok {
		return r
	}
	return admit()
}

package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/callback"
	"github.com/greenroom-run/greenroom/host/children"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/nested"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
	"github.com/greenroom-run/greenroom/host/worker"
)

// admission decides where a call runs, and what it gets.
type admission struct {
	grace       time.Duration // Config.SettleGrace
	answering   *call.Answering
	life        *lifecycle
	memory      *call.Memory
	table       *activation.Table
	store       *storage.Store
	deployments *serving.Deployments
	ownership   *activation.Ownership
	records     *lane.Recordings
	reads       *lane.Reads
	stateless   *lane.Stateless
	workers     *worker.Workers
	timers      *lane.Timers
	timerFired  func(TimerFired)
	waits       *callback.Waits
	newName     func() string
}

// counted admits a call whose caller waits, and gives back what it counted for.
func (ad *admission) counted(c *call.Call, admit func(*call.Call) call.Result) call.Result {
	defer func() { ad.memory.Answered(c) }()
	return admit(c)
}

// admit hands an invocation to its lane, if what serves its type takes it.
func (ad *admission) admit(c *call.Call) call.Result {
	if c.Inv.Key.IsAnonymous() { // it has no callers but its family
		return call.Result{Err: children.ErrUnrelated}
	}
	if c.Inv.Method == actor.MethodAll {
		return ad.admitAll(c)
	}
	if r, ok := ad.callback(c); ok {
		return r
	}
	s, m, err := ad.Find(c)
	here := true
	if err != nil {
		if s, m, err = ad.FindNew(c, err); err != nil {
			return call.Result{Err: err}
		}
		here = false // it took its time, and c.arrived is when a turn here would begin
	}
	if m.Private && c.FromOutside() {
		return call.Result{Err: call.PrivateError(&c.Inv)}
	}
	if err := ad.admitted(c, s); err != nil {
		return call.Result{Err: err}
	}
	// Strings that all calls of the type share are compared by where they are.
	c.Inv.Key.App, c.Inv.Key.Type, c.Inv.Method = s.Deployment.App, s.Deployment.Type, m.Name
	if c.Cause == actor.CauseKeyedCall {
		c.Sum = actor.PayloadSum(c.Inv.Payload)
	}
	run := ad.reads.Turn
	switch {
	case c.Cause.Fires(): // something is committed, whatever the method does
		return ad.queued(c, s, here)
	case s.Lane == serving.LaneStateless && (m.ReadOnly || c.Cause == actor.CauseCall):
		run = ad.stateless.Turn
	case m.ReadOnly && !c.Chained:
	case c.Cause == actor.CauseKeyedCall && !m.ReadOnly && ad.records.Repeats.Recent(&c.Inv.Key, c.Arrived):
		return ad.lookUpFirst(c, s.Lane, func() call.Result { return ad.queued(c, s, false) })
	default:
		return ad.queued(c, s, here)
	}
	r := ad.alone(c, s, run)
	switch {
	case errors.Is(r.Err, call.ErrUnfenced):
		if f := ad.fence(c, s); f.Err != nil {
			return f
		}
	case errors.Is(r.Err, call.ErrUnmigrated):
		if err := ad.migrate(c, s); err != nil {
			return call.Result{Err: err, Stats: r.Stats}
		}
	case errors.Is(r.Err, call.ErrChained):
		c.Chained = true
	case !errors.Is(r.Err, call.ErrMoved):
		return r
	}
	// Another lane's turn by now, which is to begin.
	c.Stats = call.Stats{Runs: c.Stats.Runs, Fuel: c.Stats.Fuel}
	return ad.admit(c)
}

// admitAll is admit for several calls in one.
func (ad *admission) admitAll(c *call.Call) call.Result {
	calls, err := actor.DecodeCalls(c.Inv.Key.App, c.Inv.Payload.Data)
	if err != nil {
		return call.Result{Err: err}
	}
	if calls[0].Key != c.Inv.Key {
		return call.Result{Err: &actor.ArgumentError{Field: "actor", Problem: "is not that of the first call"}}
	}
	first := &call.Call{Request: call.Request{Ctx: c.Ctx, Arrived: c.Arrived, Inv: actor.Invocation{Key: c.Inv.Key, Method: calls[0].Method, Payload: calls[0].Payload}}}
	s, _, err := ad.Find(first)
	here := err == nil
	if err != nil {
		if s, _, err = ad.FindNew(first, err); err != nil {
			return call.Result{Err: &actor.CallError{Key: c.Inv.Key, Method: calls[0].Method, Err: err}}
		}
	}
	if s.Lane == serving.LaneStateless {
		return call.Result{Err: lane.NotTogether(s)}
	}
	if err := ad.admitted(c, s); err != nil {
		return call.Result{Err: err}
	}
	c.Inv.Key.App, c.Inv.Key.Type = s.Deployment.App, s.Deployment.Type
	c.Op, c.List = call.OpAll, calls
	if c.Cause == actor.CauseKeyedCall {
		c.Sum = actor.PayloadSum(c.Inv.Payload)
		if ad.records.Repeats.Recent(&c.Inv.Key, c.Arrived) {
			return ad.lookUpFirst(c, s.Lane, func() call.Result { return ad.queued(c, s, false) })
		}
	}
	return ad.queued(c, s, here)
}

// admitted has the rules of the app admit a call, once.
func (ad *admission) admitted(c *call.Call, s *serving.Type) error {
	if c.Ruled {
		return nil
	}
	c.Ruled = true
	err := s.Rules.Admit(c.Ctx, lane.RuledBy(c, c.Arrived))
	if err != nil && c.Ctx.Err() != nil {
		err = call.ContextError(c.Ctx)
	}
	return err
}

// Find returns what serves a call.
func (ad *admission) Find(c *call.Call) (s *serving.Type, m serving.Method, err error) {
	if s, err = ad.deployments.Of(c.Inv.Key.App, c.Inv.Key.Type); err == nil {
		m, err = c.MethodOf(s)
	}
	return s, m, err
}

// FindNew returns what serves a valid call that Find has refused with err: the
// type, or the method, may have been deployed through another host a moment ago.
func (ad *admission) FindNew(c *call.Call, err error) (*serving.Type, serving.Method, error) {
	if !ad.deployments.MayBeNew(err, c.Arrived) {
		return nil, serving.Method{}, err
	}
	if err := ad.refresh(c); err != nil {
		return nil, serving.Method{}, err
	}
	s, m, err := ad.Find(c)
	if err != nil {
		ad.deployments.NotNew(c.Arrived)
	}
	return s, m, err
}

// refresh reads the deployments of a call's app again.
func (ad *admission) refresh(c *call.Call) error {
	err := ad.deployments.Refresh(c.Ctx, c.Inv.Key.App)
	if err != nil && c.Ctx.Err() != nil {
		err = fmt.Errorf("refresh deployments: %w", call.ContextError(c.Ctx))
	}
	return err
}

// admitDelete is admit for a delete.
func (ad *admission) admitDelete(c *call.Call) call.Result {
	if c.Inv.Key.IsAnonymous() {
		return call.Result{Err: children.ErrUnrelated}
	}
	s, err := ad.deployments.Of(c.Inv.Key.App, c.Inv.Key.Type)
	if err != nil && ad.ownership.Cluster != nil {
		// Another host may hold the actor: its type may have been deployed a moment ago.
		if err := ad.refresh(c); err != nil {
			return call.Result{Err: err}
		}
		s, err = ad.deployments.Of(c.Inv.Key.App, c.Inv.Key.Type)
	}
	if err == nil {
		return ad.queued(c, s, false)
	}
	r := ad.queued(c, ad.deployments.Unserved(c.Inv.Key.App, c.Inv.Key.Type), false)
	r.Stats.Lane = serving.LaneNone // for TurnEnd: the type is only what a caller wrote
	return r
}

// fence has the activation of a read's actor moved past the commits of earlier owners.
func (ad *admission) fence(c *call.Call, s *serving.Type) call.Result {
	f := &call.Call{Request: call.Request{Ctx: c.Ctx, Op: call.OpFence, Inv: actor.Invocation{Key: c.Inv.Key}, Arrived: time.Now()}}
	return ad.counted(f, func(f *call.Call) call.Result { return ad.queued(f, s, true) })
}

// migrate has the state of a read's actor migrated and committed, by one turn for all
// reads. An error is that of the migrate hook, or of the caller's context, and the read's.
// If there is no turn, or it could not be committed, the read migrates for itself, as it
// does where it must not wait: while a turn runs, which moves the state on as well.
func (ad *admission) migrate(c *call.Call, s *serving.Type) error {
	c.Migrated = true
	sh := ad.table.Shard(c.Inv.Key)
	for {
		sh.Mu.Lock()
		m := sh.Migrations[c.Inv.Key]
		first := m == nil
		if a := sh.Actors[c.Inv.Key]; first && a != nil && !a.Idle() {
			sh.Mu.Unlock()
			return nil
		}
		if first {
			m = &activation.Migration{Done: make(chan struct{})}
			if sh.Migrations == nil {
				sh.Migrations = make(map[actor.Key]*activation.Migration)
			}
			sh.Migrations[c.Inv.Key] = m
		}
		sh.Mu.Unlock()
		if first {
			inv := actor.Invocation{Key: c.Inv.Key, ID: c.Inv.ID, Trace: c.Inv.Trace}
			turn := &call.Call{Request: call.Request{Ctx: c.Ctx, Op: call.OpMigrate, Inv: inv, Arrived: time.Now()}}
			m.Err = ad.counted(turn, func(turn *call.Call) call.Result { return ad.queued(turn, s, true) }).Err
			sh.Mu.Lock()
			delete(sh.Migrations, c.Inv.Key)
			sh.Mu.Unlock()
			close(m.Done)
		}
		select {
		case <-m.Done:
		case <-c.Ctx.Done():
			return call.ContextError(c.Ctx)
		}
		switch {
		case call.FromGuest(m.Err):
			return m.Err
		case first || !call.IsContextError(m.Err):
			return nil
		}
		// The caller of the one that was first gave up.
	}
}

// alone runs a call on its caller's goroutine, under s.
func (ad *admission) alone(c *call.Call, s *serving.Type, run aloneFunc) call.Result {
	sh := ad.table.Shard(c.Inv.Key)
	if err := ad.life.running(); err != nil {
		return call.Result{Err: err}
	}
	if err := ad.memory.Charge(c); err != nil {
		return call.Result{Err: err}
	}
	warm, err := ad.ownership.Enter(sh, c, s)
	if err != nil {
		return call.Result{Err: err}
	}
	defer sh.Leave(c)
	c.Placed()
	if c.Ctx.Err() != nil {
		return call.Result{Err: call.ContextError(c.Ctx)}
	}
	c.BoundBy(s)
	began := c.Arrived
	if lane.Waits(c, s) {
		leave, err := lane.Entry(c, s, ad.life.running)
		if err != nil {
			return call.Result{Err: err}
		}
		defer leave()
		began = time.Now()
	}
	c.Stats.Began = began
	ctx := c.Begin(began, c.Limit)
	defer ctx.Stop()
	defer func() { // c may be run again, in another lane
		ad.memory.Give(c.Inv.Key.App, c.Loaded)
		c.Loaded = 0
	}()
	reply, err := run(ctx, c, s, warm)
	if c.Timers != nil {
		sh.Mu.Lock()
		c.DecideTimers(&sh.Timers, err == nil)
		sh.Mu.Unlock()
	}
	if err != nil {
		if over := c.Overdue(ctx); over != nil && call.IsContextError(err) {
			err = over
		}
	}
	return call.Result{Reply: reply, Err: err, Stats: c.Stats}
}

// aloneFunc runs a call under s, which serves its type. warm is what the actor's
// activation holds, nil if there is none.
type aloneFunc func(ctx *call.Context, c *call.Call, s *serving.Type, warm *residency.Row) (actor.Reply, error)

// queued puts a call into its actor's mailbox and waits for the answer. With here
// this goroutine may run the turn, if it is one of an idle actor.
func (ad *admission) queued(c *call.Call, s *serving.Type, here bool) call.Result {
	if err := ad.life.running(); err != nil {
		return call.Result{Err: err}
	}
	lane := s.Lane
	c.BoundBy(s)
	c.Lane = lane
	if c.Receiver == nil {
		c.Answered = make(chan struct{}, 1)
	}
	a, run, err := ad.Enqueue(c, s, here && lane == serving.LaneWarm)
	if err != nil {
		return call.Result{Err: err, Stats: call.Stats{Lane: lane}}
	}
	if run {
		c.Placed()
		ad.workers.RunHere(a, c)
	}
	if c.Receiver != nil {
		return call.Result{Later: true}
	}
	return ad.await(c, a.Shard)
}

// callback hands a call to the chain that waits for its caller and has its actor; false if there is none.
func (ad *admission) callback(c *call.Call) (r call.Result, ok bool) {
	o := c.Inv.Origin
	if o == nil || len(o.Waits) == 0 {
		return r, false
	}
	w, err := ad.waits.Find(o.Waits, ad.table.Find(c.Inv.Key))
	if err == nil && w == nil {
		return r, false
	}
	if c.Lane = serving.LaneCalled; err == nil {
		err = ad.memory.Charge(c)
	}
	if c.Receiver == nil {
		c.Answered = make(chan struct{}, 1)
	}
	if err == nil {
		c.Placed()
		err = w.Put(c)
	}
	switch {
	case err != nil:
		return call.Result{Err: err, Stats: call.Stats{Lane: c.Lane}}, true
	case c.Receiver != nil:
		return call.Result{Later: true}, true
	}
	return ad.await(c, ad.table.Shard(c.Inv.Key)), true
}

// await waits for the answer to a call of an actor in s.
func (ad *admission) await(c *call.Call, s *activation.Shard) call.Result {
	lane := c.Lane
	select {
	case <-c.Answered:
		return c.Result
	case <-c.Ctx.Done():
	}
	if s.Withdraw(c) {
		return call.Result{Err: call.ContextError(c.Ctx), Stats: call.Stats{Lane: lane}}
	}
	// Running: the guest is being stopped, or the turn is sealed and its commit
	// under way. Either way the answer reports the outcome.
	grace := time.NewTimer(ad.grace)
	defer grace.Stop()
	select {
	case <-c.Answered:
		return c.Result
	case <-grace.C:
		return call.Result{Err: actor.ErrAmbiguous, Stats: call.Stats{Lane: lane}}
	}
}

// Enqueue admits a call to its actor's mailbox. If the actor has no worker, the caller becomes it and run is
// true, where onCaller allows that; otherwise a new worker runs the call.
func (ad *admission) Enqueue(c *call.Call, by *serving.Type, onCaller bool) (a *activation.Activation, run bool, err error) {
	s := ad.table.Shard(c.Inv.Key)
	for {
		s.Mu.Lock()
		if s.Closed {
			s.Mu.Unlock()
			return nil, false, actor.ErrStopping
		}
		a = s.Actors[c.Inv.Key]
		hold, err := ad.ownership.Admits(s, c.Inv.Key, a, by, c.Arrived)
		if err == nil && a == nil {
			err = ad.memory.Charge(c)
		}
		if err != nil {
			s.Mu.Unlock()
			return nil, false, err
		}
		if a == nil {
			a = ad.table.Activate(s, c.Inv.Key)
		}
		if a != nil {
			a.Hold = hold
			if o := c.Inv.Origin; o != nil && ad.waits.Circle(o.Chain, a) {
				s.Mu.Unlock()
				return nil, false, nested.NotReentrant(&c.Inv.Key)
			}
			run, err = ad.workers.Deliver(s, a, c, by.Limits.Mailbox, onCaller)
			s.Mu.Unlock()
			return a, run, err
		}
		s.Mu.Unlock()
		victim := ad.table.Evict()
		if victim == nil {
			return nil, false, &actor.ReasonError{Condition: actor.ErrOverloaded, Reason: "all actors in memory have work, and there are as many as may be, by --max-actors of the server"}
		}
		ad.table.Deactivated(victim, activation.DeactivatePressure)
	}
}

// lookUpFirst looks up a call that its actor was sent again lately, before the call is
// admitted: off the actor's worker, so that others pay nothing. If the call is not
// recorded, admit admits it.
func (ad *admission) lookUpFirst(c *call.Call, lane serving.Lane, admit func() call.Result) call.Result {
	s := ad.table.Shard(c.Inv.Key)
	if err := ad.memory.Charge(c); err != nil {
		return call.Result{Err: err}
	}
	if err := s.BeginLookUp(c); err != nil {
		return call.Result{Err: err}
	}
	c.Stats.Lane = lane
	if c.Receiver != nil {
		ad.store.Records.Ask(c.KeyedCall(), func(found actor.Recorded, err error) {
			defer s.Work.Done()
			s.EndLookUp(c) // one that was given up meanwhile has its answer, and gets no other
			r, ok := ad.records.AsRecorded(c, found, err)
			if !ok {
				if c.Ctx.Err() != nil {
					r = call.Result{Err: call.ContextError(c.Ctx), Stats: c.Stats}
				} else if r = admit(); r.Later {
					return
				}
			}
			ad.answering.Respond(c, r)
		})
		return call.Result{Later: true}
	}
	defer s.Work.Done()
	found, err := ad.store.Records.Get(c.Ctx, c.KeyedCall())
	if err != nil && c.Ctx.Err() != nil {
		return call.Result{Err: call.ContextError(c.Ctx), Stats: c.Stats}
	}
	if r, ok := ad.records.AsRecorded(c, found, err); ok {
		return r
	}
	return admit()
}

// admitChild is queued for a volatile message to a child. One that shares its parent's mailbox has its turn
// as a call of a turn of the parent.
func (ad *admission) admitChild(c *call.Call, s *serving.Type) call.Result {
	parent, ok := ad.table.Children.Parent(c.Inv.Key, c.Arrived)
	switch {
	case !ok || s.Lane != serving.LaneWarm:
		return call.Result{Err: children.ErrUnrelated}
	case !c.Inv.Key.SharesMailbox():
		return ad.queued(c, s, false)
	}
	c.Op, c.List = call.OpAll, []actor.Call{{Key: c.Inv.Key, Method: c.Inv.Method, Payload: c.Inv.Payload}}
	c.Inv.Key, c.Inv.Method, c.Inv.Payload = parent, actor.MethodAll, actor.Payload{}
	of, err := ad.deployments.Of(parent.App, parent.Type)
	if err != nil {
		return call.Result{Err: err}
	}
	return ad.queued(c, of, false)
}

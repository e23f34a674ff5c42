package host

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/pipeline"
	"github.com/greenroom-run/greenroom/host/turn"
)

// Host runs actors. All methods may be called concurrently.
type Host struct {
	cfg       Config
	events    Events
	table     table
	memory    budget // bytes of the calls under way
	pools     *instance.Pools
	revisions overlay.Revisions
	commits   *pipeline.Commits
	loads     *pipeline.Loads
	versions  *pipeline.Asks[actor.Key, actor.RowVersion]
	records   *pipeline.Asks[actor.KeyedCall, actor.Recorded]
	repeats   repeats
	shared    bool // others write to the store
	env       turn.Env
	runs      sync.Pool     // of *run
	buffers   sync.Pool     // of *[]byte, for encoded states on their way to the store
	locked    chan struct{} // a place for each locked turn under way

	served   atomic.Pointer[map[Scope]knownServed]
	servedMu sync.Mutex   // of changes to served
	lookFrom atomic.Int64 // from when on unknown types are looked for again, in nanoseconds since 1970

	// store is the context of everything that must not end with a caller:
	// commits and settling. A forced stop ends it.
	store    context.Context
	endStore context.CancelFunc

	life lifecycle
}

// New returns a host that is not started. An error names the field of cfg and
// the remedy.
func New(cfg Config) (*Host, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg, events: cfg.Events.withDefaults(cfg.Logger), locked: make(chan struct{}, cfg.LockedTurns)}
	h.shared = cfg.Committer.Shared()
	readAge := time.Duration(0)
	if h.shared {
		readAge = actor.MaxReadAge
	}
	h.table.init(cfg.MaxActivations, cfg.StateMemory, readAge)
	h.repeats.init()
	h.memory.max = cfg.CallMemory
	h.pools = instance.New(instance.Config{
		Engine: cfg.Engine, ModuleBytes: cfg.Modules.ModuleBytes, Memory: cfg.GuestMemory, Logger: cfg.Logger,
		TakeIdle: h.table.takeInstance, Made: h.events.InstanceMade, Closed: h.events.InstanceClosed,
	})
	h.env = turn.Env{
		Revisions: &h.revisions, Logger: cfg.Logger, Grants: cfg.Grants, Egress: cfg.Egress,
		Logged: h.events.GuestLog, Sent: h.events.Egress,
	}
	h.runs.New = func() any { return &run{host: h} }
	h.buffers.New = func() any { return new([]byte) }
	h.served.Store(&map[Scope]knownServed{})
	h.store, h.endStore = context.WithCancel(context.Background())
	h.commits = pipeline.NewCommits(h.store, cfg.Pipeline, cfg.Committer)
	h.loads = pipeline.NewLoads(h.store, cfg.Pipeline, cfg.Committer)
	h.versions = pipeline.NewAsks(h.store, cfg.Pipeline, cfg.Committer.Versions, func(actor.RowVersion) int64 { return 0 })
	h.records = pipeline.NewAsks(h.store, cfg.Pipeline, cfg.Committer.LoadIdempotency,
		func(r actor.Recorded) int64 { return int64(len(r.Record.Reply.Data)) })
	h.life.init()
	return h, nil
}

// Invoke runs one turn and returns its reply when everything that it changed is
// durable. The error is an [*actor.ArgumentError], or an [*actor.TurnError]
// around a sentinel or a typed error of package actor; after any of them but
// actor.ErrAmbiguous the turn left no trace. If ctx ends, the turn is not
// started, or stopped, or, once it is sealed, its outcome is awaited; see the
// package comment. The payload must not be changed until Invoke returns.
func (h *Host) Invoke(ctx context.Context, inv actor.Invocation) (actor.Reply, error) {
	arrived := time.Now()
	if inv.ID == "" {
		inv.ID = cryptorand.Text()
	}
	c := &call{ctx: ctx, op: opInvoke, inv: inv, arrived: arrived}
	return h.conclude(c, h.counted(c, h.admit))
}

// Delete removes an actor's state, as one turn of that actor; actor.ErrActorNotFound
// when nothing is stored. It works for damaged states as well, and for types that
// nothing serves any more. Errors are as those of Invoke.
func (h *Host) Delete(ctx context.Context, key actor.Key) error {
	arrived := time.Now()
	c := &call{ctx: ctx, op: opDelete, inv: actor.Invocation{Key: key}, arrived: arrived}
	_, err := h.conclude(c, h.counted(c, h.admitDelete))
	return err
}

// counted admits a call whose caller waits, and gives back what it counted for.
func (h *Host) counted(c *call, admit func(*call) result) result {
	defer func() { h.memory.add(-c.charged) }()
	return admit(c)
}

// conclude makes of a result what the caller gets, and tells of it.
func (h *Host) conclude(c *call, r result) (actor.Reply, error) {
	if r.err != nil {
		r.reply = actor.Reply{}
		if r.stats.sent {
			r.err = finalError(r.err)
		}
		var argument *actor.ArgumentError
		if !errors.As(r.err, &argument) {
			r.err = &actor.TurnError{Key: c.inv.Key, Method: c.inv.Method, Err: r.err}
		}
	}
	end := TurnEnd{
		Key: c.inv.Key, Method: c.inv.Method, InvocationID: c.inv.ID,
		Lane: r.stats.lane, Runs: r.stats.runs, Fuel: r.stats.fuel, Err: r.err,
	}
	now := r.stats.ended
	if now.IsZero() {
		now = time.Now()
	}
	end.Duration, end.QueueWait = now.Sub(c.arrived), now.Sub(c.arrived)
	if !r.stats.began.IsZero() {
		end.QueueWait = r.stats.began.Sub(c.arrived)
	}
	h.events.TurnEnd(end)
	return r.reply, r.err
}

// admit checks an invocation and hands it to its lane.
func (h *Host) admit(c *call) result {
	s, m, err := h.find(c)
	if err != nil {
		if err := c.validate(); err != nil {
			return result{err: err}
		}
		if s, m, err = h.findNew(c, err); err != nil {
			return result{err: err}
		}
	}
	// Strings that all calls of the type share are compared by where they are.
	c.inv.Key.App, c.inv.Key.Type, c.inv.Method = s.deployment.App, s.deployment.Type, m.name
	// What serves a type has valid names: only the rest is left to be checked.
	if err := actor.ValidateID(c.inv.Key.ID); err != nil {
		return result{err: err}
	}
	if c.keyed() {
		if err := actor.ValidateIdempotencyKey(c.inv.IdempotencyKey); err != nil {
			return result{err: err}
		}
		c.sum = actor.PayloadSum(c.inv.Payload)
	}
	run := h.readTurn
	switch {
	case s.lane == LaneStateless && (m.readOnly || !c.keyed()):
		run = h.statelessTurn
	case m.readOnly:
	case c.keyed() && h.repeats.recent(&c.inv.Key, c.arrived):
		return h.lookUpFirst(c, s.lane, func() result { return h.queued(c, &s.limits, s.lane, false) })
	default:
		return h.queued(c, &s.limits, s.lane, true)
	}
	r := h.alone(c, s, run)
	if errors.Is(r.err, errMoved) {
		c.stats = turnStats{} // another lane's turn by now
		return h.admit(c)
	}
	return r
}

func (h *Host) admitDelete(c *call) result {
	if err := c.inv.Key.Validate(); err != nil {
		return result{err: err}
	}
	s, err := h.serving(c.inv.Key.App, c.inv.Key.Type)
	if err == nil {
		return h.queued(c, &s.limits, s.lane, false)
	}
	limits := h.cfg.limits(c.inv.Key.App, c.inv.Key.Type)
	r := h.queued(c, &limits, LaneWarm, false)
	r.stats.lane = LaneNone // for TurnEnd: the type is only what a caller wrote
	return r
}

// alone runs a call on its caller's goroutine, under s.
func (h *Host) alone(c *call, s *served, run aloneFunc) result {
	sh := h.table.shard(c.inv.Key)
	if err := h.life.running(); err != nil {
		return result{err: err}
	}
	if err := h.charge(c); err != nil {
		return result{err: err}
	}
	warm, err := sh.enter(c)
	if err != nil {
		return result{err: err}
	}
	defer sh.leave(c)
	if c.ctx.Err() != nil {
		return result{err: contextError(c.ctx)}
	}
	c.limit = s.limits.TurnDeadline
	c.stats.began = c.arrived
	ctx := c.begin(c.arrived, c.limit)
	defer ctx.stop()
	defer func() { // c may be run again, in another lane
		h.memory.add(-c.loaded)
		c.loaded = 0
	}()
	reply, err := run(ctx, c, s, warm)
	if err != nil {
		if over := c.overdue(ctx); over != nil && isContextError(err) {
			err = over
		}
	}
	return result{reply: reply, err: err, stats: c.stats}
}

// aloneFunc runs a call under s, which serves its type. warm is what the actor's
// activation holds, nil if there is none.
type aloneFunc func(ctx *turnContext, c *call, s *served, warm *loaded) (actor.Reply, error)

// queued puts a call into its actor's mailbox and waits for the answer. With here
// this goroutine may run the turn, if it is one of an idle actor.
func (h *Host) queued(c *call, limits *Limits, lane Lane, here bool) result {
	if err := h.life.running(); err != nil {
		return result{err: err}
	}
	c.limit, c.lane = limits.TurnDeadline, lane
	if c.receiver == nil {
		c.answered = make(chan struct{}, 1)
	}
	a, run, err := h.enqueue(c, limits.Mailbox, here && lane == LaneWarm)
	if err != nil {
		return result{err: err, stats: turnStats{lane: lane}}
	}
	if run {
		h.runHere(a, c)
	}
	if c.receiver != nil {
		return result{later: true}
	}
	select {
	case <-c.answered:
		return c.held
	case <-c.ctx.Done():
	}
	if a.shard.withdraw(c) {
		return result{err: contextError(c.ctx), stats: turnStats{lane: lane}}
	}
	// Running: the guest is being stopped, or the turn is sealed and its commit
	// under way. Either way the answer says what became of it.
	grace := time.NewTimer(h.cfg.SettleGrace)
	defer grace.Stop()
	select {
	case <-c.answered:
		return c.held
	case <-grace.C:
		return result{err: actor.ErrAmbiguous, stats: turnStats{lane: lane}}
	}
}

// enqueue admits a call to its actor's mailbox. Somebody has to run it: if there
// is no worker, the caller if own allows, which run then tells, or a new one.
func (h *Host) enqueue(c *call, mailbox int, own bool) (a *activation, run bool, err error) {
	s := h.table.shard(c.inv.Key)
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, false, actor.ErrStopping
		}
		a = s.actors[c.inv.Key]
		if a == nil {
			if err := h.charge(c); err != nil {
				s.mu.Unlock()
				return nil, false, err
			}
		}
		if a == nil && h.table.reserve() {
			a = &activation{key: c.inv.Key}
			h.table.add(s, a)
		}
		if a != nil {
			run, err = h.deliver(s, a, c, mailbox, own)
			s.mu.Unlock()
			return a, run, err
		}
		s.mu.Unlock()
		victim := h.table.evict()
		if victim == nil {
			return nil, false, actor.ErrOverloaded
		}
		h.deactivated(victim, DeactivatePressure)
	}
}

// deliver puts a call into a mailbox. The caller has the shard's lock.
func (h *Host) deliver(s *shard, a *activation, c *call, mailbox int, own bool) (run bool, err error) {
	if a.admitted > mailbox { // one of them runs
		return false, fmt.Errorf("%w: %d invocations wait; call less at once, or try again later", actor.ErrMailboxFull, mailbox)
	}
	if a.member.Flight() != nil && h.commits.Stalled() { // it would wait for that, too
		return false, fmt.Errorf("%w: it has not answered for a while; try again later", actor.ErrUnavailable)
	}
	cost := c.cost()
	if bytes := a.callBytes + cost; a.admitted > 0 && bytes > h.memory.max/actorShare {
		return false, fmt.Errorf("%w: its invocations have %d bytes; call less at once, or try again later", actor.ErrMailboxFull, a.callBytes)
	}
	if err := h.charge(c); err != nil {
		return false, err
	}
	a.mailbox.push(c)
	c.at = a
	a.admitted++
	a.callBytes += cost
	s.used(a)
	if !a.busy {
		a.busy = true
		s.work.Add(1)
	}
	if a.working || !a.member.MayBegin() || a.full() { // the flight's landing sends a worker
		return false, nil
	}
	a.working = true
	if own { // without a worker the mailbox was empty
		s.pick(a)
		return true, nil
	}
	go h.work(s, a)
	return false, nil
}

// deactivated ends an activation that is out of the table.
func (h *Host) deactivated(a *activation, reason DeactivateReason) {
	if a.dedicated != nil {
		a.dedicated.Discard()
		a.dedicated = nil
	}
	if a.announced {
		h.events.Deactivated(a.key, reason)
	}
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, actor.ErrDeadline) || errors.Is(err, actor.ErrCanceled)
}

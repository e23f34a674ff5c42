package host

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/turn"
)

// timers are what the actors of a host have set: protocol.md has the rules. Each waits in a
// timer of Go's runtime, which keeps them in a heap for each processor; an actor without
// any costs nothing.
type timers struct {
	logger    *slog.Logger
	events    *Events
	table     *table
	admission *admission
	memory    budget // Config.TimerMemory
	count     atomic.Int64
	// clocks counts what waits in the runtime, and what that has begun to fire.
	clocks sync.WaitGroup
}

// timerCost is what a timer counts for in Config.TimerMemory beside its size.
const timerCost = 512

// timerSet is the timers of one actor. The lock of its shard guards it.
type timerSet struct {
	key    actor.Key
	shard  *shard
	byName map[string]*timer
	// placed means that the actor's type has activations that stay: what is set goes
	// with that of the actor.
	placed bool
	// changes are those of turns that are not answered yet, in the order of the turns.
	changes []*timerChanges
}

// timer is one that is set. The lock of its shard guards what changes.
type timer struct {
	by    *timers
	set   *timerSet
	spec  *actor.TimerSpec
	due   time.Time
	left  uint32 // firings, the next one included; 0: no limit
	clock *time.Timer
	gone  bool          // it was cancelled, replaced, or has fired for the last time
	begun bool          // the turn of this firing has
	late  time.Duration // how long after its time that was
}

// timerChanges is what a call does to its actor's timers, from the end of its run until
// it is answered. The call's run has it; then the lock of the shard guards it.
type timerChanges struct {
	effects []turn.TimerEffect
	placed  bool
	fate    fate
	waits   bool // in timerSet.changes
	// request is what a call asks for that is about nothing else.
	request *timerRequest
}

// fate is what happens to something that waits for a commit.
type fate uint8

const (
	fateOpen fate = iota
	fateApplied
	fateDropped
)

func fateOf(err error) fate {
	if err != nil {
		return fateDropped
	}
	return fateApplied
}

// timerRequest sets a timer, or cancels one.
type timerRequest struct {
	name    string
	set     *actor.TimerSpec // nil: it is cancelled
	existed bool             // the answer
}

// TimerFired is one firing of a timer that has begun.
type TimerFired struct {
	Key    actor.Key
	Name   string
	Method string
	// Late is how long after its time it was.
	Late time.Duration
	// Err is the outcome of its turn.
	Err error
}

// Timers returns how many timers are set.
func (h *Host) Timers() int { return int(h.timers.count.Load()) }

// SetTimer sets a timer of an actor, in the place of one of the same name, and reports
// whether there was one. It is a turn of that actor, which this host has in memory then.
// The spec is the host's from then on. Errors are as those of Invoke; what cannot be, or
// is too much, is an [*actor.ArgumentError].
func (h *Host) SetTimer(ctx context.Context, spec actor.TimerSpec) (replaced bool, err error) {
	err = spec.Validate()
	if err != nil {
		return false, &actor.TurnError{Key: spec.Key, Err: err}
	}
	return h.askTimer(ctx, spec.Key, &timerRequest{name: spec.Name, set: &spec})
}

// CancelTimer cancels a timer of an actor, and reports whether there was one. Errors are
// as those of SetTimer.
func (h *Host) CancelTimer(ctx context.Context, key actor.Key, name string) (existed bool, err error) {
	if err := actor.ValidateTimerName(name); err != nil {
		return false, &actor.TurnError{Key: key, Err: err}
	}
	return h.askTimer(ctx, key, &timerRequest{name: name})
}

// GetTimer returns a timer that an actor has here, as turns that were answered have left
// it; actor.ErrTimerNotFound if there is none of that name. It is no turn, and takes no
// actor into memory. Errors are [*actor.TurnError]s.
func (h *Host) GetTimer(_ context.Context, key actor.Key, name string) (actor.Timer, error) {
	if err := errors.Join(key.Validate(), actor.ValidateTimerName(name)); err != nil {
		return actor.Timer{}, &actor.TurnError{Key: key, Err: err}
	}
	s := h.timers.table.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.timers[key]; set != nil {
		if t := set.byName[name]; t != nil {
			return actor.Timer{TimerSpec: *t.spec, Due: t.due, Left: t.left}, nil
		}
	}
	return actor.Timer{}, &actor.TurnError{Key: key, Err: fmt.Errorf("%w: it has none that is called %q", actor.ErrTimerNotFound, name)}
}

func (h *Host) askTimer(ctx context.Context, key actor.Key, r *timerRequest) (bool, error) {
	c := &call{ctx: ctx, op: opTimer, inv: actor.Invocation{Key: key}, arrived: time.Now(), timers: &timerChanges{request: r}}
	if r.set != nil {
		c.inv.Method, c.inv.Payload = r.set.Method, r.set.Payload
	}
	if _, err := h.admission.conclude(c, h.admission.counted(c, h.admission.admitTimer)); err != nil {
		return false, err // what has begun may still write to r
	}
	return r.existed, nil
}

// admitTimer is admit for a call that sets or cancels a timer.
func (ad *admission) admitTimer(c *call) result {
	var s *served
	var err error
	if c.timers.request.set == nil {
		s, err = ad.deployments.serving(c.inv.Key.App, c.inv.Key.Type)
	} else if s, _, err = ad.deployments.find(c); err != nil {
		s, _, err = ad.deployments.findNew(c, err)
	}
	if err != nil {
		return result{err: err}
	}
	if s.lane != LaneStateless {
		return ad.queued(c, s, false)
	}
	ask := func(*turnContext, *call, *served, *loaded) (actor.Reply, error) {
		c.stats.lane = LaneStateless
		return actor.Reply{}, ad.timers.ask(c, s)
	}
	return ad.alone(c, s, ask)
}

// ask works out what a call does that sets or cancels a timer.
func (ts *timers) ask(c *call, s *served) error {
	r := c.timers.request
	var changes turn.TimerChanges
	if r.set == nil {
		r.existed = changes.Cancel(ts, c.inv.Key, r.name)
	} else {
		if problem := s.MethodProblem("timer", r.set.Method); problem != "" {
			return &actor.ArgumentError{Field: "timer method", Problem: "cannot run: " + problem}
		}
		var err error
		if r.existed, err = changes.Set(ts, r.set); err != nil {
			return &actor.ArgumentError{Field: "timer", Problem: "is too much: " + err.Error()}
		}
	}
	c.timers.changed(changes.Effects(), s)
	return nil
}

// changed is what a run has left.
func (tc *timerChanges) changed(effects []turn.TimerEffect, s *served) {
	tc.effects, tc.placed, tc.fate = effects, s.placed(), fateOpen
}

// timer runs a call that sets or cancels a timer, on the activation's worker.
func (ts *turns) timer(ctx context.Context, a *activation, c *call, s *served) outcome {
	c.stats.lane = s.lane
	if s.lane == LaneWarm { // it is the activation that has it
		l, err := ts.ensureLoaded(ctx, a, s)
		if err == nil && l != nil && l.damage != nil {
			err = l.damage
		}
		if err != nil || l == nil {
			return outcome{result: result{err: err}, retry: err == nil}
		}
	} else {
		a.dropAll()
	}
	err := ts.timers.ask(c, s)
	return outcome{result: result{err: err}, resting: s.lane == LaneWarm, ended: time.Now()}
}

// Held implements [turn.Timers].
func (ts *timers) Held(key actor.Key) map[string]int64 {
	held := map[string]int64{}
	s := ts.table.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.timers[key]
	if set == nil {
		return held
	}
	for name, t := range set.byName {
		held[name] = t.spec.Size()
	}
	for _, tc := range set.changes {
		if tc.fate == fateDropped {
			continue
		}
		for _, e := range tc.effects {
			if e.Set == nil {
				delete(held, e.Name)
			} else {
				held[e.Name] = e.Set.Size()
			}
		}
	}
	return held
}

// Room implements [turn.Timers].
func (ts *timers) Room(timers int, bytes int64) bool {
	return ts.memory.used.Load()+bytes+int64(timers)*timerCost <= ts.memory.max
}

// wait puts what a call did to timers behind what others did, until it is answered. The
// caller has the shard's lock.
func (s *shard) wait(c *call) {
	tc := c.timers
	if tc == nil || len(tc.effects) == 0 || tc.waits {
		return
	}
	set := s.timers[c.inv.Key]
	if set == nil {
		set = &timerSet{key: c.inv.Key, shard: s, byName: map[string]*timer{}}
		if s.timers == nil {
			s.timers = map[actor.Key]*timerSet{}
		}
		s.timers[c.inv.Key] = set
	}
	tc.waits = true
	set.changes = append(set.changes, tc)
}

// timed does what a call did to timers, when it is answered, or drops it, if it failed
// or goes again. What an earlier turn did comes first. The caller has the shard's lock.
func (s *shard) timed(c *call, f fate) {
	tc := c.timers
	if tc == nil || len(tc.effects) == 0 {
		return
	}
	s.wait(c)
	tc.fate = f
	ts, set := s.table.timers, s.timers[c.inv.Key]
	for len(set.changes) > 0 && set.changes[0].fate != fateOpen {
		next := set.changes[0]
		set.changes = set.changes[1:]
		if next.fate == fateApplied {
			ts.apply(set, next)
		}
		next.effects, next.waits = nil, false
	}
	set.tidy()
}

// tidy forgets a set that holds nothing.
func (set *timerSet) tidy() {
	if len(set.byName) == 0 && len(set.changes) == 0 {
		delete(set.shard.timers, set.key)
	}
}

func (ts *timers) apply(set *timerSet, tc *timerChanges) {
	set.placed = tc.placed
	for _, e := range tc.effects {
		if old := set.byName[e.Name]; old != nil {
			ts.remove(old)
		}
		if e.Set == nil || set.shard.closed {
			continue
		}
		now := time.Now()
		t := &timer{by: ts, set: set, spec: e.Set, left: e.Set.Schedule.Times}
		switch at := e.Set.Schedule; {
		case !at.At.IsZero():
			t.due = now.Add(max(0, at.At.Sub(now))) // by the clock that goes on evenly from here
		case at.After > 0:
			t.due = now.Add(at.After)
		default:
			t.due = now.Add(at.Every)
		}
		if t.due.After(t.end()) {
			continue
		}
		set.byName[e.Name] = t
		ts.count.Add(1)
		ts.memory.add(t.spec.Size() + timerCost)
		ts.clocks.Add(1)
		t.clock = time.AfterFunc(t.due.Sub(now), t.fire)
	}
}

// end is after which time the timer does not fire.
func (t *timer) end() time.Time {
	if until := t.spec.Schedule.Until; !until.IsZero() {
		return until
	}
	return actor.MaxReminderTime
}

// once reports whether the timer fires no more after this time.
func (t *timer) once() bool { return t.spec.Schedule.Every == 0 || t.left == 1 }

// remove ends a timer. The caller has the shard's lock.
func (ts *timers) remove(t *timer) {
	if t.gone {
		return
	}
	t.gone = true
	if t.clock.Stop() {
		ts.clocks.Done()
	}
	delete(t.set.byName, t.spec.Name)
	ts.count.Add(-1)
	ts.memory.add(-t.spec.Size() - timerCost)
}

// dropTimers ends the timers of an actor that go with its activation. The caller has the
// shard's lock.
func (s *shard) dropTimers(key actor.Key) {
	if set := s.timers[key]; set != nil && set.placed {
		s.endTimers(set)
	}
}

// endTimers ends all timers of an actor. The caller has the shard's lock.
func (s *shard) endTimers(set *timerSet) {
	for _, t := range set.byName {
		s.table.timers.remove(t)
	}
	set.tidy()
}

// dropTimersOf ends all timers of the actors that are named.
func (s *shard) dropTimersOf(named func(*timerSet) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, set := range s.timers {
		if named(set) {
			s.endTimers(set)
		}
	}
}

// deleted ends the timers of an actor that was deleted.
func (ts *timers) deleted(key actor.Key) {
	s := ts.table.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.timers[key]; set != nil {
		s.endTimers(set)
	}
}

// stop ends all timers, and waits for what they have begun. Nothing sets any more.
func (ts *timers) stop() {
	for i := range ts.table.shards {
		s := &ts.table.shards[i]
		s.mu.Lock()
		for _, set := range s.timers {
			s.endTimers(set)
		}
		s.mu.Unlock()
	}
	ts.clocks.Wait()
}

// fire asks for the timer's turn. The runtime calls it, on a goroutine of its own.
func (t *timer) fire() {
	defer t.by.clocks.Done()
	s := t.set.shard
	s.mu.Lock()
	over := t.gone || s.closed
	s.mu.Unlock()
	if over {
		return
	}
	c := &call{
		ctx: context.Background(), op: opInvoke, arrived: time.Now(), timer: t,
		inv: actor.Invocation{ID: cryptorand.Text(), Key: t.spec.Key, Method: t.spec.Method, Payload: t.spec.Payload},
	}
	c.to, c.receiver = t.by.admission, t
	if r := c.to.admitFired(c); !r.later {
		c.respond(r)
	}
}

// admitFired is admit for a timer that fires.
func (ad *admission) admitFired(c *call) result {
	s, m, err := ad.deployments.find(c)
	if err != nil {
		return result{err: err}
	}
	// As in admit.
	c.inv.Key.App, c.inv.Key.Type, c.inv.Method = s.deployment.App, s.deployment.Type, m.name
	if s.lane != LaneStateless {
		return ad.queued(c, s, false)
	}
	return ad.alone(c, s, func(ctx *turnContext, c *call, s *served, warm *loaded) (actor.Reply, error) {
		if !c.timer.begin() {
			return actor.Reply{}, errTimerGone
		}
		return ad.stateless.turn(ctx, c, s, warm)
	})
}

// errTimerGone ends a firing of a timer that was cancelled or set anew before its turn
// began.
var errTimerGone = actor.ErrCanceled

// look makes sure that the timer whose firing asks for a call still exists, by what is
// committed and by what the activation is about to commit. over means that it does not, or
// that this is not known: then o is the outcome.
func (ts *timers) look(ctx context.Context, a *activation, c *call) (o outcome, over bool) {
	if ts.touched(c.timer) {
		if dropped, err := a.awaitCommits(ctx); err != nil || dropped {
			return outcome{result: result{err: err}, retry: dropped}, true
		}
	}
	if !c.timer.begin() {
		return failed(errTimerGone), true
	}
	return outcome{}, false
}

// touched reports whether a turn that is not answered yet has set a timer anew or
// cancelled it, whose own turn has not begun.
func (ts *timers) touched(t *timer) bool {
	s := t.set.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.begun {
		return false
	}
	for _, tc := range t.set.changes {
		if tc.fate == fateDropped {
			continue
		}
		for _, e := range tc.effects {
			if e.Name == t.spec.Name {
				return true
			}
		}
	}
	return false
}

// begin begins the turn of a firing, and reports whether it may: a timer that was
// cancelled before does not fire.
func (t *timer) begin() bool {
	s := t.set.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.begun: // it runs again
		return true
	case t.gone:
		return false
	}
	t.begun, t.late = true, time.Since(t.due)
	if t.once() {
		t.by.remove(t)
		t.set.tidy()
	}
	return true
}

// firing is what the guest of a call receives about the timer that asks for the call; the
// zero value if t is nil: no timer does.
func (t *timer) firing() turn.TimerFiring {
	if t == nil {
		return turn.TimerFiring{}
	}
	return turn.TimerFiring{Name: t.spec.Name, Due: t.due}
}

// refusedPause is after what time a firing is tried again that the host had no room for.
const refusedPause = time.Second

// Answer implements [Receiver].
func (t *timer) Answer(_ actor.Reply, err error) {
	s, ts := t.set.shard, t.by
	now := time.Now()
	s.mu.Lock()
	begun, gone, late := t.begun, t.gone, t.late
	unserved := errors.Is(err, actor.ErrTypeNotFound) || errors.Is(err, actor.ErrMethodNotFound)
	again := now.Add(t.spec.Schedule.Every) // from the end of the turn
	switch {
	case gone || s.closed:
	case errors.Is(err, actor.ErrNotOwner) && t.set.placed && s.actors[t.spec.Key] == nil:
		s.dropTimers(t.spec.Key) // otherwise the lease is only late
	case unserved:
		ts.remove(t)
		t.set.tidy()
	case !begun: // of the timer itself nothing is known
		t.rearm(refusedPause)
	case again.After(t.end()):
		ts.remove(t)
		t.set.tidy()
	default:
		t.begun = false
		t.left -= min(t.left, 1)
		t.due = again
		t.rearm(t.spec.Schedule.Every)
	}
	s.mu.Unlock()
	if !begun && !unserved {
		return
	}
	ts.events.TimerFired(TimerFired{Key: t.spec.Key, Name: t.spec.Name, Method: t.spec.Method, Late: late, Err: err})
	if err != nil {
		ts.logger.Warn("timer failed", "app", t.spec.Key.App, "actor_type", t.spec.Key.Type, "actor_id", t.spec.Key.ID,
			"timer", t.spec.Name, "method", t.spec.Method, "removed", unserved, "error", err)
	}
}

// rearm lets the timer fire after d. The caller has the shard's lock.
func (t *timer) rearm(d time.Duration) {
	t.by.clocks.Add(1)
	t.clock.Reset(d)
}

// size is what the timers that a call sets take while it waits for its commit.
func (tc *timerChanges) size() (n int64) {
	if tc == nil {
		return 0
	}
	for _, e := range tc.effects {
		if n += timerCost; e.Set != nil {
			n += e.Set.Size()
		}
	}
	return n
}

// timeAgain readies a call that set timers to run once more. The caller has the shard's lock.
func (c *call) timeAgain() {
	if c.timers == nil {
		return
	}
	c.at.shard.timed(c, fateDropped)
	r := c.timers.request
	c.timers = nil
	if r != nil {
		c.timers = &timerChanges{request: r}
	}
}

// notTimed drops what a run did to timers that err has ended: the call may have the answer
// of an earlier one all the same.
func (c *call) notTimed(err error) {
	if err != nil && c.op == opInvoke {
		c.timers = nil
	}
}

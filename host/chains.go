package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/chain"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/turn"
)

const (
	// maxChainDepth is how many turns may be nested in one, and maxChainActors how many
	// actors a chain may have.
	maxChainDepth, maxChainActors = 32, 64
)

// chains run what guests call.
type chains struct {
	graph      chain.Graph[*activation]
	reminders  *reminders
	logger     *slog.Logger
	admission  *admission
	turns      *turns
	forwarding forwarding
}

// call runs a turn that the turn t calls. An error ends t's guest, and those that called it.
func (cs *chains) call(t *run, msg *abi.Message) (*abi.Result, abi.Code, error) {
	caller := &t.call.inv.Key
	c := &call{request: request{
		ctx: t.Context(), op: opEnlist, cause: actor.CauseCall, arrived: time.Now(), atomic: msg.Flags&abi.MessageAtomic != 0,
		inv: actor.Invocation{
			ID: t.call.inv.ID, Key: actor.Key{App: caller.App, Type: msg.Type, ID: msg.ID}, Method: msg.Method,
			Payload: actor.Payload{ContentType: msg.ContentType, Data: msg.Payload}, Trace: t.call.inv.Trace.Child(),
		},
	}}
	if msg.LimitMillis > 0 {
		ctx, cancel := context.WithTimeout(c.ctx, time.Duration(msg.LimitMillis)*time.Millisecond)
		defer cancel()
		c.ctx = ctx
	}
	runs := max(0, t.call.stats.runs-1) // of the chain
	c.stats.runs = runs
	if t.activation != nil {
		cs.join(t)
	}
	place := cs.record(t).began(&c.inv, t.depth+1)
	reply, err := cs.run(t, c)
	if err != nil && t.Context().Err() != nil {
		cs.record(t).late(c.waits())
	}
	cs.ended(t, c, c.stats.runs-runs, err)
	switch {
	case err == nil:
		r := &abi.Result{ContentType: reply.ContentType, Payload: reply.Data}
		if c.elsewhere {
			r.Flags = abi.ResultCommitted
		}
		return r, 0, nil
	case errors.Is(err, errReadOnly):
		cs.record(t).failed(place, "read_only")
		return nil, abi.CodeReadOnly, nil
	}
	r, err := resultOf(t.Context(), c, err)
	code := "ended"
	if err == nil {
		code = r.Code
	} else if why := (*actor.Condition)(nil); errors.As(err, &why) {
		code = string(why.Kind())
	}
	cs.record(t).failed(place, code)
	return r, 0, err
}

// record returns that of t's chain.
func (cs *chains) record(t *run) *chainRecord {
	if t.chain == nil {
		return nil
	}
	return t.outermost.call.stats.chain
}

// ended reports the end of a called turn.
func (cs *chains) ended(t *run, c *call, runs int, err error) {
	end := TurnEnd{
		Key: c.inv.Key, Method: c.inv.Method, InvocationID: c.inv.ID, Trace: c.inv.Trace, Depth: t.depth + 1,
		Lane: LaneCalled, Runs: runs, Fuel: c.stats.fuel, Duration: time.Since(c.arrived),
	}
	if t.call.op != opAll {
		end.Caller = t.call.inv.Key
	}
	end.QueueWait = end.Duration
	if !c.stats.began.IsZero() {
		end.QueueWait = c.stats.began.Sub(c.arrived)
	}
	decided := (*decidedError)(nil)
	if errors.As(err, &decided) {
		err = decided.err
	}
	switch {
	case err == nil:
	case errors.Is(err, errChained):
		return
	case errors.Is(err, errDropped), errors.Is(err, errMoved), errors.Is(err, errRecorded):
		err = actor.ErrStale // of the chain, which runs again
	case errors.Is(err, errReadOnly):
		err = actor.ErrNotReadOnly
	case errors.Is(err, actor.ErrTypeNotFound), errors.Is(err, actor.ErrMethodNotFound):
		end.Lane = LaneNone
	}
	if err != nil {
		end.Err = &actor.TurnError{Key: c.inv.Key, Method: c.inv.Method, Err: err}
	}
	if trap := (*actor.TrapError)(nil); decided == nil && errors.As(err, &trap) { // of this host, and its caller gets no stack
		cs.logger.LogAttrs(context.Background(), slog.LevelWarn, "called turn trapped", c.inv.Trace.AppendLog([]slog.Attr{
			slog.String("app", c.inv.Key.App), slog.String("actor_type", c.inv.Key.Type), slog.String("actor_id", c.inv.Key.ID),
			slog.String("method", c.inv.Method), slog.String("invocation", c.inv.ID), slog.String("trap", trap.Message), slog.String("stack", trap.Stack),
		})...)
	}
	cs.admission.answering.events.TurnEnd(end)
}

// run runs a called turn.
func (cs *chains) run(t *run, c *call) (actor.Payload, error) {
	if err := errors.Join(c.inv.Key.Validate(), actor.ValidateName("method", c.inv.Method)); err != nil {
		return actor.Payload{}, err
	}
	switch {
	case t.chain != nil:
	case t.served.lane == LaneStateless:
		return actor.Payload{}, refuse(abi.CallNotAtomic, "turns of %s cannot call others in one transaction: the type is placed stateless", t.call.inv.Key.Type)
	case t.served.lane == LaneLocked && t.call.stats.sent:
		t.served.callsOthers(t.call.inv.Method)
		return actor.Payload{}, refuse(abi.CallNotAtomic, "the turn has sent a request before its first call, while it held the row of %s, which is placed any; call the method again", t.call.inv.Key.Type)
	default: // a reader that has a copy gets no chain: the actor's holder runs it
		return actor.Payload{}, errChained
	}
	if t.depth >= maxChainDepth {
		return actor.Payload{}, refuse(abi.CallTooDeep, "calls are nested at most %d deep", maxChainDepth)
	}
	ch := t.chain
	ch.calls++
	m := ch.member(c.inv.Key)
	var s *served // nil: the chain has the actor
	var meth method
	var err error
	if m != nil && m.seen() {
		meth, err = m.served.method(&c.inv)
	} else {
		s, meth, err = cs.find(t, c)
	}
	switch {
	case err != nil:
		return cs.failed(t, c, nil, cs.forwarding.records(t), err)
	case t.readOnly && !meth.readOnly:
		return actor.Payload{}, errReadOnly
	case m != nil && m.open != nil && !meth.reentrant && (t.outermost.call.op != opAll || m.open != openTurn(t.outermost)):
		return actor.Payload{}, refuse(abi.CallNotReentrant, "a turn of %s %s is waiting for this call, and the method %s is not declared reentrant", c.inv.Key.Type, c.inv.Key.ID, c.inv.Method)
	case m == nil && s.lane == LaneStateless: // it is of no chain, and waits for none
		c.inv.Key.App, c.inv.Key.Type = s.deployment.App, s.deployment.Type
		m, s = &enlisted{served: s, row: &residency.Row{State: residency.NoState}}, nil
	case m == nil:
		c.atomic = c.atomic || meth.atomic
		if m, err = cs.acquire(t, c, s); m == nil && err == nil {
			return cs.forwarding.call(t, c, meth.readOnly)
		}
	}
	if err == nil && s != nil {
		m.served = s
		err = cs.forwarding.moved(cs.begin(c.ctx, t, m))
	}
	if errors.Is(err, actor.ErrNotOwner) {
		err = cs.apart(ch, c)
	}
	recorded := !meth.readOnly && (m == nil || m.a != nil) && cs.forwarding.records(t)
	if err != nil {
		return cs.failed(t, c, nil, recorded, err)
	}
	if recorded {
		c.inv.IdempotencyKey, c.sum = ch.key(t.outermost.call), actor.PayloadSum(c.inv.Payload)
		if reply, ok, err := cs.forwarding.known(t, m, c); ok {
			return reply, err
		}
	}
	before, next := ch.savepoint(), cs.turns.table.revisions.Next
	reply, err := cs.nested(t, m, c, meth.readOnly)
	if err != nil {
		cs.reminders.unused(t.call.inv.Key.App, ch.rollBack(before, next))
		m.rev = next()
		return cs.failed(t, c, m, recorded, cs.forwarding.moved(err))
	}
	if ch.pruneUndo(t.undone, before.undo); recorded {
		err = ch.record(m, c, reply)
	}
	return reply, err
}

// find returns what serves a call of the turn t.
func (cs *chains) find(t *run, c *call) (s *served, m method, err error) {
	if s, m, err = cs.admission.find(c); err != nil {
		t.waiting(func() { s, m, err = cs.admission.findNew(c, err) })
	}
	return s, m, err
}

// failed is the outcome of a call that has failed here with err: what another run of the chain has
// got for it at another host, or else err. m is the actor if the failure is its guest's.
func (cs *chains) failed(t *run, c *call, m *enlisted, recorded bool, err error) (actor.Payload, error) {
	if !recorded || endsChain(err) {
		return actor.Payload{}, err
	}
	if c.inv.IdempotencyKey == "" {
		c.inv.IdempotencyKey = t.chain.key(t.outermost.call)
	}
	if reply, ok, err := cs.forwarding.knownOfFailed(t, c); ok {
		return reply, err
	}
	if m != nil {
		m.failed = true
	}
	return actor.Payload{}, err
}

// join gives a turn a chain, with its first call.
func (cs *chains) join(t *run) {
	if t.chain == nil {
		t.chain, t.outermost = &calls{fuelLimit: t.Fuel().Limit}, t
		if t.call.op == opAll {
			t.chain.fuelLimit = t.served.limits.Fuel
		}
		if t.call.stats.chain == nil {
			t.call.stats.chain = &chainRecord{}
		}
		record := t.call.stats.chain
		record.begin()
		t.chain.Chain = cs.graph.Begin(record.born)
		record.born = t.chain.Born()
		t.chain.members = []*enlisted{{a: t.activation, call: t.call, served: t.served, open: t}}
		t.chain.Hold(t.activation)
		t.activation.chain = t.chain
		if o := t.call.inv.Origin; o != nil {
			t.chain.setName(o.Chain)
		}
	}
}

// acquire enlists an actor; nil if it is to be called at the host that holds it.
func (cs *chains) acquire(t *run, c *call, s *served) (*enlisted, error) {
	for tries := 0; ; tries++ {
		m, err := cs.enlist(t, c, s)
		if !errors.Is(err, actor.ErrNotOwner) {
			return m, err
		}
		if first := t.chain.members[0]; cs.forwarding.peers == nil || !cs.turns.ownership.holdsStill(first.a.key, first.served) {
			return nil, cs.apart(t.chain, c)
		}
		if here, err := cs.forwarding.here(t, c, tries); !here {
			return nil, err
		}
	}
}

// enlist gives a chain an actor, when its turn in the actor's mailbox comes.
func (cs *chains) enlist(t *run, c *call, s *served) (*enlisted, error) {
	ch := t.chain
	switch {
	case s.lane == LaneStateless: // it has nothing to be enlisted
		return nil, refuse(abi.CallNotAtomic, "actors of %s cannot be in one transaction with others: the type is placed stateless", c.inv.Key.Type)
	case len(ch.members) == maxChainActors:
		return nil, refuse(abi.CallTooMany, "a turn and what it calls have at most %d actors", maxChainActors)
	}
	c.inv.Key.App, c.inv.Key.Type = s.deployment.App, s.deployment.Type
	c.answered, c.result = make(chan struct{}, 1), result{} // without the refusal of an earlier try
	a, mine, err := cs.admission.enqueue(c, s, true)
	if err == nil && !mine {
		t.waiting(func() { err = cs.await(ch, a, c) })
	}
	if err != nil {
		cs.admission.memory.answered(c)
		c.charged = 0 // it may be tried again
		return nil, err
	}
	ch.Hold(a)
	m := &enlisted{a: a, call: c}
	ch.members = append(ch.members, m)
	select {
	case <-ch.Doomed(): // at the same moment
		return nil, errDeadlock(ch)
	default:
		return m, nil
	}
}

// apart is the error of a call of an actor that this host does not hold. If it does not hold
// the chain's first actor any more either, both may be together at another host by now: the
// chain goes there.
func (cs *chains) apart(ch *calls, c *call) error {
	first := ch.members[0]
	if !cs.turns.ownership.holdsStill(first.a.key, first.served) {
		return errHandedOver
	}
	return refuse(abi.CallNotAtomic, "%s %s is not held by the host that holds %s %s; see co_locate in docs/calls.md",
		c.inv.Key.Type, c.inv.Key.ID, first.a.key.Type, first.a.key.ID)
}

// await waits until the call has the place of a's turn.
func (cs *chains) await(ch *calls, a *activation, c *call) error {
	ch.Wait(a)
	var err error
	if ch.name != "" && cs.graph.Holds(ch.name, a) { // it waits for this call, at another host
		err = notReentrant(&a.key)
	} else {
		err = cs.awaitTurn(ch, c)
	}
	if err == nil {
		return c.result.err
	}
	ch.GiveUp()
	if a.shard.withdraw(c) {
		return err
	}
	<-c.answered // at the same moment
	return c.result.err
}

// awaitTurn waits until the call is answered, which nil says, or is not to be.
func (cs *chains) awaitTurn(ch *calls, c *call) error {
	select {
	case <-c.answered:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	case <-ch.Doomed():
		return errDeadlock(ch)
	}
}

// errDeadlock is the error of a chain that was doomed.
func errDeadlock(ch *calls) error {
	var circle []string
	for _, a := range ch.Circle() {
		circle = append(circle, a.key.Type+" "+a.key.ID)
	}
	return fmt.Errorf("%w: each of these is held by one that waits for the next: %s", actor.ErrDeadlock, strings.Join(circle, ", "))
}

// endsChain reports whether an error ends the whole chain: it says nothing of the call that
// met it.
func endsChain(err error) bool {
	for _, is := range []error{errDropped, errMoved, errRecorded, errChained, actor.ErrDeadlock, actor.ErrStopping, turn.ErrPanicked} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.Is(err, errHandedOver)
}

// resultOf is what the caller gets of a call that failed with err; an error ends the caller,
// whose context is ctx.
func resultOf(ctx context.Context, c *call, err error) (*abi.Result, error) {
	if over := ctx.Err(); over != nil {
		return nil, ofTurn(over)
	}
	var decided *decidedError
	switch {
	case !errors.As(err, &decided):
	case decided.result == nil:
		return nil, decided.err
	default:
		return decided.result, nil
	}
	if endsChain(err) {
		return nil, err
	}
	return failedResult(c, err), nil
}

// begin reads an actor that a chain has just been given, for a call of the turn t.
func (cs *chains) begin(ctx context.Context, t *run, m *enlisted) (err error) {
	if m.a.warmFor(m.served) {
		return cs.read(ctx, m)
	}
	t.waiting(func() { err = cs.read(ctx, m) })
	return err
}

// read is begin, which may wait for commits and for the store.
func (cs *chains) read(ctx context.Context, m *enlisted) error {
	a, s, ts := m.a, m.served, cs.turns
	if s != a.serving || s.lane == LaneLocked {
		if dropped, err := a.awaitCommits(ctx); err != nil {
			return err
		} else if dropped {
			return errDropped
		}
		a.serving, a.checked = s, unchecked
	}
	if err := ts.ownership.mayBegin(a, s, time.Now()); err != nil {
		return err
	}
	if err := ts.checkMemory(a.key.App); err != nil {
		return err
	}
	l, err := ts.load(ctx, a, s)
	switch {
	case err != nil:
		return err
	case l == nil:
		return errDropped
	case l.Damage != nil:
		return l.Damage
	}
	if changed, err := ts.deployments.fits(ctx, l, s); err != nil {
		return err
	} else if changed {
		return errMoved
	}
	m.row, m.rev = l, a.rev
	return nil
}

// nested runs a method of an actor that a chain has, for the turn by, on what the chain has
// made of it, or on what an open turn of the actor has made of it by now. The chain, or that turn,
// keeps what the turn leaves if there is no error.
func (cs *chains) nested(by *run, m *enlisted, c *call, readOnly bool) (actor.Payload, error) {
	s, ch, ts, open := m.served, by.chain, cs.turns, m.open
	outer, _ := open.(*run) // nil: none is open
	stateless := m.a == nil
	if !stateless && m.a.dropped() {
		return actor.Payload{}, errDropped
	}
	row, rev, effects := m.row, m.rev, m.effects
	if outer != nil {
		var err error
		if row, err = outer.soFar(); err != nil {
			return actor.Payload{}, err
		}
		effects = outer.SideEffects()
		c.inv.Firing, c.fired = outer.call.inv.Firing, outer.call.fired // which it sees taken
	}
	if readOnly || stateless || outer != nil { // its caches belong to no other turn
		rev = ts.table.revisions.Next()
	}
	in, err := m.a.nestedInstance(c.ctx, by.waiting, s, outer != nil)
	if err != nil {
		return actor.Payload{}, err
	}
	giveBack := func(err error) {
		if s.dedicated && outer != nil {
			in.Discard()
		} else {
			m.a.giveBack(in, err, time.Now())
		}
	}
	t := ts.runs.get(c)
	defer ts.runs.put(t)
	t.caller = by
	c.stats.began = time.Now()
	ctx := c.begin(c.stats.began, s.limits.TurnDeadline)
	if deadline, ok := c.ctx.Deadline(); ok {
		ctx.deadline = deadline
	}
	defer ctx.stop()
	if err := t.enter(ctx); err != nil {
		giveBack(nil)
		return actor.Payload{}, err
	}
	if !stateless && !ts.ownership.stillHeld(m.a) {
		giveBack(nil)
		return actor.Payload{}, actor.ErrNotOwner
	}
	t.activation, t.began, t.chain, t.outermost, t.depth = m.a, by.began, ch, by.outermost, by.depth+1
	if by.call.op != opAll {
		t.from = by.call.inv.Key
	}
	t.prepare(s, row, rev, readOnly, by.now)
	t.GoOnFrom(&effects)
	if by.call.op != opAll {
		t.limitFuel()
	}
	m.open, t.undone = t, len(ch.undo)
	err = t.on(ctx, in, s.migration(row))
	m.open = open
	ch.ended(t)
	giveBack(err)
	ch.fuel += t.Fuel().Used
	if by.call.op == opAll {
		ch.ofAll += t.Fuel().Used
	}
	if err == nil {
		err = c.ctx.Err()
	}
	if err != nil {
		return actor.Payload{}, err
	}
	ch.tokens = append(ch.tokens, t.Tokens()...)
	after := t.SideEffects()
	done, err := t.seal(s, row)
	if err != nil {
		return actor.Payload{}, err
	}
	if readOnly || stateless {
		return done.reply.Payload, nil
	}
	ch.undo = append(ch.undo, undo{of: m, open: open, row: row, changed: m.changed, effects: effects})
	if outer != nil {
		outer.GoOnFrom(&after)
		if done.changed {
			outer.Replace(done.state, done.rev)
		}
		return done.reply.Payload, nil
	}
	m.effects = after
	if done.changed {
		m.row, m.rev, m.changed = row.With(done.state, true, s.deployment.Generation, s.stateSchema), done.rev, true
	}
	return done.reply.Payload, nil
}

// all runs the calls that t asks for, in order. Before the first one runs, the chain has all their
// actors. An error is that of one call, an [*actor.CallError], or ends the chain.
func (cs *chains) all(t *run) ([]actor.Payload, error) {
	inv := &t.call.inv
	calls := make([]*call, len(t.call.list))
	failed := func(i int, err error) error {
		var decided *decidedError
		if errors.As(err, &decided) {
			err = decided.err
		}
		switch {
		case decided != nil && decided.result == nil:
			return err
		case t.Context().Err() != nil:
			cs.record(t).late(calls[i].waits())
			return ofTurn(t.Context().Err())
		case endsChain(err):
			return err
		}
		one := &t.call.list[i]
		return &actor.CallError{Index: i, Key: one.Key, Method: one.Method, Err: err}
	}
	cs.join(t)
	for i := range calls {
		one := &t.call.list[i]
		calls[i] = &call{request: request{
			ctx: t.Context(), op: opEnlist, cause: actor.CauseCall, arrived: time.Now(), atomic: true,
			inv: actor.Invocation{ID: inv.ID, Key: one.Key, Method: one.Method, Payload: one.Payload, Trace: inv.Trace.Child()},
		}}
		if err := cs.ready(t, calls[i]); err != nil {
			return nil, failed(i, err)
		}
	}
	replies := make([]actor.Payload, len(calls))
	for i, c := range calls {
		var err error
		place := cs.record(t).began(&c.inv, t.depth+1)
		replies[i], err = cs.run(t, c)
		if cs.ended(t, c, c.stats.runs, err); err != nil {
			cs.record(t).failed(place, "ended")
			return nil, failed(i, err)
		}
	}
	return replies, nil
}

// ready gives the chain the actor of a call that is to run later, if the call can be run.
func (cs *chains) ready(t *run, c *call) error {
	m := t.chain.member(c.inv.Key)
	if m != nil {
		meth, err := m.served.method(&c.inv)
		if err == nil && meth.private {
			err = errPrivate(&c.inv)
		}
		return err
	}
	s, meth, err := cs.find(t, c)
	if err != nil {
		return err
	}
	if meth.private {
		return errPrivate(&c.inv)
	}
	if m, err = cs.acquire(t, c, s); err == nil {
		m.served = s
		err = cs.forwarding.moved(cs.begin(c.ctx, t, m))
	}
	var apart *actor.GuestError // no guest has run
	if errors.As(err, &apart) && apart.Code == abi.CallNotAtomic {
		err = &actor.ReasonError{Condition: actor.ErrNotAtomic, Reason: apart.Message}
	}
	return err
}

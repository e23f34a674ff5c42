package nested

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/callback"
	"github.com/greenroom-run/greenroom/host/chain"
	"github.com/greenroom-run/greenroom/host/children"
	"github.com/greenroom-run/greenroom/host/lane"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/turn"
)

const (
	// maxChainDepth is how many turns may be nested in one, and maxChainActors how many
	// actors a chain may have.
	maxChainDepth, maxChainActors = 32, 64
)

// Chains run what guests call.
type Chains struct {
	graph chain.Graph[*activation.Activation]
	// Waits are the calls of other hosts that chains wait for.
	Waits *callback.Waits
	// Turns run the outermost turns. They are set before the first call.
	Turns       *lane.Turns
	admission   Admission
	deployments *serving.Deployments
	memory      *call.Memory
	answering   *call.Answering
	reminders   *lane.Reminders
	logger      *slog.Logger
	forwarding  forwarding
	callbacks   callbacks
}

// New returns chains without turns, which are to be given [Chains.Turns].
func New(cfg Config) *Chains {
	cs := &Chains{
		admission: cfg.Admission, deployments: cfg.Deployments, memory: cfg.Memory, answering: cfg.Answering, reminders: cfg.Reminders, logger: cfg.Logger,
		forwarding: forwarding{cfg.Peers, cfg.Recordings, cfg.NewName},
	}
	cs.Waits = callback.New(&cs.graph, cfg.NewName())
	cs.callbacks = callbacks{
		forwarding: &cs.forwarding, waits: cs.Waits, answering: cfg.Answering, table: cfg.Table, reminders: cfg.Reminders, run: cs.run, ended: cs.ended,
	}
	return cs
}

// Held returns the actors that chains of several actors have now.
func (cs *Chains) Held() []*activation.Activation { return cs.graph.Held() }

// Call runs a turn that the turn t calls. An error ends t's guest, and those that called it.
func (cs *Chains) Call(t *lane.Run, msg *abi.Message) (*abi.Result, abi.Code, error) {
	c := newCalled(t, actor.Call{
		Key: actor.Key{App: t.Of.Inv.Key.App, Type: msg.Type, ID: msg.ID}, Method: msg.Method,
		Payload: actor.Payload{ContentType: msg.ContentType, Data: msg.Payload},
	})
	c.Atomic = msg.Flags&abi.MessageAtomic != 0
	if msg.LimitMillis > 0 {
		ctx, cancel := context.WithTimeout(c.Ctx, time.Duration(msg.LimitMillis)*time.Millisecond)
		defer cancel()
		c.Ctx = ctx
	}
	if t.Activation != nil {
		cs.join(t)
	}
	place := recordOf(t).Began(&c.Inv, t.Depth+1)
	reply, err := cs.run(t, c)
	if err != nil && t.Context().Err() != nil {
		recordOf(t).Late(waits(c))
	}
	cs.ended(t, c, err)
	t.LimitFuel()
	switch {
	case err == nil:
		r := &abi.Result{ContentType: reply.ContentType, Payload: reply.Data}
		if c.Elsewhere {
			r.Flags = abi.ResultCommitted
		}
		return r, 0, nil
	case errors.Is(err, call.ErrReadOnly):
		recordOf(t).Failed(place, "read_only")
		return nil, abi.CodeReadOnly, nil
	}
	r, err := resultOf(t.Context(), c, err)
	code := "ended"
	if err == nil {
		code = r.Code
		if code == abi.CallDeadline && msg.LimitMillis > 0 {
			r.Message += fmt.Sprintf("; the timeout of the call is %v", time.Duration(msg.LimitMillis)*time.Millisecond)
		}
	} else if why := (*actor.Condition)(nil); errors.As(err, &why) {
		code = string(why.Kind())
	}
	recordOf(t).Failed(place, code)
	return r, 0, err
}

// ended reports the end of a called turn.
func (cs *Chains) ended(t *lane.Run, c *call.Call, err error) {
	end := call.TurnEnd{
		Key: c.Inv.Key, Method: c.Inv.Method, InvocationID: c.Inv.ID, Trace: c.Inv.Trace, Depth: t.Depth + 1,
		Lane: serving.LaneCalled, Runs: c.Stats.Runs - earlierRuns(t), Fuel: c.Stats.Fuel, Duration: time.Since(c.Arrived),
	}
	if t.Of.Op != call.OpAll {
		end.Caller = t.Of.Inv.Key
	}
	end.QueueWait = end.Duration
	if !c.Stats.Began.IsZero() {
		end.QueueWait = c.Stats.Began.Sub(c.Arrived)
	}
	decided := (*decidedError)(nil)
	if errors.As(err, &decided) {
		err = decided.err
	}
	switch {
	case err == nil:
	case errors.Is(err, call.ErrChained):
		return
	case errors.Is(err, call.ErrDropped), errors.Is(err, call.ErrMoved), errors.Is(err, call.ErrRecorded):
		err = actor.ErrStale // of the chain, which runs again
	case errors.Is(err, call.ErrReadOnly):
		err = actor.ErrNotReadOnly
	case errors.Is(err, actor.ErrTypeNotFound), errors.Is(err, actor.ErrMethodNotFound):
		end.Lane = serving.LaneNone
	}
	if err != nil {
		end.Err = &actor.TurnError{Key: c.Inv.Key, Method: c.Inv.Method, Err: err}
	}
	if trap := (*actor.TrapError)(nil); decided == nil && errors.As(err, &trap) { // of this host, and its caller gets no stack
		cs.logger.LogAttrs(context.Background(), slog.LevelWarn, "called turn trapped", c.Inv.Trace.AppendLog([]slog.Attr{
			slog.String("app", c.Inv.Key.App), slog.String("actor_type", c.Inv.Key.Type), slog.String("actor_id", c.Inv.Key.ID),
			slog.String("method", c.Inv.Method), slog.String("invocation", c.Inv.ID), slog.String("trap", trap.Message), slog.String("stack", trap.Stack),
		})...)
	}
	cs.answering.TurnEnd(end)
}

// run runs a called turn.
func (cs *Chains) run(t *lane.Run, c *call.Call) (actor.Payload, error) {
	c.Pool = t.Of.Pool
	if err := errors.Join(cs.related(t, c), actor.ValidateName("method", c.Inv.Method)); err != nil {
		return actor.Payload{}, err
	}
	switch {
	case t.Of.Op == call.OpLeave: // which would wait for an actor that leaves as well
		return actor.Payload{}, refuse(abi.CallNotAtomic, "the hook of an actor that leaves cannot call others; send a message")
	case t.Chain != nil:
	case t.Served.Lane == serving.LaneStateless:
		return actor.Payload{}, refuse(abi.CallNotAtomic, "turns of %s cannot call others in one transaction: the type is placed stateless", t.Of.Inv.Key.Type)
	case t.Served.Lane == serving.LaneLocked && t.Of.Stats.Sent:
		t.Served.CallsOthers(t.Of.Inv.Method)
		return actor.Payload{}, refuse(abi.CallNotAtomic, "the turn has sent a request before its first call, while it held the row of %s, which is placed any; call the method again", t.Of.Inv.Key.Type)
	default: // a reader that has a copy gets no chain: the actor's holder runs it
		return actor.Payload{}, call.ErrChained
	}
	if t.Depth >= maxChainDepth || c.Inv.Origin != nil && c.Inv.Origin.Depth > maxChainDepth {
		return actor.Payload{}, refuse(abi.CallTooDeep, "calls are nested at most %d deep", maxChainDepth)
	}
	ch := t.Chain
	m := ch.Member(c.Inv.Key)
	s, meth, err := cs.find(t, m, c)
	if err == nil && s != nil {
		err = cs.pausing(c, s)
	}
	switch {
	case err != nil:
		return cs.failed(t, c, nil, cs.forwarding.records(t), err)
	case t.ReadOnly && !meth.ReadOnly:
		return actor.Payload{}, call.ErrReadOnly
	case m == nil && ch.Spawned(c.Inv.Key):
		return actor.Payload{}, refuse(abi.CallNotAtomic, "%s %s was spawned in this transaction, and takes calls once that is committed; send it a message", c.Inv.Key.Type, c.Inv.Key.ID)
	case m != nil && m.Open != nil && !meth.Reentrant && (t.Outermost.Of.Op != call.OpAll || m.Open != activation.OpenTurn(t.Outermost)):
		return actor.Payload{}, refuse(abi.CallNotReentrant, "a turn of %s %s is waiting for this call, and the method %s is not declared reentrant", c.Inv.Key.Type, c.Inv.Key.ID, c.Inv.Method)
	case unkept(c, s):
		return actor.Payload{}, children.ErrUnrelated
	case m == nil && s.Lane == serving.LaneStateless: // it is of no chain, and waits for none
		c.Inv.Key.App, c.Inv.Key.Type = s.Deployment.App, s.Deployment.Type
		m, s = &activation.Enlisted{Served: s, Row: &residency.Row{State: residency.NoState}}, nil
	case m == nil:
		c.Atomic = c.Atomic || meth.Atomic
		var outer bool
		if c.Inv.Key.SharesMailbox() {
			err = cs.withParent(t, c)
		}
		if err == nil {
			outer, err = cs.callbacks.heldByOuter(t, c)
		}
		if !outer && err == nil {
			m, err = cs.acquire(t, c, s)
		}
		if m == nil && err == nil {
			return cs.callbacks.elsewhere(t, c, meth.ReadOnly)
		}
	}
	if err == nil && s != nil {
		m.Served = s
		err = cs.forwarding.moved(cs.begin(c.Ctx, t, m))
	}
	if errors.Is(err, actor.ErrNotOwner) {
		err = cs.apart(ch, c)
	}
	recorded := !meth.ReadOnly && !c.Inv.Key.IsAnonymous() && (m == nil || m.Activation != nil) && cs.forwarding.records(t)
	if err != nil {
		return cs.failed(t, c, nil, recorded, err)
	}
	if recorded {
		nameCall(t, c)
		c.Sum = actor.PayloadSum(c.Inv.Payload)
		if reply, ok, err := cs.forwarding.known(t, m, c); ok {
			return cs.callbacks.recorded(t, c, reply, err)
		}
	}
	if err := admit(t, m, c); err != nil {
		return cs.failed(t, c, nil, recorded, err)
	}
	before, next := ch.Savepoint(), cs.Turns.Table.Revisions.Next
	reply, err := cs.nested(t, m, c, meth.ReadOnly)
	if err != nil {
		cs.reminders.Unused(t.Of.Inv.Key.App, ch.RollBack(before, next))
		m.Rev = next()
		return cs.failed(t, c, m, recorded, cs.forwarding.moved(err))
	}
	if ch.PruneUndo(t.Undone, before.Undo); recorded {
		made(t, c, false)
		if err = errors.Join(c.CheckMark(), ch.Record(m, c, reply)); err != nil {
			err = &decidedError{err: err}
		}
	}
	return reply, err
}

// admit admits a call of the turn t by the rules of the type of m.
func admit(t *lane.Run, m *activation.Enlisted, c *call.Call) error {
	ruled := lane.RuledBy(c, time.Now())
	if t.Of.Op != call.OpAll {
		return m.Served.Rules.Admit(c.Ctx, ruled)
	}
	record := recordOf(t)
	ruled.Admitted = record.IsAdmitted()
	err := m.Served.Rules.Admit(c.Ctx, ruled)
	if err == nil {
		record.Admitted()
	}
	return err
}

// find returns what serves a call of the turn t. s is nil if the chain has read the actor, which is m
// then; the method is that of the type under which it was read.
func (cs *Chains) find(t *lane.Run, m *activation.Enlisted, c *call.Call) (s *serving.Type, meth serving.Method, err error) {
	if m != nil && m.Seen() {
		meth, err = m.Served.Method(&c.Inv)
		return nil, meth, err
	}
	if s, meth, err = cs.admission.Find(c); err != nil {
		t.Waiting(func() { s, meth, err = cs.admission.FindNew(c, err) })
	}
	return s, meth, err
}

// pausing reports a paused type, before the chain waits for its actor: what that does may wait for the end of the
// pause.
func (cs *Chains) pausing(c *call.Call, s *serving.Type) error {
	ruled := lane.RuledBy(c, time.Now())
	return s.Rules.Pausing(c.Ctx, &ruled)
}

// failed returns what the caller gets for a call that has failed here with err: the reply that another
// run of the chain got from another host, or else err. m is the actor if its guest has failed.
func (cs *Chains) failed(t *lane.Run, c *call.Call, m *activation.Enlisted, recorded bool, err error) (actor.Payload, error) {
	if !recorded || endsChain(err) {
		return actor.Payload{}, err
	}
	nameCall(t, c)
	if reply, ok, err := cs.forwarding.knownOfFailed(t, c); ok {
		return cs.callbacks.recorded(t, c, reply, err)
	}
	if left := call.CheckFailure(c, err); left != nil {
		return actor.Payload{}, &decidedError{err: left}
	}
	if !call.Passing(err) {
		made(t, c, false)
	}
	if m != nil {
		m.Failed = true
	}
	return actor.Payload{}, err
}

// join gives a turn a chain, with its first call.
func (cs *Chains) join(t *lane.Run) {
	if t.Chain == nil {
		t.Chain, t.Outermost = &activation.Chain{FuelLimit: t.Fuel().Limit}, t
		if t.Of.Op == call.OpAll {
			t.Chain.FuelLimit = t.Served.Limits.Fuel
		}
		if t.Of.Stats.Chain == nil {
			t.Of.Stats.Chain = &call.ChainRecord{}
		}
		record := t.Of.Stats.Chain
		record.Begin()
		t.Chain.Chain = cs.graph.Begin(record.Born)
		record.Born = t.Chain.Born()
		t.Chain.Members = []*activation.Enlisted{{Activation: t.Activation, Call: t.Of, Served: t.Served, Open: t}}
		t.Chain.Hold(t.Activation)
		t.Activation.Chain = t.Chain
		if o := t.Of.Inv.Origin; o != nil {
			t.Chain.NameAs(o.Chain)
		}
	}
}

// acquire enlists an actor; nil if it is to be called at the host that holds it.
func (cs *Chains) acquire(t *lane.Run, c *call.Call, s *serving.Type) (*activation.Enlisted, error) {
	for tries := 0; ; tries++ {
		m, err := cs.enlist(t, c, s)
		if !errors.Is(err, actor.ErrNotOwner) {
			return m, err
		}
		// A child is one of its parent here, and not of the actor at another host.
		if first := t.Chain.Members[0]; cs.forwarding.peers == nil || t.Of.Inv.Key.IsAnonymous() || !cs.Turns.Ownership.HoldsStill(first.Activation.Key, first.Served) {
			return nil, cs.apart(t.Chain, c)
		}
		if here, err := cs.forwarding.here(t, c, tries); !here {
			return nil, err
		}
	}
}

// enlist gives a chain an actor, when its turn in the actor's mailbox comes.
func (cs *Chains) enlist(t *lane.Run, c *call.Call, s *serving.Type) (*activation.Enlisted, error) {
	ch := t.Chain
	switch {
	case s.Lane == serving.LaneStateless: // it has nothing to be enlisted
		return nil, refuse(abi.CallNotAtomic, "actors of %s cannot be in one transaction with others: the type is placed stateless", c.Inv.Key.Type)
	case len(ch.Members) == maxChainActors:
		return nil, refuse(abi.CallTooMany, "a turn and what it calls have at most %d actors", maxChainActors)
	}
	c.Inv.Key.App, c.Inv.Key.Type = s.Deployment.App, s.Deployment.Type
	c.Answered, c.Result = make(chan struct{}, 1), call.Result{} // without the refusal of an earlier try
	a, mine, err := cs.admission.Enqueue(c, s, true)
	if err == nil && !mine {
		t.Waiting(func() { err = cs.await(ch, a, c) })
	}
	if err != nil {
		cs.memory.Answered(c)
		c.Charged = 0 // it may be tried again
		return nil, err
	}
	ch.Hold(a)
	m := &activation.Enlisted{Activation: a, Call: c}
	ch.Members = append(ch.Members, m)
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
func (cs *Chains) apart(ch *activation.Chain, c *call.Call) error {
	first := ch.Members[0]
	if !cs.Turns.Ownership.HoldsStill(first.Activation.Key, first.Served) {
		return call.ErrHandedOver
	}
	return refuse(abi.CallNotAtomic, "%s %s is not held by the host that holds %s %s; see co_locate in docs/calls.md",
		c.Inv.Key.Type, c.Inv.Key.ID, first.Activation.Key.Type, first.Activation.Key.ID)
}

// await waits until the call has the place of a's turn.
func (cs *Chains) await(ch *activation.Chain, a *activation.Activation, c *call.Call) error {
	ch.Wait(a)
	var err error
	if ch.Name != "" && cs.callbacks.waits.Circle(ch.Name, a) { // it waits for this call, by way of a host of an earlier version
		err = NotReentrant(&a.Key)
	} else {
		err = cs.awaitTurn(ch, c)
	}
	if err == nil {
		return c.Result.Err
	}
	ch.GiveUp()
	if a.Shard.Withdraw(c) {
		return err
	}
	<-c.Answered // at the same moment
	return c.Result.Err
}

// awaitTurn waits until the call is answered, which nil says, or is not to be.
func (cs *Chains) awaitTurn(ch *activation.Chain, c *call.Call) error {
	select {
	case <-c.Answered:
		return nil
	case <-c.Ctx.Done():
		return c.Ctx.Err()
	case <-ch.Doomed():
		return errDeadlock(ch)
	}
}

// errDeadlock is the error of a chain that was doomed.
func errDeadlock(ch *activation.Chain) error {
	var circle []string
	for _, a := range ch.Circle() {
		circle = append(circle, a.Key.Type+" "+a.Key.ID)
	}
	return fmt.Errorf("%w: each of these is held by one that waits for the next: %s", actor.ErrDeadlock, strings.Join(circle, ", "))
}

// resultOf is what the caller gets of a call that failed with err; an error ends the caller,
// whose context is ctx.
func resultOf(ctx context.Context, c *call.Call, err error) (*abi.Result, error) {
	if over := ctx.Err(); over != nil {
		return nil, call.OfTurn(over)
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
func (cs *Chains) begin(ctx context.Context, t *lane.Run, m *activation.Enlisted) (err error) {
	a := m.Activation
	if a.WarmFor(m.Served) {
		m.Row, err = cs.Turns.Enlist(ctx, a, m.Served)
	} else {
		t.Waiting(func() {
			if err = t.Chain.AwaitSpawn(ctx, a.Key); err == nil {
				m.Row, err = cs.Turns.Enlist(ctx, a, m.Served)
			}
		})
	}
	m.Rev = a.Rev
	return err
}

// nested runs a method of an actor that a chain has, for the turn by, on what the chain has
// made of it, or on what an open turn of the actor has made of it by now. The chain, or that turn,
// keeps what the turn leaves if there is no error.
func (cs *Chains) nested(by *lane.Run, m *activation.Enlisted, c *call.Call, readOnly bool) (actor.Payload, error) {
	s, ch, ts, open := m.Served, by.Chain, cs.Turns, m.Open
	outer, _ := open.(*lane.Run) // nil: none is open
	stateless := m.Activation == nil
	if !stateless && m.Activation.Dropped() {
		return actor.Payload{}, call.ErrDropped
	}
	row, rev, effects := m.Row, m.Rev, m.Effects
	if outer != nil {
		var err error
		if row, err = outer.SoFar(); err != nil {
			return actor.Payload{}, err
		}
		effects = outer.SideEffects()
		c.Inv.Firing, c.Fired = outer.Of.Inv.Firing, outer.Of.Fired // which it sees taken
	}
	if err := accepts(s, c, row, &effects.Life); err != nil {
		return actor.Payload{}, err
	}
	if readOnly || stateless || outer != nil { // its caches belong to no other turn
		rev = ts.Table.Revisions.Next()
	}
	in, err := m.Activation.NestedInstance(c.Ctx, by.Waiting, s, outer != nil)
	if err != nil {
		return actor.Payload{}, err
	}
	giveBack := func(err error) {
		if s.Dedicated && outer != nil {
			in.Discard()
		} else {
			m.Activation.GiveBack(in, err, time.Now())
		}
	}
	t := ts.Runs.Get(c)
	defer ts.Runs.Put(t)
	t.Caller = by
	c.Stats.Began = time.Now()
	ctx := c.Begin(c.Stats.Began, s.Limits.TurnDeadline)
	if deadline, ok := c.Ctx.Deadline(); ok {
		ctx.SetDeadline(deadline)
	}
	defer ctx.Stop()
	if err := t.Enter(ctx); err != nil {
		giveBack(nil)
		return actor.Payload{}, err
	}
	if !stateless && !ts.Ownership.StillHeld(m.Activation) {
		giveBack(nil)
		return actor.Payload{}, actor.ErrNotOwner
	}
	t.Activation, t.Began, t.Chain, t.Outermost = m.Activation, by.Began, ch, by.Outermost
	if c.Inv.Origin == nil { // otherwise it is a callback
		t.Depth = by.Depth + 1
		if by.Of.Op != call.OpAll {
			t.From = by.Of.Inv.Key
		}
	}
	t.Awaited = outer != nil && outer.Of.Op != call.OpAll
	t.Ready(s, row, rev, readOnly, by.Moment)
	t.GoOnFrom(&effects)
	t.ShareFuel()
	m.Open, t.Undone = t, len(ch.Undo)
	err = t.On(ctx, in)
	m.Open = open
	ch.Ended(t)
	giveBack(err)
	by.Of.Logged = by.Of.Logged || c.Logged
	ch.Fuel += t.Fuel().Used
	by.Called(t.Fuel().Used + t.Below())
	if by.Of.Op == call.OpAll {
		ch.OfAll += t.Fuel().Used
	}
	if err == nil {
		err = c.Ctx.Err()
	}
	if err != nil {
		return actor.Payload{}, err
	}
	ch.Tokens = append(ch.Tokens, t.Tokens()...)
	after := t.SideEffects()
	done, err := t.Close(s, row)
	if err != nil {
		return actor.Payload{}, err
	}
	switch {
	case stateless: // what it has sent is the caller's, and is dropped with the caller's turn
		by.Adopt(&done.Reminders)
		return done.Reply.Payload, nil
	case readOnly:
		return done.Reply.Payload, nil
	}
	ch.Undo = append(ch.Undo, activation.Undo{Of: m, Open: open, Row: row, Changed: m.Changed, Effects: effects})
	if outer != nil {
		outer.GoOnFrom(&after)
		if done.Changed {
			outer.Replace(done.State, done.Rev)
		}
		return done.Reply.Payload, nil
	}
	m.Effects = after
	if done.Changed {
		m.Row, m.Rev, m.Changed = row.With(done.State, !after.Life.PassedAway, s.Deployment.Generation, s.StateSchema), done.Rev, true
		if after.Life.MethodSet != nil {
			m.Row.MethodSet = *after.Life.MethodSet
		}
	}
	return done.Reply.Payload, nil
}

// accepts says why an actor does not take a called turn, on what the chain has made of it.
func accepts(s *serving.Type, c *call.Call, row *residency.Row, life *turn.Life) error {
	if life.PassedAway {
		return &actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it has passed away in this transaction"}
	}
	m, err := c.MethodOf(s)
	if err != nil {
		return err
	}
	return s.Accepts(&m, row, c.Cause, nil)
}

// All runs the calls that t asks for, in order. Before the first one runs, the chain has all their
// actors. An error is that of one call, an [*actor.CallError], or ends the chain.
func (cs *Chains) All(t *lane.Run) ([]actor.Payload, error) {
	calls := make([]*call.Call, len(t.Of.List))
	failed := func(i int, err error) error {
		var decided *decidedError
		if errors.As(err, &decided) {
			err = decided.err
		}
		switch {
		case decided != nil && decided.result == nil:
			return err
		case t.Context().Err() != nil:
			recordOf(t).Late(waits(calls[i]))
			return call.OfTurn(t.Context().Err())
		case endsChain(err):
			return err
		}
		one := &t.Of.List[i]
		return &actor.CallError{Index: i, Key: one.Key, Method: one.Method, Err: err}
	}
	cs.join(t)
	for i := range calls {
		calls[i] = newCalled(t, t.Of.List[i])
		ofChild(t, calls[i])
		calls[i].Atomic = true
		if err := cs.ready(t, calls[i]); err != nil {
			return nil, failed(i, err)
		}
	}
	replies := make([]actor.Payload, len(calls))
	for i, c := range calls {
		var err error
		place := recordOf(t).Began(&c.Inv, t.Depth+1)
		replies[i], err = cs.run(t, c)
		if cs.ended(t, c, err); err != nil {
			recordOf(t).Failed(place, "ended")
			return nil, failed(i, err)
		}
	}
	return replies, nil
}

// ready gives the chain the actor of a call that is to run later, if the call can be run.
func (cs *Chains) ready(t *lane.Run, c *call.Call) error {
	m := t.Chain.Member(c.Inv.Key)
	s, meth, err := cs.find(t, m, c)
	if err == nil && meth.Private && !c.Inv.Key.IsAnonymous() {
		err = call.PrivateError(&c.Inv)
	}
	if err == nil && s != nil {
		err = cs.pausing(c, s)
	}
	if err == nil && c.Inv.Key.IsAnonymous() {
		if err = cs.related(t, c); err == nil && unkept(c, s) {
			err = children.ErrUnrelated
		}
	}
	if err != nil || s == nil {
		return err
	}
	if m, err = cs.acquire(t, c, s); err == nil {
		m.Served = s
		err = cs.forwarding.moved(cs.begin(c.Ctx, t, m))
	}
	var apart *actor.GuestError // no guest has run
	if errors.As(err, &apart) && apart.Code == abi.CallNotAtomic {
		err = &actor.ReasonError{Condition: actor.ErrNotAtomic, Reason: apart.Message}
	}
	return err
}

// related says why a turn may not call an actor, if one of the two is a volatile child. It waits for the
// commit that makes the child.
func (cs *Chains) related(t *lane.Run, c *call.Call) error {
	by, to := t.Of.Inv.Key, c.Inv.Key
	if !by.IsAnonymous() && !to.IsAnonymous() {
		return c.Inv.Key.Validate()
	}
	families := &cs.Turns.Table.Children
	switch {
	case actor.ValidateName("actor type", to.Type) != nil || t.Of.Op == call.OpAll && t.Of.Inv.Message == nil || !families.Related(by, to):
		if by.IsAnonymous() {
			return refuse(abi.CallInvalid, "a volatile child calls its parent and other children of it; have the parent call others")
		}
		return children.ErrUnrelated
	case !to.IsAnonymous() || t.Chain == nil || t.Chain.Spawned(to):
		return nil
	}
	if _, lives := families.Parent(to, time.Now()); lives {
		return nil
	}
	var err error
	t.Waiting(func() { err = t.Chain.AwaitSpawn(c.Ctx, to) })
	if _, lives := families.Parent(to, time.Now()); err == nil && !lives {
		return children.ErrUnrelated
	}
	return err
}

// withParent gives the chain of a call of a child that shares its parent's mailbox the parent, which runs
// nothing else meanwhile.
func (cs *Chains) withParent(t *lane.Run, c *call.Call) error {
	parent, ok := cs.Turns.Table.Children.Parent(c.Inv.Key, time.Now())
	if !ok {
		return children.ErrUnrelated
	}
	if t.Chain.Member(parent) != nil {
		return nil
	}
	s, err := cs.deployments.Of(parent.App, parent.Type)
	if err != nil {
		return err
	}
	m, err := cs.enlist(t, newCalled(t, actor.Call{Key: parent, Method: c.Inv.Method}), s)
	if errors.Is(err, actor.ErrNotOwner) { // and its children go with it
		return fmt.Errorf("%w: its parent has moved", children.ErrUnrelated)
	}
	if err == nil {
		m.Served = s
	}
	return err
}

package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/engine"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/executor"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/overlay"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/timer"
	"github.com/greenroom-run/greenroom/host/turn"
)

// Run is one attempt of a call. It is used again; nothing in it survives Ready.
type Run struct {
	turn.Turn
	attempt
	slot executor.Slot
}

// attempt is what a run has besides the guest's side of it.
type attempt struct {
	by *Runs
	Of *call.Call
	// Activation is nil in lanes that run on committed state alone.
	Activation *activation.Activation
	// Served is the type under which the turn runs, and row the state on which it runs.
	Served   *serving.Type
	row      *residency.Row
	ReadOnly bool
	Moment   time.Time
	// Began is when the turn did; recorded is the answer of a call with a key that
	// is recorded already, found when something was to leave: then the guest is ended.
	Began    time.Time
	recorded *call.Result
	sent     bool // something has left, and the call was looked up before
	// Chain is the chain of the turn, and Outermost the turn that has called all others of it; both
	// are nil before the first call. Depth is in how many turns this one is nested, and From and
	// Caller are the actor and the turn that called it, if any did.
	Chain     *activation.Chain
	Outermost *Run
	instance  *instance.Instance
	Depth     int
	From      actor.Key
	Caller    *Run
	Undone    int // how much of Chain.Undo was there when the turn began
	// Awaited means that another turn of the actor waits for this one.
	Awaited bool
	// spawned counts the actors that the chain has spawned: of the outermost turn.
	spawned spawned
	// share is the fuel that the turn has with those that it calls, below what those have used. share is 0
	// for the outermost turn of all hosts, and if nothing bounds the fuel.
	share, below uint64
}

// Runs makes runs of guests.
type Runs struct {
	env       turn.Env
	ownership *activation.Ownership
	records   *Recordings
	reminders *Reminders
	// Call runs what a guest calls, and All what a turn of OpAll asks for.
	Call    func(t *Run, msg *abi.Message) (*abi.Result, abi.Code, error)
	All     func(t *Run) ([]actor.Payload, error)
	Spawner Spawner
	spare   sync.Pool // of *Run
}

// NewRuns returns Runs. Its user sets the other fields before the first turn.
func NewRuns(env turn.Env, o *activation.Ownership, records *Recordings, rems *Reminders) *Runs {
	rs := &Runs{env: env, ownership: o, records: records, reminders: rems}
	rs.spare.New = func() any { return new(Run) }
	return rs
}

// Get returns a Run for the attempts of c, one after the other. Put takes it back.
func (rs *Runs) Get(c *call.Call) *Run {
	t := rs.spare.Get().(*Run)
	t.by, t.Of = rs, c
	if o := c.Inv.Origin; o != nil {
		t.Depth, t.From, t.share = o.Depth, o.From, o.Fuel
	}
	return t
}

// Put ends the use of what Get returned.
func (rs *Runs) Put(t *Run) {
	t.slot.Leave(0) // if the turn has panicked
	t.Forget()
	t.attempt = attempt{}
	rs.spare.Put(t)
}

// Ready prepares t for one attempt on l.
func (t *Run) Ready(s *serving.Type, l *residency.Row, rev uint64, readOnly bool, now time.Time) {
	t.Served, t.row, t.ReadOnly, t.Moment, t.recorded, t.sent = s, l, readOnly, now, nil, false
	t.spawned = nil
	t.Of.Timers = nil
	inv, fuel := &t.Of.Inv, s.Limits.Fuel
	if o := inv.Origin; o != nil && o.Fuel > 0 && (fuel == 0 || o.Fuel < fuel) {
		fuel = o.Fuel
	}
	payloadBytes := s.Limits.PayloadBytes
	if t.Of.Op == call.OpAll { // its calls have those of their types
		fuel, payloadBytes = 0, actor.MaxCallBytes
	}
	t.Prepare(&t.by.env, &turn.Spec{
		Key: inv.Key, Method: inv.Method, InvocationID: inv.ID, Trace: inv.Trace, Run: t.Of.Stats.Runs + 1, Discarded: t.Of.Logged,
		Payload: inv.Payload, Now: now,
		ReadOnly: readOnly, Stateless: s.Lane == serving.LaneStateless,
		State: l.State, Revision: rev, Version: l.VisibleVersion(), Life: l.Life,
		StateBytes: s.Limits.StateBytes, PayloadBytes: payloadBytes, Fuel: fuel,
		StateSetting: s.Settings.State, PayloadSetting: s.Settings.Payload,
		Uses: s.Uses, Leaver: t,
		Methods: s, MethodSet: l.MethodSet, Awaited: t.Awaited, Spawner: t, ReminderBytes: s.ReminderBytes, Firing: inv.Firing, Fired: t.Of.Fired,
		Timer: t.Of.Timer.Firing(), Message: inv.Message, From: t.From, Caller: t,
	})
}

// Enter waits for a processor for the guest; On gives it back. A called turn has that of its
// caller. The error is that of ctx.
func (t *Run) Enter(ctx *call.Context) error {
	who := &t.Of.Inv.Key
	if t.Caller == nil || !t.slot.TakeFrom(ctx, &t.Caller.slot, who) {
		if err := t.slot.Enter(ctx, t.Of.Pool, who); err != nil {
			return err
		}
	}
	ctx.Slot.Store(&t.slot)
	return nil
}

// Waiting is f, which may wait for other turns: they may have the processor of this one meanwhile,
// and the place of its chain in the pool of instances.
func (t *Run) Waiting(f func()) {
	if t.slot.Pause() {
		defer t.slot.Resume()
	}
	if in := t.Outermost.instance; in.Lend() {
		defer in.Regain()
	}
	f()
}

// before returns what is to run before the turn's method. The calls of an OpAll turn run it for
// themselves.
func (t *Run) before() turn.Before {
	s, b := t.Served, turn.Before{Migrate: t.Served.Migration(t.row)}
	if t.ReadOnly || t.Of.Op != call.OpInvoke && t.Of.Op != call.OpEnlist || s.Lane == serving.LaneStateless {
		return b
	}
	life := t.SideEffects().Life
	if !life.Created {
		b.Created = s.Creation(t.row)
	}
	if s.Placed() && !life.Activated && !t.Activation.Hooked {
		b.Activated = s.Hooks.Activated
	}
	return b
}

// On runs the turn on an instance. The turn has a processor.
func (t *Run) On(ctx context.Context, in *instance.Instance) error {
	t.Of.Stats.Runs++
	t.instance = in
	end := t.Of.Phase(call.PhaseGuest)
	var err error
	switch before := t.before(); t.Of.Op {
	case call.OpAll:
		err = t.Run(ctx, &several{in.Guest, t}, before)
	case call.OpMigrate:
		err = t.Migrate(ctx, in.Guest, *before.Migrate)
	default:
		err = t.Run(ctx, in.Guest, before)
	}
	end()
	t.slot.Leave(t.Fuel().Used)
	t.Served.Rules.Spend(t.Fuel().Used)
	err = in.Explain(err)
	t.Of.Stats.Fuel += t.Fuel().Used
	t.Of.Logged = t.Of.Logged || t.HasLogged()
	return err
}

// Close closes the turn, whose time is not up. It fails for a state above the limit;
// then nothing of the turn remains.
func (t *Run) Close(s *serving.Type, l *residency.Row) (call.Sealed, error) {
	done := call.Sealed{
		State: l.State,
		Rev:   t.StateRevision(),
		Reply: actor.Reply{Payload: t.Payload(), Version: l.VisibleVersion(), Fuel: t.Fuel().Used},
	}
	if t.Of.Op == call.OpAll {
		done.Reply.Fuel = t.Chain.Fuel
	} else if t.Of.Inv.Origin != nil && t == t.Outermost { // its chain is a part of its caller's
		done.Reply.Fuel += t.Chain.Fuel
	}
	if changes, tells := t.TimerChanges(), t.Tells(); !t.ReadOnly {
		t.Of.Timers = timer.NewChanges(changes, tells, s.Placed())
	}
	if t.ReadOnly || s.Lane == serving.LaneStateless {
		if err := t.mayStore(s, l, nil, false); err != nil {
			return call.Sealed{}, err
		}
		done.Tokens, done.Reminders = t.Tokens(), t.Effects()
		return done, nil
	}
	state, changed, err := t.Seal()
	if err == nil {
		err = t.mayStore(s, l, state, changed)
	}
	if err != nil {
		return call.Sealed{}, err // and the turn keeps its effects, whose tokens it gives back
	}
	done.Tokens, done.Reminders, done.Events, done.Life = t.Tokens(), t.Effects(), t.Published(), t.Life()
	if done.Life.PassedAway {
		done.Changed, done.State = true, residency.NoState
		return done, nil
	}
	if done.Life.Created && state.Format() == actor.FormatNone {
		state = overlay.Empty // it shows that the hook has run
	}
	// A migration that changed nothing is committed as well, so that it is not
	// run again each time. An actor that has reminders is there, and what was set,
	// cancelled or published moves its version on.
	sets := len(done.Reminders.Set)+len(done.Reminders.Cancel)+len(done.Events) > 0 || done.Life.Changes()
	if !changed && s.Migration(l) == nil && !sets {
		return done, nil
	}
	done.Changed, done.State = true, state
	return done, nil
}

// mayStore lets the app store what the turn does, or refuses it. Most apps have no quota of that, and pay no more than
// this look at their rules.
func (t *Run) mayStore(s *serving.Type, l *residency.Row, state *overlay.State, changed bool) error {
	if !s.Rules.BoundsStored() || t.Of.Inv.Key.IsAnonymous() {
		return nil
	}
	var by actor.Stored
	if changed {
		by = rowGrows(l, state)
	}
	return s.Rules.Grow(t.grows(by))
}

// grows returns what the app stores more by the turn, whose row grows so. Reminders that are replaced count as
// set, and those that are cancelled as there: the next count of what is stored knows better.
func (t *Run) grows(by actor.Stored) actor.Stored {
	done := t.SideEffects()
	if done.Life.PassedAway {
		by = actor.Stored{}
	}
	for i := range done.Life.Spawned {
		if !done.Life.Spawned[i].Key.IsAnonymous() {
			by.Actors++
		}
	}
	for i := range done.Reminders.Set {
		if done.Reminders.Set[i].Message != nil {
			by.Messages++
		} else {
			by.Reminders++
		}
	}
	by.Reminders -= int64(len(done.Reminders.Cancel))
	switch f := t.Of.Inv.Firing; {
	case f == nil:
	case f.Message != nil:
		by.Messages--
	case f.Step.Then == nil:
		by.Reminders--
	}
	return by
}

// rowGrows returns what the row of an actor, which was l, grows by with a new state.
func rowGrows(l *residency.Row, state *overlay.State) (by actor.Stored) {
	by.Bytes = int64(state.Size())
	if l.VisibleVersion() == 0 {
		by.Actors = 1
	} else {
		by.Bytes -= int64(l.State.Size())
	}
	return by
}

// endLives waits until all is committed of the actors that pass away with the turn: the end of a
// life is alone in its batch, since what it removes is of earlier turns alone. Then it publishes
// their ends.
func (t *Run) endLives() error {
	if t.SideEffects().Life.PassedAway {
		if err := t.endLife(t.Activation); err != nil {
			return err
		}
		if err := t.publishEnd(); err != nil {
			return err
		}
	}
	if t.Chain == nil {
		return nil
	}
	for _, m := range t.Chain.Members[1:] {
		if !m.Effects.Life.PassedAway {
			continue
		}
		if err := t.endLife(m.Activation); err != nil {
			return err
		}
		key := m.Activation.Key
		published, err := t.hasPublished(key, m.Effects.Events)
		if err != nil {
			return err
		}
		if published {
			m.Effects.Events = append(slices.Clip(m.Effects.Events), actor.EndOfLife(key, m.Row.Life, t.Of.Inv.Trace.Link()))
		}
	}
	return nil
}

// endLife waits until all is committed of an actor that passes away.
func (t *Run) endLife(a *activation.Activation) error {
	dropped, err := a.AwaitCommits(t.Context())
	switch {
	case err != nil:
		return call.OfTurn(err)
	case dropped:
		return call.ErrDropped
	}
	return nil
}

// publishEnd publishes the end of the turn's own actor, all of whose earlier commits are in the store.
func (t *Run) publishEnd() error {
	published, err := t.hasPublished(t.Of.Inv.Key, t.SideEffects().Events)
	if published {
		t.Publishes(actor.EndOfLife(t.Of.Inv.Key, t.row.Life, t.Of.Inv.Trace.Link()))
	}
	return err
}

// hasPublished reports whether an actor has published events, in the turn or before: only then may subscribers
// wait for more, and an actor that never does leaves no event behind.
func (t *Run) hasPublished(key actor.Key, inTurn []actor.EventWrite) (bool, error) {
	if len(inTurn) > 0 {
		return true, nil
	}
	if key.IsAnonymous() {
		return false, nil
	}
	newest, err := t.by.reminders.NewestEvent(t.Context(), key)
	if err != nil {
		return false, call.OfTurn(fmt.Errorf("read the newest event of an actor that passes away: %w", err))
	}
	return newest != (actor.EventPosition{}), nil
}

// SoFar returns the row as the turn has left it by now, which waits for a call.
func (t *Run) SoFar() (*residency.Row, error) {
	state, changed, err := t.Seal()
	if err != nil {
		return nil, err
	}
	row := t.row.With(state, changed || t.row.Exists, t.Served.Deployment.Generation, t.Served.StateSchema)
	if set := t.SideEffects().Life.MethodSet; set != nil {
		row.MethodSet = *set
	}
	return row, nil
}

// Leave implements [turn.Leaver]. It readies the turn for something that leaves the host: it waits until all
// that the turn could have observed is durable, and marks the call, which is not
// run again from then on. Only the warm lane runs on what is not committed; of a
// turn on committed state there is nothing to wait for.
//
// A call with a key is looked up first: one that is recorded sends nothing, and is
// answered with its record.
//
// Of a chain all this is done for its outermost turn, which is what was asked for.
func (t *Run) Leave() error {
	if err := t.Settled(true); err != nil {
		return err
	}
	if t.Chain != nil {
		t = t.Outermost
	}
	if t.Of.Cause.Fires() && !t.sent {
		if err := t.by.reminders.confirm(t.Context(), t.Of); errors.Is(err, actor.ErrFiringTaken) {
			t.recorded = &call.Result{Err: err, Stats: t.Of.Stats}
			return call.ErrRecorded
		} else if err != nil {
			return call.OfTurn(err)
		}
	}
	if t.Of.Cause == actor.CauseKeyedCall && !t.ReadOnly && !t.sent {
		if known, ok := t.by.records.LookUp(t.Context(), t.Of); ok {
			t.recorded = &known
			return call.ErrRecorded
		}
	}
	t.sent = true
	// With an idempotency key the caller has said that it may be sent again, and a
	// reminder is delivered until a turn of it was committed.
	t.Of.Stats.Sent = !t.Of.Cause.Recorded()
	return nil
}

// several is the guest of a turn that [actor.MethodAll] asks for: it calls actors, the turn's own
// among them, and its reply has all replies. What migrates the state is the instance.
type several struct {
	engine.Instance
	turn *Run
}

// Run implements [engine.Instance].
func (s *several) Run(ctx context.Context, frame *abi.Turn, calls engine.Calls) error {
	if frame.What == abi.WhatMigrate { // which is bounded as in any turn of the type
		fuel := calls.Fuel()
		fuel.Limit = s.turn.Served.Limits.Fuel
		defer func() { fuel.Limit = 0 }()
		return s.Instance.Run(ctx, frame, calls)
	}
	replies, err := s.turn.by.All(s.turn)
	if err != nil {
		return err
	}
	if calls.Reply("", actor.EncodePayloads(replies)) != 0 {
		return fmt.Errorf("%w: the replies have more than %d bytes together", actor.ErrPayloadTooLarge, actor.MaxCallBytes)
	}
	return nil
}

// FuelLeft is what a turn that t calls may use, with those that it calls; 0: as much as its type allows.
func (t *Run) FuelLeft() uint64 {
	share, used, outermost := t.share, t.Fuel().Spent()+t.below, t.Outermost
	if t == outermost && share == 0 || outermost.Of.Op == call.OpAll && t.Caller == outermost {
		share, used = t.Chain.FuelLimit, t.Chain.Fuel-t.Chain.OfAll
	}
	if share == 0 {
		return 0
	}
	return max(1, share-min(share, used))
}

// ShareFuel has the turn share in the fuel that its caller leaves to called turns.
func (t *Run) ShareFuel() {
	by := t.Caller
	if by.Of.Op == call.OpAll { // each of its calls has the limit of its type
		return
	}
	left := by.FuelLeft()
	if t.share == 0 || left > 0 && left < t.share {
		t.share = left
	}
	t.LimitFuel()
}

// Called counts fuel that called turns of the turn have used.
func (t *Run) Called(fuel uint64) { t.below += fuel }

// Below returns the fuel that called turns have used.
func (t *Run) Below() uint64 { return t.below }

// LimitFuel bounds the turn by what the chain leaves to it, when it begins and after each of its calls.
func (t *Run) LimitFuel() {
	if t.share == 0 {
		return
	}
	fuel := t.Fuel()
	if most := fuel.Spent() + t.FuelLeft(); fuel.Limit == 0 || most < fuel.Limit {
		fuel.Limit = most
	}
}

// Call implements [turn.Caller].
func (t *Run) Call(msg *abi.Message) (*abi.Result, abi.Code, error) { return t.by.Call(t, msg) }

// Spawn implements [turn.Spawner].
func (t *Run) Spawn(typ string) (row actor.RowWrite, code abi.Code, problem string) {
	root := t
	if t.Outermost != nil {
		root = t.Outermost
	}
	return t.by.Spawner.spawn(t.Context(), root.Of, &root.spawned, t.Of.Inv.Key, typ)
}

// SpawnChild implements [turn.Spawner].
func (t *Run) SpawnChild(typ string, sharing bool, made int) (row actor.RowWrite, code abi.Code, problem string) {
	if t.Activation == nil || t.Served.Lane != serving.LaneWarm {
		return row, abi.CodeNoState, "no host keeps actors of the type " + t.Of.Inv.Key.Type + " in memory between their turns"
	}
	root := t
	if t.Outermost != nil {
		root = t.Outermost
	}
	return t.by.Spawner.spawnChild(root.Of, &root.spawned, t.Of.Inv.Key, typ, sharing, made)
}

// Related implements [turn.Spawner].
func (t *Run) Related(to actor.Key) bool { return t.by.Spawner.Children.Related(t.Of.Inv.Key, to) }

// Await implements [turn.Leaver].
func (t *Run) Await() error { return t.Settled(false) }

// ChangedService implements [turn.Leaver].
func (t *Run) ChangedService(name string) *actor.Key {
	if t.Chain == nil {
		return nil
	}
	for _, m := range t.Chain.Members {
		life := m.Effects.Life
		if m.Open != nil {
			life = m.Open.SideEffects().Life
		}
		if m.Activation != t.Activation && slices.ContainsFunc(life.Services, func(v actor.ServiceChange) bool { return v.Name == name }) {
			return &m.Activation.Key
		}
	}
	return nil
}

// Settled waits until all that the turn could have observed is durable, and, to show it
// to others, known to be the newest.
func (t *Run) Settled(show bool) error {
	switch {
	case t.Chain != nil:
		since := time.Now() // all at one moment
		for _, m := range t.Chain.Members {
			if err := t.settledAt(m.Activation, show, since); err != nil {
				return err
			}
		}
		return nil
	case t.Activation != nil:
		return t.settledAt(t.Activation, show, t.Began)
	}
	return nil
}

// settledAt is Settled for one actor, whose state must have been the newest after since.
func (t *Run) settledAt(a *activation.Activation, show bool, since time.Time) error {
	dropped, err := a.AwaitCommits(t.Context())
	if err == nil && !dropped && show {
		dropped, err = t.by.ownership.ConfirmTip(t.Context(), a, since)
	}
	switch {
	case err != nil:
		return call.OfTurn(err)
	case dropped:
		return call.ErrDropped
	}
	return nil
}

// apart runs a method on a spare instance, over l; it never commits. What it returns has no
// state.
func (rs *Runs) apart(ctx *call.Context, c *call.Call, s *serving.Type, l *residency.Row, readOnly bool) (call.Sealed, error) {
	in, err := s.Pool.Acquire(ctx)
	if err != nil {
		return call.Sealed{}, err
	}
	t := rs.Get(c)
	defer rs.Put(t)
	if err := t.Enter(ctx); err != nil {
		in.GiveBack(nil, time.Now())
		return call.Sealed{}, err
	}
	// A revision of its own: the guest's caches of a read-only turn belong to no other turn.
	t.Ready(s, l, rs.env.Revisions.Next(), readOnly, c.Arrived)
	err = t.On(ctx, in)
	ran := time.Now()
	in.GiveBack(err, ran)
	if err == nil {
		err = ctx.ErrAt(ran)
	}
	if err != nil && t.recorded != nil {
		return call.Sealed{Reply: t.recorded.Reply}, t.recorded.Err
	}
	if err != nil {
		return call.Sealed{}, err
	}
	c.Stats.Ended = ran
	return t.Close(s, l)
}

package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Turns runs the calls of activations, in the lanes that have a mailbox.
type Turns struct {
	Memory      *call.Memory
	Table       *activation.Table
	Store       *storage.Store
	Deployments *serving.Deployments
	Ownership   *activation.Ownership
	Records     *Recordings
	Runs        *Runs
	Reminders   *Reminders
	Timers      *Timers
	Locked      *Locked
	Stateless   *Stateless
}

// next returns what serves the activation's next turn, as [serving.Deployments.Of] does. It
// is for the worker.
func (ts *Turns) next(a *activation.Activation) (*serving.Type, error) {
	changes := ts.Deployments.Changes()
	if a.Serving != nil && a.Checked == changes {
		return a.Serving, nil
	}
	s, err := ts.Deployments.Of(a.Key.App, a.Key.Type)
	if s == a.Serving {
		a.Checked = changes
	}
	return s, err
}

// ensureLoaded returns the activation's tip, reading it if it is cold. A damaged
// one is not kept. The result is nil if the state was dropped since the worker
// took the call: the calls before it go first. actor.ErrNotOwner: this host does not
// hold the actor any more.
func (ts *Turns) ensureLoaded(ctx context.Context, a *activation.Activation, s *serving.Type) (*residency.Row, error) {
	sh := a.Shard
	sh.Mu.Lock()
	newer := ts.Table.CatchUp(a)
	tip, dropped := a.Tip, a.Member.Dropped() != nil
	a.Sticky, a.IdleTimeout = s.Sticky && !a.Key.IsAnonymous(), s.Limits.IdleTimeout
	unfenced := a.Unfenced(s)
	sh.Mu.Unlock()
	if dropped || tip != nil && !newer && !unfenced {
		return tip, nil //nolint:nilerr // why it was dropped is for the calls that go again
	}
	l, asked, rev := tip, time.Now(), a.Rev
	var err error
	if tip == nil {
		// The lock of a turn of another host would hold up the group of the read, with other apps.
		l, err = ts.Store.Load(ctx, a.Key, actor.LoadOptions{BesideLocks: s.Lane == serving.LaneLocked})
		rev = ts.Table.Revisions.Next()
	}
	if err == nil && !ts.Ownership.StillHeld(a) {
		a.DropState()
		err = actor.ErrNotOwner
	}
	if err != nil || l.Damage != nil {
		return l, err
	}
	if unfenced {
		if l, asked, err = ts.fence(a, l); err != nil {
			return nil, err
		}
		if !ts.Ownership.StillHeld(a) { // it took its time, and another owner may have begun since
			a.DropState()
			return nil, actor.ErrNotOwner
		}
	}
	if l != tip {
		ts.Table.Keep(a, l, rev, asked)
	}
	if tip == nil {
		a.Hooked = false
	}
	if tip == nil && !ts.Table.EvictToBudget() {
		a.DropState()
		return nil, ts.Table.ErrFull()
	}
	return l, nil
}

// load is ensureLoaded for a turn that may be in a chain. The row of a type placed any is read anew
// for each turn, since no host keeps it; the activation has no batch then.
func (ts *Turns) load(ctx context.Context, a *activation.Activation, s *serving.Type) (*residency.Row, error) {
	if s.Lane == serving.LaneLocked {
		a.DropAll()
	}
	l, err := ts.ensureLoaded(ctx, a, s)
	if err == nil && l != nil && s.Lane == serving.LaneLocked {
		err = ts.Locked.lockedHere(a.Key, s)
	}
	return l, err
}

// row returns the row on which a turn of a runs under s, if it may begin. call.ErrDropped: the state was
// dropped since the worker took the call, and the calls before it go first. An error beside a row
// follows from that row, which need not be the newest.
func (ts *Turns) row(ctx context.Context, a *activation.Activation, s *serving.Type) (*residency.Row, error) {
	if err := ts.checkMemory(a.Key.App); err != nil {
		return nil, err
	}
	l, err := ts.load(ctx, a, s)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return nil, call.ErrDropped
	case l.Damage != nil:
		return nil, l.Damage
	}
	changed, err := ts.Deployments.Fits(ctx, l, s)
	if changed {
		return nil, call.ErrMoved
	}
	return l, err
}

// Enlist returns the row on which a chain runs turns of a under s. It may wait for commits and for the
// store. call.ErrDropped and call.ErrMoved end the chain, which runs again.
func (ts *Turns) Enlist(ctx context.Context, a *activation.Activation, s *serving.Type) (*residency.Row, error) {
	if dropped, err := ts.under(ctx, a, s, false); err != nil {
		return nil, err
	} else if dropped {
		return nil, call.ErrDropped
	}
	if err := ts.Ownership.MayBegin(a, s, time.Now()); err != nil {
		return nil, err
	}
	l, err := ts.row(ctx, a, s)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// under readies a for a turn under s. It waits until all of the activation's state is committed if the
// turn asks for that, or cannot join the pending batch: a batch has one deployment and one life, and only
// the warm lane builds on it. dropped is that of [activation.Activation.AwaitCommits].
func (ts *Turns) under(ctx context.Context, a *activation.Activation, s *serving.Type, drain bool) (dropped bool, err error) {
	passed := a.Passed()
	if s == a.Serving && s.Lane == serving.LaneWarm && !drain && !passed {
		return false, nil
	}
	if dropped, err = a.AwaitCommits(ctx); err == nil && !dropped {
		a.Serving, a.Checked = s, serving.Unchecked
		if passed {
			a.DropState()
		}
	}
	return dropped, err
}

// fence moves the version of an activation's row on from l, so that no commit of an
// earlier owner can land, and returns what l is then, and when that was asked for.
func (ts *Turns) fence(a *activation.Activation, l *residency.Row) (next *residency.Row, asked time.Time, err error) {
	c := l.Bump(a.Key)
	asked = time.Now()
	if err := ts.commit(a, c); err != nil {
		a.DropState()
		if errors.Is(err, actor.ErrAmbiguous) { // of the fence: no turn has begun
			err = fmt.Errorf("%w: fence out earlier owners: %v", actor.ErrUnavailable, err)
		}
		return nil, asked, err
	}
	return l.Bumped(&c.Rows[0]), asked, nil
}

// commit commits for the activation's worker, which waits for it. Errors are as those of
// [storage.Store.Commit].
func (ts *Turns) commit(a *activation.Activation, c actor.Commit) error {
	err := ts.Store.Commit(c, serving.LaneWarm)
	a.Shard.Mu.Lock()
	defer a.Shard.Mu.Unlock()
	switch {
	case err == nil:
		ts.Ownership.Advanced(a)
	case errors.Is(err, actor.ErrAmbiguous):
		a.GaveUp(time.Now())
	}
	return err
}

// checkMemory says why no turn may begin now, nil if one may: what it would add is
// not known before it has run. States that nobody works on leave memory first.
func (ts *Turns) checkMemory(app string) error {
	if err := ts.Memory.CheckOver(app); err != nil {
		return err
	}
	if ts.Table.Crowded() && !ts.Table.EvictToBudget() {
		return ts.Table.ErrFull()
	}
	return nil
}

// warm runs one attempt of a turn on the activation's tip.
func (ts *Turns) warm(ctx *call.Context, a *activation.Activation, c *call.Call, s *serving.Type, readOnly bool, now time.Time) call.Outcome {
	keyed := c.Cause == actor.CauseKeyedCall && !readOnly
	if c.BeginRun(); keyed {
		if o, ok := ts.Records.Known(ctx, a, c); ok {
			return o
		}
		if c.Doubtful {
			if err := ts.Records.LookUpMarks(ctx, c); err != nil {
				return call.Failed(err)
			}
		}
	}
	end := c.Phase(call.PhaseLoad)
	l, err := ts.row(ctx, a, s)
	end()
	switch {
	case errors.Is(err, call.ErrDropped):
		return call.Outcome{Retry: true}
	case err != nil && l != nil:
		o := call.Failed(err)
		o.Resting, o.Since = !call.IsContextError(err), ts.Ownership.Since(s, now, true)
		return o
	case err != nil:
		return call.Failed(err)
	}
	if c.Op == call.OpMigrate && s.Migration(l) == nil { // another turn has done it, whose commit is waited for
		return call.Outcome{Under: s, Resting: true, Ended: now}
	}
	if c.Op == call.OpInvoke {
		if m, err := c.MethodOf(s); err != nil {
			return call.Failed(err)
		} else if err := s.Accepts(&m, l, c.Cause, c.Inv.Firing); err != nil {
			o := call.Outcome{Result: call.Result{Err: err}, Resting: true, Ended: now, Fails: keyed, Since: ts.Ownership.Since(s, now, true)}
			if s.WaitsOutsideSet && errors.Is(err, actor.ErrNotAccepted) {
				if c.Cause == actor.CauseMessage {
					o.Err = &actor.ReasonError{Condition: actor.ErrNotAcceptedYet, Reason: err.Error()}
					activation.KeepWaiting(a, c.Inv.Firing, l.MethodSet)
				} else if !m.ReadOnly && c.Inv.Origin == nil {
					o.Waits = c.Outside.Until.IsZero() || now.Before(c.Outside.Until)
				}
			}
			return o
		}
	}
	if c.Op == call.OpLeave && (!l.Exists || s.Creation(l) != "" || s.Hooks.Activated != "" && !a.Hooked) {
		return call.Failed(nil) // it has not begun to live here
	}
	in, err := a.InstanceFor(ctx, s)
	if err != nil {
		return call.Failed(err)
	}
	t := ts.Runs.Get(c)
	defer ts.Runs.Put(t)
	if err := t.Enter(ctx); err != nil {
		a.GiveBack(in, nil, time.Now())
		return call.Failed(err)
	}
	if !ts.Ownership.StillHeld(a) { // the lease may have run out while the turn waited for any of that
		a.GiveBack(in, nil, time.Now())
		return call.Failed(actor.ErrNotOwner)
	}
	rev := a.Rev
	if readOnly { // its caches belong to no other turn
		rev = ts.Table.Revisions.Next()
	}
	t.Ready(s, l, rev, readOnly, now)
	t.Activation, t.Began = a, now
	err = t.On(ctx, in)
	ran := time.Now()
	a.GiveBack(in, err, ran)
	o := call.Outcome{Under: s, Resting: true, Ended: ran}
	if err == nil {
		if err = ctx.ErrAt(ran); err == nil {
			err = t.endLives()
		}
		if err == nil {
			err = c.CheckMark()
		}
		if err == nil {
			o.Sealed, err = t.Close(s, l)
		}
	}
	if err != nil {
		// What the guest cached of its failed turn must never look current.
		a.Rev = ts.Table.Revisions.Next()
		if t.recorded != nil {
			return call.Outcome{Result: *t.recorded, Ended: ran}
		}
		if errors.Is(err, actor.ErrDeadlock) && !c.Stats.Sent {
			return call.Outcome{Retry: true, Deadlock: true, Ended: ran}
		}
		if a.Chain != nil && (errors.Is(err, call.ErrDropped) || errors.Is(err, call.ErrMoved) || errors.Is(err, actor.ErrStale)) {
			return call.Outcome{Retry: true, Ended: ran}
		}
		if errors.Is(err, actor.ErrLeft) && keyed && !c.Doubtful && c.Stats.Chain.Doubts() {
			c.Doubtful = true // the next run may have the replies that this one has missed
			return call.Outcome{Retry: true, Ended: ran}
		}
		o := call.Outcome{Result: call.Result{Err: err}, Resting: !call.IsContextError(err) && !errors.Is(err, actor.ErrDeadlock) && !errors.Is(err, actor.ErrStopping), Ended: ran}
		o.Fails, o.Since = keyed && call.Unrecorded(err) && !errors.Is(err, call.ErrDropped), ts.Ownership.Since(s, now, true)
		return o
	}
	if !readOnly {
		a.Rev = o.Sealed.Rev
	}
	o.Reply = o.Sealed.Reply
	o.Commits, o.Since = o.Sealed.Changed || keyed || c.Cause.Fires(), ts.Ownership.Since(s, now, c.Chained && c.Inv.Consistency == actor.ConsistencyStrong)
	return o
}

// Run runs one call of an activation, on the activation's worker. It begins anew
// as long as other writers come first, in the lanes that commit at once; what
// was sealed in the warm lane is for the caller to commit.
//
// now is when it begins.
func (ts *Turns) Run(a *activation.Activation, c *call.Call, now time.Time) call.Outcome {
	if s, err := ts.next(a); err == nil && Waits(c, s) {
		leave, err := Entry(c, s, func() error {
			if a.ChainWaits() {
				return errChainWaits
			}
			return ts.Ownership.MayBegin(a, s, time.Now())
		})
		if errors.Is(err, errChainWaits) {
			return call.Outcome{Retry: true, Deadlock: true}
		}
		if err != nil {
			return call.Failed(err)
		}
		defer leave()
		now = time.Now()
	}
	if c.Stats.Began.IsZero() && !c.Killed.Load() && c.Ctx.Err() == nil {
		c.Stats.Began = now
	}
	if c.Started.IsZero() {
		c.Started = now
	}
	ctx := c.Begin(now, c.Limit-now.Sub(c.Started))
	defer ctx.Stop()
	if ctx.ErrAt(now) != nil {
		if err := c.Overdue(ctx); c.Conflicts == 0 || errors.Is(err, actor.ErrStopping) {
			return call.Failed(err)
		}
	}
	if !a.PauseFor(ctx, c) {
		return call.Failed(conflicted(c.Conflicts))
	}
	for conflicts := 0; ; now = time.Now() {
		o := ts.attempt(ctx, a, c, now)
		if o.Err == nil || errors.Is(o.Err, actor.ErrAmbiguous) {
			return o
		}
		over := c.Overdue(ctx)
		switch {
		case over != nil && (call.IsContextError(o.Err) || errors.Is(o.Err, call.ErrMoved)):
			return call.Failed(c.Stats.Chain.Explain(over))
		case c.Stats.Sent:
			return o // and not again
		case errors.Is(o.Err, call.ErrMoved):
		case errors.Is(o.Err, actor.ErrStale), errors.Is(o.Err, actor.ErrServiceTaken):
			conflicts++
			if over != nil || !activation.Pause(ctx, conflicts) {
				return call.Failed(conflicted(conflicts))
			}
		default:
			return o
		}
	}
}

// errChainWaits ends the wait of a turn whose actor a chain waits for: the chain may have what the turn waits for.
var errChainWaits = errors.New("a chain waits for the actor")

func conflicted(times int) error {
	return fmt.Errorf("%w, %d times until the turn's time was up", actor.ErrStale, times)
}

// attempt tries the call once, in the lane that its type has now. The turn began
// now.
func (ts *Turns) attempt(ctx *call.Context, a *activation.Activation, c *call.Call, now time.Time) call.Outcome {
	s, err := ts.next(a)
	if c.Op == call.OpDelete && errors.Is(err, actor.ErrTypeNotFound) {
		// What nothing serves any more can still be removed.
		s, err = ts.Deployments.Unserved(c.Inv.Key.App, c.Inv.Key.Type), nil
	}
	if err != nil {
		return call.Failed(err)
	}
	if a.Key.IsAnonymous() && s.Lane != serving.LaneWarm {
		return call.Failed(&actor.ReasonError{Condition: actor.ErrPassedAway, Reason: "it is a volatile child, and its type is placed so that no host keeps its actors"})
	}
	if dropped, err := ts.under(ctx, a, s, c.Op == call.OpDelete); err != nil || dropped {
		return call.Outcome{Result: call.Result{Err: err}, Retry: dropped}
	}
	if c.Op == call.OpLeave {
		return ts.leave(ctx, a, c, s, now)
	}
	if err := ts.Ownership.MayBegin(a, s, now); err != nil {
		return call.Failed(err)
	}
	switch {
	case c.Op == call.OpDelete:
		err := ts.delete(ctx, a, c, s, now)
		if err == nil || errors.Is(err, actor.ErrActorNotFound) {
			ts.Timers.deleted(a.Key)
		}
		return call.Failed(err)
	case c.Op == call.OpFence && s.Lane == serving.LaneWarm:
		l, err := ts.ensureLoaded(ctx, a, s)
		return call.Outcome{Result: call.Result{Err: err}, Retry: l == nil && err == nil}
	case c.Op == call.OpMigrate && s.Lane == serving.LaneWarm:
		return ts.warm(ctx, a, c, s, false, now)
	case c.Op == call.OpFence, c.Op == call.OpMigrate:
		return call.Failed(nil)
	case c.Op == call.OpTimer:
		return ts.timer(ctx, a, c, s)
	}
	if c.Op == call.OpAll {
		if s.Lane == serving.LaneStateless {
			return call.Failed(NotTogether(s))
		}
		c.Stats.Lane = s.Lane
		return ts.warm(ctx, a, c, s, false, now)
	}
	m, err := c.MethodOf(s)
	if err != nil {
		return call.Failed(err)
	}
	c.Stats.Lane = s.Lane
	switch {
	case c.Cause.Fires():
		if o, over := ts.Reminders.look(ctx, a, c); over {
			return o
		}
	case c.Cause == actor.CauseTimer:
		if o, over := ts.Timers.look(ctx, a, c); over {
			return o
		}
	}
	var r call.Result
	switch s.Lane {
	case serving.LaneLocked:
		if c.Chained || m.Calls.Load() {
			return ts.warm(ctx, a, c, s, m.ReadOnly, now)
		}
		a.DropAll()
		r.Reply, r.Err = ts.Locked.turn(ctx, c, s, m.ReadOnly)
		if errors.Is(r.Err, call.ErrChained) {
			s.CallsOthers(m.Name)
			return ts.warm(ctx, a, c, s, m.ReadOnly, time.Now())
		}
		c.NotTimed(r.Err)
		r = ts.Records.orRecorded(ctx, c, r)
	case serving.LaneStateless:
		a.DropAll()
		if c.Cause != actor.CauseKeyedCall {
			r.Reply, r.Err = ts.Stateless.Turn(ctx, c, s, nil)
			break
		}
		r.Reply, r.Err = ts.Stateless.keyedTurn(ctx, c, s)
		c.NotTimed(r.Err)
		r = ts.Records.orRecorded(ctx, c, r)
	default:
		return ts.warm(ctx, a, c, s, m.ReadOnly, now)
	}
	return call.Outcome{Result: r}
}

// leave runs the hook leaving of an actor that nobody else runs before it has left, on the activation's
// worker. The type may have another hook by now, and then none runs.
func (ts *Turns) leave(ctx *call.Context, a *activation.Activation, c *call.Call, s *serving.Type, now time.Time) call.Outcome {
	if s.Lane != serving.LaneWarm || s.Hooks.Leaving != c.Inv.Method {
		return call.Failed(nil)
	}
	if !ts.Ownership.StillHeld(a) {
		return call.Failed(actor.ErrNotOwner)
	}
	c.Stats.Lane = s.Lane
	return ts.warm(ctx, a, c, s, false, now)
}

// timer runs a call that sets or cancels a timer, on the activation's worker.
func (ts *Turns) timer(ctx context.Context, a *activation.Activation, c *call.Call, s *serving.Type) call.Outcome {
	c.Stats.Lane = s.Lane
	if s.Lane == serving.LaneWarm { // it is the activation that has it
		l, err := ts.ensureLoaded(ctx, a, s)
		if err == nil && l != nil && l.Damage != nil {
			err = l.Damage
		}
		if err != nil || l == nil {
			return call.Outcome{Result: call.Result{Err: err}, Retry: err == nil}
		}
	} else {
		a.DropAll()
	}
	err := ts.Timers.Ask(c, s)
	return call.Outcome{Result: call.Result{Err: err}, Resting: s.Lane == serving.LaneWarm, Ended: time.Now()}
}

// NotTogether refuses calls of several actors if one is of the type that s serves.
func NotTogether(s *serving.Type) error {
	return &actor.ReasonError{Condition: actor.ErrNotAtomic, Reason: "the type " + s.Deployment.Type + " is placed stateless"}
}

// delete leaves a tombstone in place of the actor's state, and removes its reminders.
// Only the row's version matters: a state that cannot be decoded is removed like any
// other.
func (ts *Turns) delete(ctx context.Context, a *activation.Activation, c *call.Call, s *serving.Type, began time.Time) error {
	c.Stats.Lane = s.Lane
	if s.Lane != serving.LaneLocked {
		return ts.warmDelete(ctx, a, s, began)
	}
	a.DropAll()
	leave, err := ts.Locked.Places.Enter(ctx, a.Key.App, a.Key.Type)
	if err != nil {
		return err
	}
	defer leave()
	if ts.Reminders != nil { // they go before the row is locked
		l, err := ts.Store.Load(ctx, a.Key, actor.LoadOptions{BesideLocks: true})
		if err == nil {
			err = ts.Reminders.thin(ctx, a.Key, l)
		}
		if err != nil {
			return err
		}
	}
	err = ts.Locked.inTransaction(ctx, a.Key, func(row actor.Row) (*actor.Commit, error) {
		if err := ts.Locked.lockedHere(a.Key, s); err != nil {
			return nil, err
		}
		if row.Version == 0 || row.Deleted {
			if err := ts.Reminders.some(ctx, a.Key); err != nil {
				return nil, err
			}
		}
		commit := actor.CommitOf(residency.NewRow(row).Tombstone(a.Key, s.Deployment.Generation))
		return &commit, nil
	})
	if version, ok := residency.DamagedVersion(err, a.Key); ok {
		// The store cannot even hand the row over. Its version fences all the same.
		if err := ts.Locked.lockedHere(a.Key, s); err != nil {
			return err
		}
		return ts.Store.Commit(actor.CommitOf((&residency.Row{Version: version}).Tombstone(a.Key, s.Deployment.Generation)), serving.LaneLocked)
	}
	return err
}

// warmDelete deletes under the version, for every lane that takes no lock.
func (ts *Turns) warmDelete(ctx context.Context, a *activation.Activation, s *serving.Type, began time.Time) error {
	l, err := ts.ensureLoaded(ctx, a, s)
	if err == nil && s.Lane == serving.LaneStateless {
		err = ts.Ownership.MayRun(a.Key, s, time.Now())
	}
	if err != nil {
		return err
	}
	if l.Damage == nil && !l.Exists {
		outdated, err := ts.Ownership.ConfirmTip(ctx, a, began)
		if err != nil {
			return err
		}
		if outdated {
			if l, err = ts.ensureLoaded(ctx, a, s); err != nil {
				return err
			}
		}
	}
	if !l.Exists { // drained, so it is not nil
		if err := ts.Reminders.some(ctx, a.Key); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ts.Reminders.thin(ctx, a.Key, l); err != nil {
		a.DropState()
		return err
	}
	w := l.Tombstone(a.Key, s.Deployment.Generation)
	sent := time.Now()
	if err := ts.commit(a, actor.CommitOf(w)); err != nil {
		a.DropState()
		return err
	}
	ts.Table.Keep(a, l.After(&w, residency.NoState), ts.Table.Revisions.Next(), sent)
	return nil
}

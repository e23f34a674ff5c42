package lane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/inbox"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
	"github.com/greenroom-run/greenroom/internal/fair"
)

// Locked runs the turns of any types that call no other actors.
type Locked struct {
	Places      *fair.Places // one for each turn under way
	Table       *activation.Table
	Store       *storage.Store
	Deployments *serving.Deployments
	Ownership   *activation.Ownership
	Runs        *Runs
	// Published gets the actors that an applied commit has published events of, and how many.
	Published func(key actor.Key, events int)
}

// turn runs one attempt of a turn inside a transaction that holds the
// actor's row. The store may run it several times; each time begins from the row
// that it was then given.
func (ll *Locked) turn(ctx *call.Context, c *call.Call, s *serving.Type, readOnly bool) (actor.Reply, error) {
	var (
		in   *instance.Instance
		done call.Sealed
		made actor.Commit
		// newer is a row that a newer deployment wrote. The deployments are read
		// after the transaction: it must not wait for another connection.
		newer *residency.Row
		// failure is that of a call with a key, behind a fence.
		failure error
	)
	t := ll.Runs.Get(c)
	defer ll.Runs.Put(t)
	run := func(row actor.Row) (*actor.Commit, error) {
		ll.Runs.reminders.Refused(&made.Reminders) // of the run before, which left no trace
		made = actor.Commit{}
		if c.Stats.Sent {
			// The transaction failed after something left the host.
			return nil, actor.ErrLeft
		}
		if err := ll.lockedHere(c.Inv.Key, s); err != nil {
			return nil, err
		}
		failure = nil
		l := residency.NewRow(row)
		if l.Damage != nil {
			return nil, l.Damage
		}
		if l.Generation > s.Deployment.Generation {
			newer = l
			return nil, call.ErrMoved
		}
		if _, err := ll.Deployments.Fits(ctx, l, s); err != nil {
			return nil, err
		}
		if m, err := c.MethodOf(s); err != nil {
			return nil, err
		} else if failure = s.Accepts(&m, l, c.Cause, c.Inv.Firing); failure != nil {
			if c.Cause != actor.CauseKeyedCall {
				return nil, failure
			}
			made = l.Bump(c.Inv.Key)
			return &made, nil
		}
		if in == nil { // the one before broke
			var err error
			if in, err = s.Pool.Acquire(ctx); err != nil {
				return nil, err
			}
		}
		if err := t.Enter(ctx); err != nil {
			return nil, err
		}
		t.Ready(s, l, ll.Table.Revisions.Next(), readOnly, time.Now())
		err := t.On(ctx, in)
		if err != nil {
			in.GiveBack(err, t.Moment)
			in = nil
		} else if err = errors.Join(ctx.Err(), c.CheckMark()); err == nil { // it has called nobody
			if t.SideEffects().Life.PassedAway {
				err = t.publishEnd()
			}
			if err == nil {
				done, err = t.Close(s, l)
			}
		}
		if err != nil && c.Cause == actor.CauseKeyedCall && call.Unrecorded(err) && t.recorded == nil && !errors.Is(err, call.ErrChained) {
			failure, made = err, l.Bump(c.Inv.Key)
			return &made, nil
		}
		if err != nil || !done.Changed && !c.Cause.Recorded() {
			return nil, err
		}
		if !done.Changed && c.Cause.Fires() {
			made = l.Step(c.Inv.Key, done.Reminders)
			return &made, nil
		}
		if !done.Changed {
			made = l.Record(c.Record(done.Reply, s.Limits.IdempotencyTTL))
			return &made, nil
		}
		w, encoded := l.Next(c.Inv.Key), done.State.Encoded()
		w.Generation, w.StateSchema, w.State, w.MethodSet = s.Deployment.Generation, s.StateSchema, &encoded, done.Life.MethodSet
		if done.Life.PassedAway {
			w = l.PassAway(c.Inv.Key, s.Deployment.Generation)
		}
		made = actor.CommitOf(append([]actor.RowWrite{w}, done.Life.Spawned...)...)
		made.Reminders, made.Events, made.Services = done.Reminders, done.Events, done.Life.Services
		inbox.Name(&made)
		done.Reply.Version = w.NewVersion
		if c.Cause == actor.CauseKeyedCall {
			made.Records = []actor.IdempotencyRecord{c.Record(done.Reply, s.Limits.IdempotencyTTL)}
		}
		return &made, nil
	}

	// A place is taken before anything that others wait for.
	leave, err := ll.Places.Enter(ctx, c.Inv.Key.App, c.Inv.Key.Type)
	if err != nil {
		return actor.Reply{}, err
	}
	defer leave()
	// An instance is waited for before the row is locked, not after.
	in, err = s.Pool.Acquire(ctx)
	if err != nil {
		return actor.Reply{}, err
	}
	err = ll.inTransaction(ctx, c.Inv.Key, run)
	if c.Stats.Phases != nil {
		c.Stats.Commits(time.Now())
	}
	if err != nil && !errors.Is(err, actor.ErrAmbiguous) {
		ll.Runs.reminders.Refused(&made.Reminders)
	}
	if in != nil {
		in.GiveBack(nil, time.Now())
	}
	if newer != nil && errors.Is(err, call.ErrMoved) {
		if _, err := ll.Deployments.Fits(ctx, newer, s); err != nil {
			return actor.Reply{}, err
		}
	}
	if t.recorded != nil {
		return t.recorded.Reply, t.recorded.Err
	}
	if err == nil {
		err = failure
	}
	if err != nil {
		return actor.Reply{}, err
	}
	ll.Runs.reminders.Committed(&made.Reminders)
	if len(made.Events) > 0 {
		ll.Published(c.Inv.Key, len(made.Events))
	}
	return done.Reply, nil
}

// lockedHere says why a row that was just given to a transaction may not be written under
// s any more: it may have been waited for until long after the turn was admitted, and
// another host have been given the actor.
func (ll *Locked) lockedHere(key actor.Key, s *serving.Type) error {
	if ll.Ownership.Cluster == nil {
		return nil
	}
	if now, err := ll.Deployments.Of(key.App, key.Type); err != nil || now != s {
		return call.ErrMoved
	}
	return ll.Ownership.MayRun(key, s, time.Now())
}

// inTransaction runs fn in a locked turn of the store and settles its commit.
// The caller has a place. Errors are as those of [storage.Store.Commit], or fn's.
func (ll *Locked) inTransaction(ctx context.Context, key actor.Key, fn func(actor.Row) (*actor.Commit, error)) error {
	// The end of the turn's time ends the transaction, but only until the turn
	// is sealed: from then on the commit is carried through.
	tx, cancel := context.WithCancel(ll.Store.Context)
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	var sealedAt time.Time
	var seen uint64 // the version of the row that is answered
	defer func() { ll.Table.NoteAnswered(key, seen) }()
	commit, err := ll.Store.Committer.LockedTurn(tx, key, func(_ context.Context, row actor.Row) (*actor.Commit, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seen = row.Version
		commit, err := fn(row)
		if err != nil || commit == nil {
			return nil, err
		}
		if sealedAt.IsZero() && !detach() {
			return nil, ctx.Err()
		}
		sealedAt = time.Now()
		return commit, nil
	})
	if sealedAt.IsZero() || err == nil && commit == nil {
		return err
	}
	if errors.Is(err, actor.ErrAmbiguous) && commit != nil {
		err = ll.Store.Settle(*commit, err)
	}
	if err == nil && len(commit.Rows) > 0 {
		seen = commit.Rows[0].NewVersion
	}
	if err != nil {
		err = fmt.Errorf("commit turn: %w", err)
	}
	ll.Store.Committed(storage.CommitEnd{Key: key, Lane: serving.LaneLocked, Duration: time.Since(sealedAt), GroupSize: 1, Err: err})
	return err
}

package lane

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/activation"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/residency"
	"github.com/greenroom-run/greenroom/host/serving"
	"github.com/greenroom-run/greenroom/host/storage"
)

// Reads runs read-only methods, and looks at actors for people.
type Reads struct {
	Memory      *call.Memory
	Table       *activation.Table
	Store       *storage.Store
	Deployments *serving.Deployments
	Ownership   *activation.Ownership
	Runs        *Runs
	Copies      *Copies
}

// Turn runs a read-only method over committed state, beside everything else.
func (rd *Reads) Turn(ctx *call.Context, c *call.Call, s *serving.Type, warm *residency.Row) (actor.Reply, error) {
	c.Stats.Lane = serving.LaneReadOnly
	if c.Copied {
		c.Stats.Lane = serving.LaneCopy
	}
	strong := c.Inv.Consistency == actor.ConsistencyStrong
	l := warm
	if s.Lane == serving.LaneLocked {
		l = nil
	}
	for retried := false; ; retried = true {
		var err error
		if retried {
			if err := ctx.Err(); err != nil {
				return actor.Reply{}, err
			}
			if s, err = rd.Deployments.Of(c.Inv.Key.App, c.Inv.Key.Type); err != nil {
				return actor.Reply{}, err
			}
		}
		m, err := c.MethodOf(s)
		if err != nil {
			return actor.Reply{}, err
		} else if !m.ReadOnly { // no more, since the call came
			return actor.Reply{}, call.ErrMoved
		}
		if l == nil && c.Copied {
			l, err = rd.Copies.read(ctx, c)
		} else if l == nil {
			l, err = rd.committed(ctx, c, s, strong)
		}
		if err != nil {
			return actor.Reply{}, err
		}
		if l.Damage != nil {
			return actor.Reply{}, l.Damage
		}
		changed, err := rd.Deployments.Fits(ctx, l, s)
		if changed {
			continue
		}
		if err == nil && s.Lane == serving.LaneWarm && !c.Copied && !c.Migrated && s.Migration(l) != nil {
			return actor.Reply{}, call.ErrUnmigrated
		}
		var reply actor.Reply
		if err == nil {
			err = s.Accepts(&m, l, c.Cause, c.Inv.Firing)
		}
		if err == nil {
			var done call.Sealed
			done, err = rd.Runs.apart(ctx, c, s, l, true)
			reply = done.Reply
		}
		if call.IsContextError(err) || errors.Is(err, call.ErrChained) || c.Copied {
			return reply, err
		}
		if !strong && s.Placed() {
			if lost, sure := rd.Ownership.Holds(rd.Table.Shard(c.Inv.Key), c); lost {
				return actor.Reply{}, actor.ErrNotOwner
			} else if sure {
				return reply, err
			}
		} else if !strong {
			return reply, err
		}
		c.Stats.Ended = time.Time{} // not yet
		version, asked, unknown := rd.Store.Version(ctx, c.Inv.Key)
		if unknown != nil {
			return actor.Reply{}, unknown
		}
		if rd.Table.ConfirmRead(c.Inv.Key, l, version, asked) { // a failure shows the state as well
			return reply, err
		}
		l = nil
	}
}

// committed returns the state that a read-only method reads: for warm types the
// activation's, made if there is none.
func (rd *Reads) committed(ctx context.Context, c *call.Call, s *serving.Type, strong bool) (*residency.Row, error) {
	key := c.Inv.Key
	sh := rd.Table.Shard(key)
	if s.Lane == serving.LaneLocked {
		asked := time.Now()
		sh.Mu.Lock()
		forgets, least := sh.History.Forgets(), sh.History.Answered.Least(key, asked)
		if a := sh.Actors[key]; a != nil { // of another placement, before
			least = max(least, a.Newest())
		}
		sh.Mu.Unlock()
		fresh := strong
		l, err := rd.load(ctx, c, actor.LoadOptions{AllowStale: !fresh})
		if err == nil && !fresh && l.Damage == nil && l.Version < least {
			fresh = true
			l, err = rd.load(ctx, c, actor.LoadOptions{BesideLocks: true}) // than which it was answered newer
		}
		if err == nil {
			sh.Mu.Lock()
			sh.History.Answered.Note(key, l.Version, time.Now())
			if a := sh.Actors[key]; fresh && a != nil && a.Loaded != nil { // of another placement, before or after
				sh.Show(a, l, asked, forgets)
			} else { // what turns and readers of another placement have or load may be older
				sh.NoteNewer(a, l.Version)
			}
			sh.Mu.Unlock()
		}
		return l, err
	}
	for {
		sh.Mu.Lock()
		forgets, l, a := sh.History.Forgets(), rd.Ownership.Look(sh, key, s, c.Arrived), sh.Actors[key]
		old := a != nil && a.Committed() != nil // the committed state was not confirmed lately
		sh.Mu.Unlock()
		if l != nil {
			return l, nil
		}
		if old {
			if err := rd.Ownership.Confirm(ctx, sh, a); err != nil {
				return nil, err
			}
			continue
		}
		asked := time.Now()
		l, err := rd.load(ctx, c, actor.LoadOptions{})
		if err == nil && l.Damage == nil {
			rd.Table.Offer(sh, key, s, l, asked, forgets)
		}
		return l, err
	}
}

// load reads a row for a call that runs alone, which may have to wait for
// an instance with the state in its hands: it counts for Config.CallMemory until
// the call is answered.
func (rd *Reads) load(ctx context.Context, c *call.Call, opts actor.LoadOptions) (*residency.Row, error) {
	end := c.Phase(call.PhaseLoad)
	l, err := rd.Store.Load(ctx, c.Inv.Key, opts)
	end()
	if err != nil {
		return nil, err
	}
	if err := rd.Memory.Take(c.Inv.Key.App, l.Cost()); err != nil {
		return nil, err
	}
	c.Loaded += l.Cost()
	return l, nil
}

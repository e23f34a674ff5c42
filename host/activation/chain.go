package activation

import (
	"context"
	"fmt"
	"slices"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/call"
	"github.com/greenroom-run/greenroom/host/timer"
)

// Savepoint is how much called turns have done.
type Savepoint struct{ Undo, tokens, records, Ran, inner int }

// Member returns what the chain has of an actor, nil if nothing.
func (ch *Chain) Member(key actor.Key) *Enlisted {
	for _, m := range ch.Members {
		if m.Activation.Key == key {
			return m
		}
	}
	return nil
}

// Spawned reports whether a turn of the chain has spawned an actor.
func (ch *Chain) Spawned(key actor.Key) bool {
	for _, m := range ch.Members {
		life := m.Effects.Life
		if m.Open != nil {
			life = m.Open.SideEffects().Life
		}
		if slices.ContainsFunc(life.Spawned, func(row actor.RowWrite) bool { return row.Key == key }) {
			return true
		}
	}
	return false
}

// AwaitSpawn waits until an actor is committed that an earlier turn of the chain's actors has spawned: before that the
// store has no row of it. [call.ErrDropped]: what the chain has seen is dropped instead. Other errors are those of ctx.
func (ch *Chain) AwaitSpawn(ctx context.Context, key actor.Key) error {
	for _, m := range ch.Members {
		if m.Activation.spawns(key) {
			dropped, err := m.Activation.AwaitCommits(ctx)
			if dropped {
				err = call.ErrDropped
			}
			return err
		}
	}
	return nil
}

// Changed reports whether called turns have changed any actor.
func (ch *Chain) Changed() bool {
	for _, m := range ch.Members {
		if m.Changed {
			return true
		}
	}
	return false
}

// Read appends the actors that called turns have run on.
func (ch *Chain) Read(members []*Member) []*Member {
	for _, m := range ch.Members[1:] {
		if m.Row != nil {
			members = append(members, &m.Activation.Member)
		}
	}
	return members
}

// NameAs gives the chain a name, by which other hosts know it.
func (ch *Chain) NameAs(name string) {
	ch.Name = name
	ch.SetName(name)
}

// Size is what the chain adds to a commit, in bytes, beside the outermost turn.
func (ch *Chain) Size() int64 {
	size := 0
	for _, m := range ch.Members[1:] {
		if m.Changed {
			size += m.Row.State.Size() + m.Effects.Reminders.Size() + actor.SizeOfEvents(m.Effects.Events)
		}
	}
	return int64(size + ch.recorded() + ch.calledBack())
}

// CalledBack adds a callback to those that are recorded with the outermost turn, and fails if they
// have more than one commit may have.
func (ch *Chain) CalledBack(cb call.Callback) error {
	if ch.calledBack()+cb.Size() > actor.MaxCommitBytes {
		return fmt.Errorf("%w: the callbacks of called turns have more than %d bytes", actor.ErrChainTooLarge, actor.MaxCommitBytes)
	}
	ch.Callbacks = append(ch.Callbacks, cb)
	return nil
}

// calledBack returns the bytes of the callbacks.
func (ch *Chain) calledBack() (bytes int) {
	for i := range ch.Callbacks {
		bytes += ch.Callbacks[i].Size()
	}
	return bytes
}

// Record adds a called turn to those that are recorded, and fails if they have more than one commit
// may have: nothing else bounds what a turn that calls without end has the host keep.
func (ch *Chain) Record(m *Enlisted, c *call.Call, reply actor.Payload) error {
	bytes := ch.recorded() + len(reply.Data) + call.RecordCost
	if bytes > actor.MaxCommitBytes {
		return fmt.Errorf("%w: the replies of called turns have more than %d bytes", actor.ErrChainTooLarge, actor.MaxCommitBytes)
	}
	ch.Records = append(ch.Records, calledRecord{m, c, reply, bytes})
	return nil
}

// recorded returns the bytes of records.
func (ch *Chain) recorded() int {
	if n := len(ch.Records); n > 0 {
		return ch.Records[n-1].bytes
	}
	return 0
}

// Timing returns what called turns do to timers, and the volatile messages that they send.
func (ch *Chain) Timing() (all []Timing) {
	for _, m := range ch.Members[1:] {
		if changes := timer.NewChanges(m.Effects.Timers, m.Effects.Tells, m.Row != nil && m.Served.Placed()); changes != nil {
			all = append(all, Timing{m.Activation, changes})
		}
	}
	return all
}

// Activations returns the actors that the chain has.
func (ch *Chain) Activations() []*Activation {
	all := make([]*Activation, len(ch.Members))
	for i, m := range ch.Members {
		all[i] = m.Activation
	}
	return all
}

// Savepoint returns what RollBack goes back to.
func (ch *Chain) Savepoint() Savepoint {
	return Savepoint{len(ch.Undo), len(ch.Tokens), len(ch.Records), len(ch.Ran), len(ch.Inner)}
}

// RollBack takes back what called turns have done since a savepoint, and returns the tokens of the
// reminders that they have set.
func (ch *Chain) RollBack(to Savepoint, next func() uint64) (tokens []actor.ReminderID) {
	for _, u := range slices.Backward(ch.Undo[to.Undo:]) {
		if u.Open != nil {
			u.Open.Replace(u.Row.State, next())
			u.Open.GoOnFrom(&u.Effects)
			continue
		}
		u.Of.Row, u.Of.Changed, u.Of.Effects, u.Of.Rev = u.Row, u.Changed, u.Effects, next()
	}
	tokens = ch.Tokens[to.tokens:]
	ch.Undo, ch.Tokens, ch.Records, ch.Ran = ch.Undo[:to.Undo], ch.Tokens[:to.tokens], ch.Records[:to.records], ch.Ran[:to.Ran]
	ch.Inner = ch.Inner[:to.inner]
	return tokens
}

// OverSince removes and returns the inner calls since a savepoint whose chains have ended: they have joined none
// of the waits that are still open.
func (ch *Chain) OverSince(sp Savepoint, open []string) (over []actor.KeyedCall) {
	kept := ch.Inner[:sp.inner]
	for _, in := range ch.Inner[sp.inner:] {
		if slices.Contains(open, in.Wait) {
			kept = append(kept, in)
		} else {
			over = append(over, in.Call)
		}
	}
	ch.Inner = kept
	return over
}

// PruneUndo drops the entries of a call that has ended which are not needed to take back the turn
// that called: of each actor the first state is enough. A turn may call the same actor without end,
// and each call replaces a whole state. undo had began entries when the turn began, and before when
// it called.
func (ch *Chain) PruneUndo(began, before int) {
	kept := ch.Undo[:before]
	for _, u := range ch.Undo[before:] {
		same := func(k Undo) bool { return k.Of == u.Of && k.Open == u.Open }
		if !slices.ContainsFunc(kept[began:], same) {
			kept = append(kept, u)
		}
	}
	clear(ch.Undo[len(kept):])
	ch.Undo = kept
}

// Ended forgets what called turns have left to a turn that is over: that of the turn itself is what
// counts.
func (ch *Chain) Ended(t OpenTurn) {
	ch.Undo = slices.DeleteFunc(ch.Undo, func(u Undo) bool { return u.Open == t })
}

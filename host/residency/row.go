package residency

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// Row is an actor's row as turns need it. It is immutable.
type Row struct {
	Version     uint64
	Exists      bool // there is a row, and it is no tombstone
	Life        uint64
	Born        time.Time // when the life before ended; zero: this is the first one
	Spawned     bool      // a turn made the actor
	MethodSet   string    // that the actor accepts; empty: all
	Generation  uint64
	StateSchema uint32
	State       *overlay.State
	UpdatedAt   time.Time
	// Damage is why the state cannot be decoded; then only Version is sure.
	Damage error
}

// VisibleVersion is the version as guests and callers see it: 0 when nothing is
// stored, also behind a tombstone.
func (l *Row) VisibleVersion() uint64 {
	if !l.Exists {
		return 0
	}
	return l.Version
}

// Dead reports whether the actor was spawned and is gone: it takes no calls.
func (l *Row) Dead() bool { return l.Spawned && !l.Exists }

// NoState is the state of an actor without a row.
var NoState = &overlay.State{}

// NewRow returns a row that the store has given.
func NewRow(row actor.Row) *Row {
	l := &Row{
		Version:     row.Version,
		Exists:      row.Version != 0 && !row.Deleted,
		Life:        row.Life,
		Born:        row.Born,
		Spawned:     row.Spawned,
		MethodSet:   row.MethodSet,
		Generation:  row.Generation,
		StateSchema: row.StateSchema,
		State:       NoState,
		UpdatedAt:   row.UpdatedAt,
	}
	if l.Exists {
		l.State, l.Damage = overlay.Decode(row.State)
	}
	return l
}

// After is what l becomes when w is written.
func (l *Row) After(w *actor.RowWrite, state *overlay.State) *Row {
	life, born, set := l.Life, l.Born, l.MethodSet
	if w.NewLife {
		life++
		born = time.Time{} // not known
	}
	switch {
	case w.Delete:
		set = ""
	case w.MethodSet != nil:
		set = *w.MethodSet
	}
	return &Row{
		Version:     w.NewVersion,
		Exists:      !w.Delete,
		Life:        life,
		Born:        born,
		Spawned:     l.Spawned,
		MethodSet:   set,
		Generation:  w.Generation,
		StateSchema: w.StateSchema,
		State:       state,
	}
}

// With is l with another state that a turn has left, and that is not committed.
func (l *Row) With(state *overlay.State, exists bool, generation uint64, schema uint32) *Row {
	next := *l
	next.State, next.Exists, next.Generation, next.StateSchema = state, exists, generation, schema
	return &next
}

// Bumped is what l becomes when w moves its version on and leaves all else: an actor
// without a row gets a tombstone.
func (l *Row) Bumped(w *actor.RowWrite) *Row {
	next := *l
	next.Version = w.NewVersion
	return &next
}

// damagedRows is a store's error for rows that it cannot read: package store
// has the type.
type damagedRows interface {
	error
	// VersionOf returns the version that fences a damaged row.
	VersionOf(key actor.Key) (version uint64, ok bool)
}

// ReadRow returns what a load gave: also a damaged row, which can still be deleted.
func ReadRow(key actor.Key, row actor.Row, err error) (*Row, error) {
	if err == nil {
		return NewRow(row), nil
	}
	if version, ok := DamagedVersion(err, key); ok {
		return &Row{Version: version, Exists: true, State: NoState, Damage: err}, nil
	}
	return nil, err
}

// DamagedVersion returns the version of a damaged row that can be addressed.
func DamagedVersion(err error, key actor.Key) (uint64, bool) {
	var damaged damagedRows
	if !errors.As(err, &damaged) {
		return 0, false
	}
	version, ok := damaged.VersionOf(key)
	return version, ok && version != 0
}

// Next returns a write of the next version of l.
func (l *Row) Next(key actor.Key) actor.RowWrite {
	w := actor.RowWrite{Key: key, ReadVersion: l.Version, NewVersion: l.Version + 1}
	if l.Version == 0 {
		w.NewVersion = actor.FirstVersion()
	}
	return w
}

// Tombstone returns the write that deletes l, under the generation of a deployment.
func (l *Row) Tombstone(key actor.Key, generation uint64) actor.RowWrite {
	w := l.Next(key)
	w.Delete = true
	w.Generation = max(l.Generation, generation)
	w.StateSchema = l.StateSchema
	return w
}

// PassAway returns the write with which the actor passes away.
func (l *Row) PassAway(key actor.Key, generation uint64) actor.RowWrite {
	w := l.Tombstone(key, generation)
	w.NewLife = true
	return w
}

// Bump returns the commit that moves the version of l on, and nothing else: behind
// it no earlier attempt can be applied.
func (l *Row) Bump(key actor.Key) actor.Commit {
	w := l.Next(key)
	w.Bump = true
	return actor.CommitOf(w)
}

// Record returns the commit that records a call of the actor and leaves l as it is.
func (l *Row) Record(r actor.IdempotencyRecord) actor.Commit {
	c := l.fenced(r.Actor)
	c.Records = []actor.IdempotencyRecord{r}
	return c
}

// Step returns the commit that steps the reminder of a firing on and leaves l as it is.
func (l *Row) Step(key actor.Key, e actor.ReminderEffects) actor.Commit {
	c := l.fenced(key)
	c.Reminders = e
	return c
}

// fenced returns a commit that rests on l and does nothing yet.
func (l *Row) fenced(key actor.Key) actor.Commit {
	return actor.Commit{ID: actor.NewCommitID(), Fences: []actor.RowFence{{Key: key, Version: l.Version}}}
}

// freeState is how much of a state the cost of an activation includes, so that turns of
// small ones need not touch the account.
const freeState = 1 << 10

// Cost is what the row counts for in memory beside its activation. A nil row costs nothing.
func (l *Row) Cost() int64 {
	if l == nil || l.Damage != nil {
		return 0
	}
	return max(0, int64(l.State.Memory())-freeState)
}

package host

import (
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// loaded is a row as turns need it. It is immutable.
type loaded struct {
	version     uint64
	exists      bool // there is a row, and it is no tombstone
	life        uint64
	generation  uint64
	stateSchema uint32
	state       *overlay.State
	updatedAt   time.Time
	// damage is why the state cannot be decoded; then only version is sure.
	damage error
}

// visibleVersion is the version as guests and callers see it: 0 when nothing is
// stored, also behind a tombstone.
func (l *loaded) visibleVersion() uint64 {
	if !l.exists {
		return 0
	}
	return l.version
}

var noState = &overlay.State{}

func newLoaded(row actor.Row) *loaded {
	l := &loaded{
		version:     row.Version,
		exists:      row.Version != 0 && !row.Deleted,
		life:        row.Life,
		generation:  row.Generation,
		stateSchema: row.StateSchema,
		state:       noState,
		updatedAt:   row.UpdatedAt,
	}
	if l.exists {
		l.state, l.damage = overlay.Decode(row.State)
	}
	return l
}

// after is what l becomes when w is written.
func (l *loaded) after(w *actor.RowWrite, state *overlay.State) *loaded {
	return &loaded{
		version:     w.NewVersion,
		exists:      !w.Delete,
		life:        l.life,
		generation:  w.Generation,
		stateSchema: w.StateSchema,
		state:       state,
	}
}

// bumped is what l becomes when w moves its version on and leaves all else: an actor
// without a row gets a tombstone.
func (l *loaded) bumped(w *actor.RowWrite) *loaded {
	next := *l
	next.version = w.NewVersion
	return &next
}

// damagedRows is a store's error for rows that it cannot read: package store
// has the type.
type damagedRows interface {
	error
	// VersionOf returns the version that fences a damaged row.
	VersionOf(key actor.Key) (version uint64, ok bool)
}

// asLoaded is what a load gave.
func asLoaded(key actor.Key, row actor.Row, err error) (*loaded, error) {
	if err == nil {
		return newLoaded(row), nil
	}
	if version, ok := damagedVersion(err, key); ok {
		return &loaded{version: version, exists: true, state: noState, damage: err}, nil
	}
	return nil, err
}

// damagedVersion returns the version of a damaged row that can be addressed.
func damagedVersion(err error, key actor.Key) (uint64, bool) {
	var damaged damagedRows
	if !errors.As(err, &damaged) {
		return 0, false
	}
	version, ok := damaged.VersionOf(key)
	return version, ok && version != 0
}

// nextRow returns a write of the next version of l.
func nextRow(key actor.Key, l *loaded) actor.RowWrite {
	w := actor.RowWrite{Key: key, ReadVersion: l.version, NewVersion: l.version + 1}
	if l.version == 0 {
		w.NewVersion = actor.FirstVersion()
	}
	return w
}

func tombstone(key actor.Key, l *loaded, s *served) actor.RowWrite {
	w := nextRow(key, l)
	w.Delete = true
	w.Generation = max(l.generation, s.deployment.Generation)
	w.StateSchema = l.stateSchema
	return w
}

// bumpOf returns the commit that moves the version of l on, and nothing else: behind
// it no earlier attempt can be applied.
func bumpOf(key actor.Key, l *loaded) actor.Commit {
	w := nextRow(key, l)
	w.Bump = true
	return actor.CommitOf(w)
}

// recordAlone returns the commit that records a call of an actor and leaves l as it
// is.
func recordAlone(l *loaded, r actor.IdempotencyRecord) actor.Commit {
	return actor.Commit{
		ID:      actor.NewCommitID(),
		Fences:  []actor.RowFence{{Key: r.Actor, Version: l.version}},
		Records: []actor.IdempotencyRecord{r},
	}
}

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

// after is what l becomes by a commit.
func (l *loaded) after(c *actor.Commit, state *overlay.State) *loaded {
	return &loaded{
		version:     c.NewVersion,
		exists:      !c.Delete,
		life:        l.life,
		generation:  c.Generation,
		stateSchema: c.StateSchema,
		state:       state,
	}
}

// fenced is what l becomes by a commit that moves the version on and leaves all
// else: the fence of an actor without a row is a tombstone.
func (l *loaded) fenced(c *actor.Commit) *loaded {
	next := *l
	next.version = c.NewVersion
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

// newCommit returns a commit of the next version of l.
func newCommit(key actor.Key, l *loaded) actor.Commit {
	c := actor.Commit{ID: actor.NewCommitID(), Key: key, ReadVersion: l.version, NewVersion: l.version + 1}
	if l.version == 0 {
		c.NewVersion = actor.FirstVersion()
	}
	return c
}

func tombstone(key actor.Key, l *loaded, s *served) actor.Commit {
	c := newCommit(key, l)
	c.Delete = true
	c.Generation = max(l.generation, s.deployment.Generation)
	c.StateSchema = l.stateSchema
	return c
}

// fenceOf returns the commit that moves the version of l on, and nothing else.
func fenceOf(key actor.Key, l *loaded) actor.Commit {
	c := newCommit(key, l)
	c.Fence = true
	return c
}

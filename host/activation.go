package host

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-run/greenroom/actor"
	"github.com/greenroom-run/greenroom/host/instance"
	"github.com/greenroom-run/greenroom/host/overlay"
)

// activation is the presence of one actor in memory.
type activation struct {
	key   actor.Key
	shard *shard

	// Guarded by the shard's lock.
	mailbox      callList
	retries      callList // calls that ran on dropped state; they come first
	admitted     int      // calls in the lists, in the batches, and the one that runs
	callBytes    int64    // their cost
	weighed      int64    // what the activation counts for in table.states
	busy         bool     // a worker or a commit exists; one of shard.work counts it
	working      bool     // a worker exists; always, while a call can be run
	lastUsed     time.Time
	newer, older *activation
	member       member
	drained      chan struct{} // if not nil, closed when there is no batch any more
	states

	// Changed by the worker, with the shard's lock; while the activation is idle,
	// by anyone who has the lock. The worker alone may read them without it.
	dedicated   *instance.Instance // of a type with dedicated instances
	sticky      bool
	idleTimeout time.Duration
	announced   bool   // Activated was called
	rev         uint64 // of tip's state, for the next turn

	// The worker's own.
	serving *served // what the latest turn ran under
	checked uint64  // ModuleSource.Changes when that was what serves the type
	paused  int     // for as many conflicts it has paused
}

func (a *activation) idle() bool { return !a.busy }

// empty reports whether the activation holds nothing worth keeping.
func (a *activation) empty() bool { return a.loaded == nil && a.dedicated == nil }

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

// load reads one row, together with others. A damaged one is a result, since it
// can still be deleted.
func (h *Host) load(ctx context.Context, key actor.Key, opts actor.LoadOptions) (*loaded, error) {
	row, err := h.loads.Load(ctx, key, opts)
	return asLoaded(key, row, err)
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

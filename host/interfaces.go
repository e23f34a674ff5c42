package host

import (
	"context"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/actor"
)

// ModuleSource says what serves an actor type.
type ModuleSource interface {
	// Current returns what serves the type now, from memory;
	// [actor.ErrTypeNotFound]. The specification is shared and read-only, its
	// defaults filled in.
	Current(app, typ string) (actor.Deployment, *abi.TypeSpec, error)
	// Changes is another number after anything that Current returns has changed,
	// so that it need not be asked for every turn.
	Changes() uint64
	// Refresh reads the deployments of an app again, after a row was met that
	// a newer generation wrote, or a call of what nothing here serves.
	Refresh(ctx context.Context, app string) error
	// ModuleBytes reads a module.
	ModuleBytes(ctx context.Context, app string, d actor.Digest) ([]byte, error)
}

// Committer is what the host needs of a store; package store documents the
// contract of each method.
type Committer interface {
	LoadActors(ctx context.Context, keys []actor.Key, opts actor.LoadOptions) ([]actor.Row, error)
	Commit(ctx context.Context, commits []actor.Commit) []error
	LockedTurn(ctx context.Context, key actor.Key, fn func(ctx context.Context, row actor.Row) (*actor.Commit, error)) (*actor.Commit, error)
	Settle(ctx context.Context, c actor.Commit) error
	Versions(ctx context.Context, keys []actor.Key) ([]actor.RowVersion, error)
	LoadIdempotency(ctx context.Context, calls []actor.KeyedCall) ([]actor.Recorded, error)
	// Shared reports whether other processes may write to the store.
	Shared() bool
}

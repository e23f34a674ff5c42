package turn

import (
	"context"

	"github.com/greenroom-run/greenroom/actor"
)

// Hosts says which host holds an actor. Its methods may be called concurrently.
type Hosts interface {
	// Session returns a context that ends when the session to the host breaks that holds an
	// actor now, or cannot be opened, or when that host is gone; nil if that is this host. It
	// waits until the holder is known, at most until ctx ends.
	Session(ctx context.Context, key actor.Key) (context.Context, error)
}

// Followers follows services for the watches of actors. Its methods may be called concurrently.
type Followers interface {
	// CanFollow reports whether this host has room for those services and groups of an app that it
	// does not follow already; names are different ones. It reserves none, so concurrent turns may
	// exceed the bound by a few names.
	CanFollow(app string, names []string) bool
	// Watch has heard called with who stands for a service or a group, as abi/SPEC.md has it: soon,
	// and when that has changed, by one goroutine at a time, until Stop. The list is shared and
	// read-only. Watch does not call heard itself.
	Watch(app, service string, heard func(list []byte)) Following
}

// Following is what [Followers.Watch] has begun. Its methods do not wait for heard.
type Following interface {
	// Again has heard called once more, within a second or so.
	Again()
	// Stop ends it: a call of heard that has begun ends later.
	Stop()
}

// WatchEffect is what a turn does to one watch of its actor.
type WatchEffect struct {
	Of       actor.Key       // an actor that the watched host holds; without a type: services of this name
	Method   string          // empty: the watch ends
	Session  context.Context //nolint:containedctx // as [Hosts.Session] returned it
	Services Followers       // nil for a host
}

// Size is what the watch takes in memory beside a fixed part, in bytes.
func (w *WatchEffect) Size() int64 { return int64(len(w.Of.ID) + len(w.Method)) }

package actor

import (
	"strings"

	"github.com/greenroom-run/greenroom/abi"
)

// ChildOption is a property of a volatile child: [SharedMailbox].
type ChildOption func(*uint32)

// SharedMailbox has a child take its turns from its parent's mailbox: of the parent and of all children
// that share its mailbox, one turn runs at a time, in the order in which calls and messages came. Without
// it, a child has a mailbox of its own and runs beside its parent.
func SharedMailbox() ChildOption { return func(flags *uint32) { *flags |= abi.ChildShared } }

// SpawnChild makes a volatile child of the actor and returns its address: an actor of the type
// that is kept in memory alone. It is gone, with its state, when its parent leaves memory, moves to
// another host, passes away or is deleted, when its host ends, and when it passes away itself.
//
// The child exists when the turn has committed: the turn itself can tell it something ([Tell]) and
// cannot call it ([ErrNotAtomic]). Its parent, the parent's other children and itself call it and
// tell it, and it calls and tells them; for all others it does not exist ([ErrPassedAway]), and nothing that
// is stored for others can be done by it: it has no reminders, timers, durable messages, events,
// services, watches, spawned actors and children ([ErrNoState]). What it does when it is called is committed
// or taken back with its caller's turn.
//
// An actor has at most 100 children ([ErrTooMany]). Types placed [PlacementAny] or
// [PlacementStateless] neither have children nor are children.
func SpawnChild(ctx *Context, typ string, options ...ChildOption) (Ref, error) {
	var flags uint32
	for _, option := range options {
		option(&flags)
	}
	id, code := spawnChild(ctx, typ, flags)
	if code != 0 {
		return Ref{}, lifeError(ctx, "spawn a child of", typ, "type", code)
	}
	return Ref{Type: strings.Clone(typ), ID: id}, nil
}

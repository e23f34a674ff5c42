// Package children has the volatile children of actors: actors without a row in the store, which
// the activation of their parent makes, and which end with it.
//
// # Families
//
// A family is the children of one activation. It begins with the first child that a turn of the
// parent spawns, and has a random name, which the ID of each child begins with: an ID is good for
// as long as that activation lives, and never again. IDs begin with a control character, so that
// no caller from outside and nothing durable can name a child ([actor.Key.IsAnonymous]).
//
// A family ends, with all children and their states, when its activation leaves memory,
// when the host loses the parent, and with the commit with which the parent passes away or is
// deleted. It ends at one moment; what children do meanwhile is refused afterwards.
//
// # Rows in memory
//
// To the host, a child is an actor like others: it has an activation, a mailbox, turns that run
// ahead of their commits, and a place in chains. [Store] makes that sound. It has the rows of children,
// and stands before the store with the store's contract: a commit is split, its children's part
// is applied when the store has applied the rest, and is dropped when the store refuses it. So
//
//   - a turn that is rolled back, refused, or run again leaves no child behind, and nothing of what it
//     did to children;
//   - a turn of the parent and turns of children that it has called are committed together;
//   - a turn of a child whose family has ended is refused as stale, and finds no actor when it
//     runs again.
//
// A commit that has children alone reaches no store. One that otherwise only fences other actors
// asks for their versions, where others write to the store.
//
// When the outcome of a commit is unknown, its children are in doubt, and so are those of a parent that it
// deletes: they are gone, unless settling decides. If it is never known, they stay gone.
//
// # Bounds
//
// A parent has at most [Max] children, those in doubt not counted. Their states count as
// those of activations do; evicting the parent frees them.
package children

// Package overlay holds an actor's state: what is committed, and what a turn
// makes of it.
//
// A [State] is committed state, decoded and immutable: any number of read-only
// turns may read one while later turns commit others. An [Overlay] is one turn's
// view of a State: reads fall through to it, changes stay in the overlay, and
// dropping the overlay drops them. [Overlay.Seal] makes the next State.
//
// # Invariants
//
//   - A State is never changed. Its values all alias one buffer, the encoded
//     state, so that an unchanged small value never keeps an old buffer alive.
//   - Entries are in ascending byte order of their keys, at rest and in memory.
//   - Two encodings of the same entries are the same bytes: a turn that leaves
//     the state as it was is recognized by comparing them.
//   - A revision, taken from [Revisions], names one visible state of one actor.
//     Every change takes a new one, and none is ever taken twice.
//   - What a guest hands over is copied; what is handed to a guest is valid
//     until the next call.
package overlay

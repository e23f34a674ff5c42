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
//   - A State is never changed. What its values alias, the state as it was stored
//     and what turns have set since, is at most a few times the state, so that a
//     small value does not keep a large buffer alive: above that it is encoded
//     anew, and its values alias that.
//   - A state is encoded when it is to be stored, not when it is sealed: turns
//     that share a commit encode once. Its size is known all the same.
//   - Entries are in ascending byte order of their keys, at rest and in memory.
//   - Two encodings of the same entries are the same bytes. A turn that leaves
//     every entry as it was leaves the state as it was, however it was written.
//   - A revision, taken from [Revisions], names one visible state of one actor.
//     Every change takes a new one, and none is ever taken twice.
//   - What a guest hands over is copied; what is handed to a guest is valid
//     until the next call.
package overlay

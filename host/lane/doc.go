// Package lane runs the turns of calls, each in the lane that its method and the placement of its
// type choose. A turn runs a guest on an instance, over the state that the lane reads; the lane
// commits its effects, or returns them to be committed.
//
//	Turns       the lanes that have a mailbox: warm turns, and the way into the next two
//	Locked      turns inside a transaction that has the actor's row
//	Stateless   turns of types that have no state
//	Reads       read-only methods, and queries about actors, beside everything else
//	Copies      states of actors that other hosts hold, for Reads
//	Recordings  the records of calls with idempotency keys
//	Reminders   changes of reminders by turns, and firings that were delivered before
//	Timers      changes of timers by turns, and the turns of due timers
//	Runs        a guest on an instance; a Run is one attempt of a call
//
// What a warm turn leaves is an Outcome, which package worker folds into a batch. The other
// lanes commit by themselves, and answer with what is committed.
package lane

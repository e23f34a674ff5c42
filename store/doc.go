// Package store is the contract between Greenroom and whatever keeps its data.
// It knows actors, not SQL: no transaction handle and no driver type leaves a
// driver. The drivers are store/sqlstore (CockroachDB and PostgreSQL) and
// store/embedded (one folder, one process); store/faultstore wraps any of them
// with faults, and store/storetest is the executable form of this text, which
// every driver passes.
//
// # What a store guarantees
//
//   - Durable: when Commit, LockedTurn or a module or deployment write has
//     answered without an error, a crash of the process, of the machine or of
//     the database loses nothing of it.
//   - Read durable: LoadActors, Versions, ListActors and the other reads never
//     show what a crash could still take back.
//   - Fenced: a commit applies only if the row still has Commit.ReadVersion.
//     0 means that there is no row at all; a tombstone is a row. A commit with
//     a version above 0 never inserts.
//   - Atomic: each commit of a group applies whole or not at all, and so does
//     each Deploy.
//   - Independent: a refused commit of a group harms no other one. A group
//     names an actor at most once.
//   - Once: a commit that records calls applies only if none of their keys is
//     recorded for its actor and their method; see Records below.
//   - Honest: an outcome that cannot be known is actor.ErrAmbiguous, never a
//     guess. Everything else that is not nil means: not applied, and never will
//     be.
//   - Settling: Settle turns an ambiguous commit into applied or never.
//   - Linearizable: an operation takes effect at one moment between its call
//     and its answer; LoadActors with AllowStale may show an earlier one.
//   - Contained: a damaged row harms its own actor alone, is never taken for an
//     empty one, and is never overwritten except by a commit that names its
//     version.
//
// # Errors
//
// actor.ErrStale, actor.ErrKeyExists, actor.ErrAmbiguous and actor.ErrUnavailable (no connection,
// no disk space, timeouts, a closed store), possibly wrapped; context errors,
// possibly wrapped, when the context ended before anything could apply;
// [*DamagedError] (actor.ErrStateDamaged) for rows that cannot be read;
// [*actor.ArgumentError] for a call that breaks this contract, before anything
// of it applies; the other sentinels where a method names them. A driver
// retries serialization failures (40001, 40P01) itself; when it gives up, the
// answer is actor.ErrUnavailable, since nothing was applied and the same
// commit may go again.
//
// # Versions
//
//	no row ──insert at a random version──▶ live ──update, version above──▶ live
//	                                        │  ▲
//	                                 delete │  │ update
//	                                        ▼  │
//	                                     tombstone ──sweep, after an hour──▶ no row
//
// A fence (Commit.Fence) is for whoever must be sure that an attempt whose outcome
// it does not know can never apply: it moves the version on, and changes nothing.
//
// Every applied commit but one of records alone moves the version up to its
// NewVersion, and writes its ID and database time into the row, and, unless it is
// a fence, Generation and StateSchema. What becomes of the state:
//
//   - Delete: none, and the row is a tombstone. Deleting a tombstone again
//     leaves a tombstone of a later version.
//   - Effects.State given: that state, and the row is live.
//   - Fence: a row of either kind keeps what it has; a new row is a tombstone.
//   - none of them: a live row keeps its state; a new row and a tombstone become
//     a live row of actor.FormatNone.
//
// # Sets
//
// A commit may have further rows (Commit.Others): of actors that a chain of turns
// changed, or only read. Its fence is then the conjunction of all of them, and one
// row that is not at its ReadVersion refuses the commit whole; its neighbours in
// the group never notice. Rows that were only read stay as they are, version,
// commit ID and time too. Every row that it writes gets its ID.
//
// No actor is named twice in a group, by whatever commits: the second of two that
// overlap is an [*actor.ArgumentError], and nothing of it applies. However a driver
// cuts a group, a set stays whole. A locked turn commits one row.
//
// # Records
//
// A commit may record calls (Effects.Idempotency), with its state, with a
// delete, or alone (actor.Commit.RecordsOnly). Its fence is a conjunction: the
// row at ReadVersion, and each key absent. All of it is decided before anything
// is written, and one miss refuses the commit whole: with actor.ErrKeyExists if
// a key is there, whatever the version, otherwise with actor.ErrStale. A commit
// that finds its own records was applied before; sent again, it is answered so.
//
// Records alone leave the row as it is, its version, commit ID and time too: of
// the actor there is then no row as before, if ReadVersion is 0. Their commit's
// ID is kept with them.
//
// A record answers until its TTL is over by database time. From then on it is
// neither loaded nor in the way, and a new one may take its place, swept or not.
// Deleting the actor leaves its records: the same call repeated after a delete
// gets the same answer. A record that cannot be read is in the way until it
// expires.
//
// # Reminders
//
// A commit may step, cancel and set reminders ([actor.ReminderEffects]), with rows or
// without. A step is a fence: a reminder that is not there at that version refuses the
// commit whole with actor.ErrFiringTaken, whatever the versions of its rows; only a key
// that is recorded goes first. So of two commits with the same step one applies.
// A commit that deletes an actor removes its reminders with it, and sets none.
//
// A reminder is found by its ID, by actor and name, by its bucket and the time at which
// it is to be delivered, and by its bucket and token. Setting a name that is there
// replaces that reminder, which has another ID from then on; or, if it is to be kept,
// does nothing. A reminder's times are kept to the microsecond.
//
// A bucket has one creator for ever, and one owner for each epoch. Reading, writing and
// delivering reminders asks for neither: both are so that nobody does it twice.
//
// # Settings
//
// What an app was given is stored by app, kind and name, one value each, without
// versions: the last write wins, and each is atomic. A replacement names the value
// that it replaces, so that it never undoes a write that came in between. The store
// does not know what the values mean; those of secrets are encrypted before they
// come to it.
//
// # Hosts and leases
//
// Processes that share a store have a row each, leased for a time that they renew, and
// take leases by name. The database's clock alone decides whether a lease is over, in
// the statement that acts on it. A row that is there was never cleared: renewing it
// proves that nobody has acted on its loss. A lease that is taken has an epoch above
// all earlier ones of its name. A store of one process keeps both in memory, and they
// go with it.
//
// # Settling
//
// Settle reads the row of an ambiguous commit c and decides:
//
//	row.CommitID == c.ID                          applied           nil
//	a record of c has its ID                      applied           nil
//	no row, c.ReadVersion == 0                    never             actor.ErrStale
//	settling c has put the row there              never             actor.ErrStale
//	row.Version == c.ReadVersion > 0              never             actor.ErrStale
//	0 < c.ReadVersion < row.Version
//	                        <= c.NewVersion       never             actor.ErrStale
//	c records alone                               never, or over    actor.ErrStale
//	anything else                                 nobody can tell   actor.ErrAmbiguous
//
// In the third case a tombstone at a random version is left, which the fourth
// knows by its commit ID ([FenceID]), and in the fifth the row's version is moved
// up by one, its CommitID and everything else kept: so that c, if it is still
// under way somewhere, can never apply. Of records alone nothing is left once they
// have expired, so that running their turn again is right either way. In the sixth
// another writer took c's place. For an insert that cannot be told: the row that
// is there may have come after one that c itself had made, since versions of a new
// row are random. A writer has one commit of an actor under way at a time: one
// that built on c before c was settled would find the version that settling left.
// Settling again gives the same answer, or ErrAmbiguous once the row has moved on
// past c.NewVersion, or past the tombstone. Of a set any row that it wrote proves
// all of it, and any that it should have written and another writer overtook
// proves that it never applied; to keep it out, its own row alone is fenced
// ([Evidence]). Within the hour for which tombstones
// are kept, no answer depends on what was swept.
//
// # Failures
//
//   - Crash before a write is durable: all of it or nothing of it is there
//     afterwards, and nobody was told that it is.
//   - Crash after a write is durable, before the answer: it is there; whoever
//     asked finds out by Settle, or by reading.
//   - Lost connection or failed sync during a commit: actor.ErrAmbiguous.
//   - A stale owner, however long it slept: refused by the version. A tombstone
//     refuses it for an hour after a delete, and after the sweep a version
//     above 0 finds no row; a re-created row starts at another random version.
//   - Database clock set back: versions decide everything about rows; their
//     times are for people and for the tombstone sweep. Records answer for longer
//     by as much, and for shorter when the clock is set forward.
package store

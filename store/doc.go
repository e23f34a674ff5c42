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
//   - Fenced: a commit applies only if each of its rows still has the version that
//     was read (RowWrite.ReadVersion, RowFence.Version). 0 means that there is no
//     row at all; a tombstone is a row. A write with a version above 0 never
//     inserts.
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
// A bump (RowWrite.Bump) is for whoever must be sure that an attempt whose outcome
// it does not know can never apply: it moves the version on, and changes nothing.
//
// Every applied commit moves the versions of the rows that it writes up to their
// NewVersion, and writes its ID and database time into them, and, unless it bumps
// them, Generation and StateSchema. What becomes of the state:
//
//   - Delete: none, and the row is a tombstone. Deleting a tombstone again
//     leaves a tombstone of a later version.
//   - State given: that state, and the row is live.
//   - Bump: a row of either kind keeps what it has; a new row is a tombstone.
//   - none of them: a live row keeps its state; a new row and a tombstone become
//     a live row of actor.FormatNone.
//
// # Sets
//
// A commit is an all-or-none set of rows that it writes (Commit.Rows), rows of actors
// that were only read (Commit.Fences), and a list for each other kind of effect. Its
// fence is the conjunction of what each of them asks for. All of it is decided before
// anything is written, and one miss refuses the commit whole; its neighbours in the
// group never notice. Most commits have one row, and some have none. Rows that are
// only fenced stay as they are, version, commit ID and time too: where there was no
// row there is none afterwards. A row that cannot be read is not as it was read.
//
// No actor is named twice in a group, by whatever commits, and no call recorded
// twice: the second of two that overlap is an [*actor.ArgumentError], and nothing of
// it applies. However a driver cuts a group, a set stays whole. A locked turn writes
// or fences its own row, and no other.
//
// # Records
//
// A commit may record calls (Commit.Records), of any actors, with whatever else it
// does or alone. Each key must be absent: if one is there the answer is
// actor.ErrKeyExists, whatever the versions, otherwise actor.ErrStale. A commit
// that finds its own records was applied before; sent again, it is answered so. The
// commit's ID is kept with its records.
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
// A commit that deletes an actor removes its reminders with it, and sets none. Of an actor
// with very many the caller removes most beforehand ([ThinReminders]).
//
// Settling takes a row that the commit writes: one with reminders and neither rows to write
// nor records is [actor.ErrAmbiguous]. A turn with reminders and nothing else therefore
// writes its actor's row as it is; for a step alone, the reminder itself tells.
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
// Settle reads the rows of an ambiguous commit c. One of them stands for it, its
// anchor (Commit.Anchor): of a commit of one row, that row. It decides:
//
//	a row that c writes has c's ID                applied           nil
//	a record of c has its ID                      applied           nil
//	c has no row                                  nobody can tell   actor.ErrAmbiguous
//	no row, and the anchor's read version is 0    never             actor.ErrStale
//	settling c has put the anchor's row there     never             actor.ErrStale
//	the anchor is at its read version, above 0    never             actor.ErrStale
//	0 < read version < a row's version
//	                        <= its new version    never             actor.ErrStale
//	c writes no row                               never, or over    actor.ErrStale
//	anything else                                 nobody can tell   actor.ErrAmbiguous
//
// In the fourth case a tombstone at a random version is left, which the fifth
// knows by its commit ID ([FenceID]), and in the sixth the row's version is moved
// up by one, its CommitID and everything else kept: so that c, if it is still
// under way somewhere, can never apply. Of records alone nothing is left once they
// have expired, so that running their turn again is right either way; without a row
// there is nothing to keep c out by. In the seventh
// another writer took c's place. For an insert that cannot be told: the row that
// is there may have come after one that c itself had made, since versions of a new
// row are random. A writer has one commit of an actor under way at a time: one
// that built on c before c was settled would find the version that settling left.
// Settling again gives the same answer, or ErrAmbiguous once the row has moved on
// past its NewVersion, or past the tombstone. Any row that c wrote proves all of it,
// and any that it should have written and another writer overtook proves that it
// never applied; to keep it out, its anchor alone is fenced ([Evidence]). Within the
// hour for which tombstones
// are kept, no answer depends on what was swept.
//
// # Copies
//
// A driver exports and imports all that a store has, as it is ([Movable]), so that a store
// can be moved to another driver while no host uses it ([Copy]). Whoever adds a kind of
// thing to a store adds it to [Contents].
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

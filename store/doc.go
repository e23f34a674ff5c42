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
//   - Read durable: LoadActors, ListActors and the other reads never show what
//     a crash could still take back.
//   - Fenced: a commit applies only if the row still has Commit.ReadVersion.
//     0 means that there is no row at all; a tombstone is a row. A commit with
//     a version above 0 never inserts.
//   - Atomic: each commit of a group applies whole or not at all.
//   - Independent: a refused commit of a group harms no other one. A group
//     names an actor at most once.
//   - Honest: an outcome that cannot be known is actor.ErrAmbiguous, never a
//     guess. Everything else that is not nil means: not applied, and never will
//     be.
//   - Settling: Settle turns an ambiguous commit into applied or never.
//
// # Errors
//
// actor.ErrStale, actor.ErrAmbiguous and actor.ErrUnavailable (no connection,
// no disk space, timeouts), possibly wrapped; context errors as they are; the
// other sentinels where a method names them. A driver retries serialization
// failures (40001, 40P01) itself.
//
// # Versions
//
//	no row ──insert at a random version──▶ live ──update, version above──▶ live
//	                                        │  ▲
//	                                 delete │  │ update
//	                                        ▼  │
//	                                     tombstone ──sweep, after an hour──▶ no row
package store

// Package store is the contract between Greenroom and whatever keeps its data. The contract
// knows actors, not SQL: no transaction handle and no driver type leaves a driver. The
// drivers are store/sqlstore (CockroachDB and PostgreSQL) and store/embedded (one folder,
// one process). store/faultstore wraps any driver with faults. store/storetest is the
// executable form of this text, and every driver passes it.
//
// # What a store guarantees
//
//   - Durable: after Commit, LockedTurn or a module or deployment write has answered
//     without an error, a crash of the process, of the machine or of the database loses
//     nothing of it.
//   - Read durable: LoadActors, Versions, ListActors, ScanActors and the other reads never show
//     what a crash could still take back.
//   - Fenced: a commit applies only if each of its rows still has the version that was read
//     (RowWrite.ReadVersion, RowFence.Version). Version 0 means that no row exists; a
//     tombstone is a row. A write with a version above 0 never inserts. A Deploy applies only if
//     each of its types has the generation before, and if the app's deployments have the Revision
//     that it names.
//   - Atomic: each commit of a group applies whole or not at all, and so does each Deploy.
//   - Independent: a refused commit of a group harms no other commit of the group. A group
//     names an actor at most once.
//   - Once: a commit that records calls applies only if none of their keys is recorded for
//     its actor and method.
//   - Honest: an unknown outcome is actor.ErrAmbiguous, never a guess. Any other error means
//     that the commit was not applied and never will be.
//   - Settling: Settle turns an ambiguous commit into applied or never.
//   - Linearizable: an operation takes effect at one moment between its call and its answer;
//     LoadActors and ScanActors with AllowStale may show an earlier moment.
//   - Contained: a damaged row harms its own actor alone, is never taken for an empty row,
//     and is overwritten only by a commit that names its version.
//
// # States of a row
//
//	no row ──insert at a first version──▶ live ──update, version above──▶ live
//	                                        │  ▲
//	                                 delete │  │ update
//	                                        ▼  │
//	                                     tombstone ──sweep, after an hour──▶ no row
//
// # Settling
//
// Settle reads the rows of an ambiguous commit c. One of them, its anchor (Commit.Anchor),
// stands for c; the anchor of a commit of one row is that row. The first case that matches
// decides:
//
//	1  a row that c writes has c's ID                applied           nil
//	2  a record of c has its ID                      applied           nil
//	3  c has no row, or writes no row and no record  unknown           actor.ErrAmbiguous
//	4  no row, and the anchor's read version is 0    never             actor.ErrStale
//	5  settling c has put the anchor's row there     never             actor.ErrStale
//	6  the anchor is at its read version, above 0    never             actor.ErrStale
//	7  0 < read version < a row's version
//	                           <= its new version    never             actor.ErrStale
//	8  c writes no row                               never, or expired actor.ErrStale
//	9  anything else                                 unknown           actor.ErrAmbiguous
//
// protocol.md beside this file has the rest of the contract, which storetest tests as well:
// errors, versions, sets, records, reminders, messages, settings, hosts and leases, why settling is
// right, copies, and the behaviour under each failure.
package store

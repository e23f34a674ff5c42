// Package sqlstore keeps actors, modules and deployments in CockroachDB or
// PostgreSQL. Which of the two it is, the database is asked at [Open].
//
// # Groups
//
// Commit sorts its commits by key and cuts them into groups of at most 256 rows
// and 4 MiB. A group is one pipelined batch up to one Sync: an UPDATE … FROM
// unnest(…) WHERE version = read_version for rows that exist, and an INSERT …
// ON CONFLICT DO NOTHING for those that must not. One state to set alone, which is what
// an idle host sends, takes a plain UPDATE of its row. Both databases run it as one
// implicit transaction. Which commits held is told by the commit IDs returned,
// and counts only once the Sync was answered without an error. A commit whose ID
// is missing is actor.ErrStale, and its neighbours never notice.
//
//	conflict (40001, 40P01)    the group again, after a random pause; in halves
//	                           from the fourth time on; 40 times at most
//	locked row (100 ms)        the rows that are free again, the locked ones one
//	                           by one, for LockWait
//	fault in one commit's data halves, until that commit is alone
//	no room, read-only         actor.ErrUnavailable
//	anything else              settled
//
// errors.go is the one place that decides which error is which. What it does not
// know it takes for an unknown outcome.
//
// The Binds of all statements of a group come before the first Execute, so that a
// group that arrives in part has locked nothing (unit.go).
//
// # More than one row
//
// A commit of one actor and nothing else is written as above. All others of a group,
// those of several rows and those that record calls, are decided and written by one
// statement (write.go) behind the plain ones:
//
//	taken      the commits of which a key is recorded
//	fenced     the rows that are only to be as they were read, and all of sets,
//	           that are still at read_version: locked until the batch ends
//	kept       the commits of which all such rows are there, and no key is taken
//	written    the UPDATE: of the sets that were kept, and of commits of one row,
//	           which it decides itself, at less than half of what locking first takes
//	held       the commits that hold, which is all that it returns
//	recorded   the writer of idempotency records: an INSERT of those of held
//
// Where a row must not be there, one is placed by a statement before it, so that
// there is one to lock or to write, and removed by one behind it if it is still as
// it was placed.
//
// A group with reminders, or with actors to delete, is written by the same statement with
// four clauses more (reminders.go), which cost the others nothing since they are left out:
//
//	due        the steps whose reminders are at their versions: locked
//	unmet      taken, and the commits with a step that is not among due; in its place
//	buried     the writer of dead letters
//	reminded   the writer of reminders: one INSERT … ON CONFLICT DO UPDATE for steps,
//	           cancellations and sets of all commits of held, and for the reminders of
//	           deleted actors. What is to be removed it only marks, since a table is
//	           written once in a statement; a DELETE behind it, in the same
//	           transaction, takes what is marked
//
// Commits that do no more to reminders than to remove some, as firings of those that fire
// once, are decided and written by a statement of their own in the same batch, whose writer
// of reminders is a DELETE.
//
// Commits that name the same reminder go one after the other.
//
// A new kind of effect adds a writer behind recorded, and its columns to changes:
// messages in and out each a clause that writes one table from
// unnest and joins held. What else a commit must find there, as a message that it
// consumes, is asked beside taken, which kept and
// written ask. Two things bind such a writer: it returns a column, and CockroachDB
// takes one write of a table in a statement. So what consumes messages and what
// sends them, if both are of one table, are two statements, the second behind this
// one and joining greenroom_actor by commit_id, which every commit but one of
// records alone leaves in its row.
//
// A set is one attempt: halving, bisecting and going around locked rows move it
// whole, and it counts as locked if any row of it is.
//
// # Records
//
// A commit that did not hold, or was settled as never applied, is asked for the
// reason afterwards: a key that is there is actor.ErrKeyExists. A key that came
// between deciding and writing, and an expired record in the place of a new one,
// fail the batch by the primary key (23505). Expired records of its calls are
// removed then, and the group goes again.
//
// Records are stored under a hash, which spreads them over CockroachDB's ranges,
// and indexed for the sweep by shard first, as tombstones are. On PostgreSQL new
// ones are all of one shard: writing to one end of an index takes less than to
// sixteen.
//
// # Ambiguity
//
// A connection lost in the middle, 40003 and errors that end the session leave a
// group in doubt. Settling first fences it out: rows still at the version that
// was read are moved on by one, and a tombstone is put where an insert would go.
// After that no statement that is still under way can apply, and comparing
// commit IDs decides. The driver tries for 5 s on connections kept for this; if it
// cannot, the commits are actor.ErrAmbiguous, and their owner calls Settle. A row
// that stays locked is asked for again and again, 100 ms at a time, so that those
// that are free are settled meanwhile.
//
// A session whose client is gone, and which holds what is to be settled, is ended:
// this store's own once their connections broke, another host's once its lease is
// over (sessions.go).
//
// Settling's fence is a version that a commit built on the lost one would also
// name, so a writer has one commit of an actor under way at a time.
//
// # Locked turns
//
// SELECT … FOR UPDATE, the turn, the conditional write, COMMIT: one transaction
// on a pool of its own, so that turns that wait never take the connections that
// commits need. An actor without a row gets a tombstone inside the transaction
// first, since there is no row to lock otherwise; it vanishes with a turn that
// commits nothing. The lock keeps others waiting. What keeps them apart is the
// version.
//
// On CockroachDB the loop is cockroach-go's. On PostgreSQL it is this package's:
// there RELEASE SAVEPOINT does not commit, and cockroach-go ignores the answer
// to the COMMIT behind it, which would acknowledge lost commits.
//
// A cancelled context ends waiting and the turn, never a COMMIT under way; the
// connection is then rolled back or closed, and leaves no lock.
//
// # Isolation
//
// READ COMMITTED on PostgreSQL, SERIALIZABLE on CockroachDB, unless the URL sets
// default_transaction_isolation. Every statement is right at both.
//
// # Migrations
//
// migrate.go lists the steps, each one idempotent DDL statement, run under a
// lease row in greenroom_schema. Processes that start together take turns, and
// one that loses its lease half-way has done no harm. A schema newer than the
// binary is refused. A new database on CockroachDB gets all steps in one
// transaction, in a twentieth of the time.
//
// # What CockroachDB made so
//
//   - An implicit transaction is retried by the server, an explicit one is not:
//     groups have no BEGIN.
//   - It retries only while the result is small: RETURNING is 16 bytes a row.
//   - FOR UPDATE is best effort: the version fences.
//   - A plain read waits for a row lock: AllowStale reads 4 s in the past, and
//     BesideLocks at READ COMMITTED and a high priority, which waits for none.
//   - A dead client's locks stay for a while: transaction_timeout and the like
//     are set where the server knows them.
//   - DDL commits what came before it, unless the session sets
//     autocommit_before_ddl: one statement a step.
//   - It takes statistics by itself, of an empty table too, and would then scan
//     that table whole for each key: sessions set disallow_full_table_scans, and
//     a statement that needs all rows names them by a range of the key. A scan
//     that skips locked rows is not bound by that: the probe has a hint.
//   - A lookup join has one bound of a range: recent reminders are read by a
//     statement for each range.
//   - A message has at most 16 MiB: groups are cut by bytes, modules stored in
//     chunks of 1 MiB.
//   - Times as keys make one hot range: tombstones are indexed by shard first,
//     and only deletes write to that index.
//   - Deleted rows stay at the front of an index for hours: the sweep starts
//     where the last one ended.
//   - A read of the past fails where the table is younger: it is read as it is
//     now, beside the locks.
//   - A WITH clause must return columns: each INSERT, UPDATE and DELETE in one
//     has RETURNING.
//   - An integer divided by one is a DECIMAL, and a cast of that rounds: div
//     truncates on both databases.
//   - A parameter of a function with several signatures, as length, has no type
//     of its own: it is cast.
//   - There are no advisory locks, xmin, ctid, LOCK TABLE, DO or MERGE to use.
//
// The statements keep to forms that CockroachDB's manual and sources show:
// DELETE … USING and AS OF SYSTEM TIME at the end of FROM, without parameters, in
// the manual; UPDATE … FROM … RETURNING, set-returning functions in FROM under FOR
// UPDATE, OF and SKIP LOCKED, 55P03, and what a read of a younger table answers in
// pkg/sql/logictest (update_from, select_for_update, as_of); unnest of several
// arrays among the builtins; lock_timeout, transaction_timeout and
// idle_in_transaction_session_timeout in pkg/sql/vars.go. WITH ORDINALITY is shown
// there of one table or list only, so keys carry their places. What only a server
// can show is run where GREENROOM_TEST_COCKROACH_URL names one, and not otherwise:
// there TestContract has both databases prepare every statement, and CockroachDB
// plan it under statistics of no, few and many rows.
//
// # What is tested with faults
//
// internal/pgproxy breaks the protocol at a chosen statement: lost before, in the
// middle of and after it, cut at a byte without a word to either end, late, or
// answered with another error. Groups, settling,
// locked turns, uploads, deployments and migrations are tested with it; PostgreSQL
// is killed under load; the contract runs at SERIALIZABLE with 40001 and 40003 at
// random.
package sqlstore

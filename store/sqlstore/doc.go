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
// # Records
//
// Commits with one actor and nothing else are written as above. Those that also
// record calls have statements of their own in the same batch:
//
//	update, with records    the same UPDATE; the rows that held hand their
//	                        first records on to an INSERT in the same statement
//	insert, further records the same, then an INSERT … SELECT that joins the
//	                        actor rows by commit ID
//	records alone           an INSERT … SELECT from the actor rows that are still
//	                        at read_version, FOR UPDATE, so that the fence holds
//	                        until the batch ends; for an actor without a row, one
//	                        is placed first and removed last
//
// A commit that did not hold is asked for the reason afterwards: a key that is
// there is actor.ErrKeyExists.
//
// Updates do not ask whether a key is there: it is new almost always, and the
// question takes a third of what recording takes. A key that is there all the
// same, one that came between deciding and writing, and an expired record in the
// place of a new one, fail the batch by the primary key. Expired records of its
// calls are removed then, and the group goes again, this time with the question,
// which leaves out those of which a key is there. So do the next 4,096 commits,
// which costs about what the failed group did: a client that repeats its keys
// makes its neighbours wait once in so many commits, and at most doubles what
// asking always would cost.
//
//	no key was found        nobody asks
//	23505                   the group goes again, asking, and all for a while
//	a key was found         for a while from now on
//	4,096 without           nobody asks
//
// Records are stored under a hash, which spreads them over CockroachDB's ranges,
// and indexed for the sweep by shard first, as tombstones are. On PostgreSQL new
// ones are all of one shard: writing to one end of an index takes less than to
// sixteen.
//
// # Sets
//
// Commits of several rows are decided and written by one statement for all of a
// group (sets.go), behind the plain ones: it locks the rows that are at the version
// that was read, holds the sets of which all are, and writes those. A row is placed
// first where none must be, and removed last if nothing was written over it. What
// else a set does is written by a statement for each kind of effect, which joins
// the rows by commit ID: a new kind adds a statement. A commit of one row keeps its
// plain conditional UPDATE, which takes less than half of that.
//
// A set is one attempt: halving, bisecting and going around locked rows move it
// whole, and it counts as locked if any row of it is.
//
// # Ambiguity
//
// A connection lost in the middle, 40003 and errors that end the session leave a
// group in doubt. Settling first fences it out: rows still at the version that
// was read are moved on by one, and a tombstone is put where an insert would go.
// After that no statement that is still under way can apply, and comparing
// commit IDs decides. The driver tries for 5 s on other connections; if it
// cannot, the commits are actor.ErrAmbiguous, and their owner calls Settle.
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
// binary is refused.
//
// # What CockroachDB made so
//
//   - An implicit transaction is retried by the server, an explicit one is not:
//     groups have no BEGIN.
//   - It retries only while the result is small: RETURNING is 16 bytes a row.
//   - FOR UPDATE is best effort: the version fences.
//   - A plain read waits for a row lock: AllowStale reads 4 s in the past.
//   - A dead client's locks stay for a while: transaction_timeout and the like
//     are set where the server knows them.
//   - DDL commits what came before it: one statement a step.
//   - A message has at most 16 MiB: groups are cut by bytes, modules stored in
//     chunks of 1 MiB.
//   - Times as keys make one hot range: tombstones are indexed by shard first,
//     and only deletes write to that index.
//   - Deleted rows stay at the front of an index for hours: the sweep starts
//     where the last one ended.
//   - A read of the past fails where the table is younger: it is read as it is
//     now, at READ COMMITTED and a high priority, beside the locks of turns.
//   - A WITH clause must return columns: each INSERT, UPDATE and DELETE in one
//     has RETURNING.
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
// can show is run where GREENROOM_TEST_COCKROACH_URL names one, and not otherwise.
//
// # What is tested with faults
//
// internal/pgproxy breaks the protocol at a chosen statement: lost before, in the
// middle of and after it, late, or answered with another error. Groups, settling,
// locked turns, uploads, deployments and migrations are tested with it; PostgreSQL
// is killed under load; the contract runs at SERIALIZABLE with 40001 and 40003 at
// random.
package sqlstore

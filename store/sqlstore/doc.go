// Package sqlstore keeps actors, modules and deployments in CockroachDB or PostgreSQL. It
// implements [store.Store]; package store states the guarantees. [Open] asks the database
// which of the two it is.
//
// The isolation level is READ COMMITTED on PostgreSQL and SERIALIZABLE on CockroachDB, unless
// the URL sets default_transaction_isolation. Every statement is correct at both levels.
//
// # Parts
//
// [Store] composes one type for each family of tables, in the file of its name. They share db.
//
//	db, pools, sessions      connections, and how statements and transactions are repeated
//	sharedPool               connections that apps share (internal/fair)
//	reaper                   the end of sessions whose clients are gone
//	dialect, errors          differences of the databases; what an error means
//	commits, group, unit     commits: sorted, cut into groups, sent as one batch
//	columns, changes         the statements of a group, and their parameters: of rows, of
//	recordColumns,           commits that are more than one row, of records and of reminders
//	reminderEffects
//	order                    commits that wait for earlier messages
//	outcomes                 why commits were refused; what became of those without an answer
//	lockedTurns              turns in a transaction that holds their row
//	actors, records          reads of rows and of recorded calls, and their sweeps
//	modules, deployments     modules in chunks, and which of them serves each type
//	reminders, deadLetters,  reminders, and the ranges of their tokens
//	buckets
//	cluster, settings        hosts and leases; settings
//	copier, migrate          export and import; the schema, step by step
//
// # Words
//
//	group     at most 256 rows and 4 MiB of commits, sent as one batch up to one Sync
//	set       a commit of more than one row; written whole, whatever the group is cut into
//	record    a call with an idempotency key, and its reply
//	plain     a commit of one actor and nothing else
//	anchor    the row that stands for an ambiguous commit (package store)
//	fence     a change of a row's version, or a tombstone, that keeps a commit out
//
// # Outcome of a group
//
//	conflict (40001, 40P01)     the whole group again, after a random pause; in halves from
//	                            the fourth attempt on; at most 40 attempts
//	locked row (100 ms)         the commits of free rows again; those of locked rows one by
//	                            one, for LockWait
//	fault in one commit's data  in halves, until that commit is alone
//	no space, read-only         actor.ErrUnavailable
//	anything else               settled
//
// errors.go alone decides the kind of an error. An error that it does not know counts as an
// unknown outcome.
//
// protocol.md beside this file has the rest: the statements of a group, records, settling,
// locked turns, migrations, and the limits of CockroachDB that shaped them.
package sqlstore

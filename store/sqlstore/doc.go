// Package sqlstore keeps actors, modules and deployments in CockroachDB or PostgreSQL. It
// implements [store.Store]; package store states the guarantees. [Open] asks the database
// which of the two it is.
//
// The isolation level is READ COMMITTED on PostgreSQL and SERIALIZABLE on CockroachDB, unless
// the URL sets default_transaction_isolation. Every statement is correct at both levels.
//
// # Parts
//
//	commit, group, unit      commits: sorted, cut into groups, sent as one batch
//	write, reminders         the one statement for commits of several rows, records, reminders
//	idempotency              records of calls
//	settle, sessions         ambiguous commits, and the sessions that may still apply them
//	locked, transaction      locked turns, and transactions in general
//	load                     reads of actors
//	deploy, modules          deployments, and modules in chunks
//	cluster, buckets         hosts and leases; buckets of reminders
//	settings, sweep, copy    settings; removal of what has expired; export and import
//	migrate                  the schema, step by step
//	dialect, errors, retry   differences of the databases; what an error means; repetition
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

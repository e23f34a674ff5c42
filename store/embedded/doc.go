// Package embedded keeps actors, modules and deployments in one folder, with Pebble: no
// server, one process, durable by default. It implements [store.Store]; package store states
// the guarantees.
//
// One goroutine, the writer, performs every write in turn. It reads what the write depends
// on, decides, and applies one batch to the log's buffer and to memory. From then on the
// batch is readable but not yet durable: its sync is pending. The caller waits for the sync of
// its batch, while the writer continues with the next one. So one sync of the log covers all
// batches that came meanwhile.
//
//	caller ──task──▶ writer: read, decide, apply ──batch───▶ caller: sync ──▶ answer
//	                    ▲                            │
//	                    └── next task, without wait ─┘
//
// [Store] composes one type for each family of keys, in the file of its name. They share the
// writer, which embeds what all of them read with (core).
//
// # Invariants
//
//   - Decisions are serial, so a fence holds from its check to its write.
//   - The log is written in the order of the decisions. When a batch is durable, every
//     earlier one is.
//   - A read registers nothing beforehand. It reads, and then waits for the syncs of the
//     batches that it may have seen: for a load, those that may have its keys; for a range, the
//     latest one. So a read never shows what a crash could take back.
//
// # Layout
//
// Keys of the database, integers big-endian, 0x00 where a name ends:
//
//	actor/  app||type||id             the row: row.go
//	tomb/   micros app||type||id      a tombstone, by the time from which it may be swept
//	module/ app 00 digest             a module's description
//	chunk/  app 00 digest number      1 MiB of its bytes
//	upload/ app 00 digest             chunks are being written
//	deploy/ app 00 type 00 generation a deployment
//	current/app 00 type               the newest generation
//	record/ 16 bytes                  a recorded call: storedrecord.go
//	expiry/ micros 16 bytes           recorded calls, by the time when they expire
//	setting/app 00 kind 00 name       a setting of an app
//	service/app 00 name               who stands for a service: services.go
//	stands/ app 00 type 00 id 00 name a service that an actor stands for
//	reminder/app 00 type 00 id 00 name a reminder or a message: reminderrecord.go
//	token/  prefix vector token       the key of the reminder with that ID
//	due/    prefix vector bucket micros token what a bucket has to deliver, by time
//	dead/   prefix vector token micros a dead letter
//	bucket/ prefix vector index       a bucket: buckets.go
//	lap/    app                       its prefix, vector and next bucket
//	meta/   format | clock            the layout's version; the latest time written
//
// An actor's row has the storage key app||type||id||state without the last part: the
// keyspace implies that part, and a suffix would put "a!" before "a". With the ID at the
// end, the keys of a type sort as the IDs do. The range of a type is exact, since neither
// an app nor a type can contain a '|'.
//
// protocol.md beside this file has the rest: how recorded calls are found, why states are
// written whole, damage, and the behaviour under each failure.
package embedded

// Package embedded keeps actors, modules and deployments in one folder, with
// Pebble: no server, one process, durable by default. It implements
// [store.Store]; what that promises is written there.
//
// # How a write becomes durable
//
// One goroutine, the writer, takes every write in turn. It reads what the write
// depends on, decides, and applies one batch: to the log's buffer and to memory.
// From then on the batch is readable, but not yet durable: it is in flight.
// Whoever asked waits for the sync of its batch, while the writer goes on with
// the next one, so that one sync of the log covers all that came meanwhile.
//
//	caller ──task──▶ writer: read, decide, apply ──flight──▶ caller: sync ──▶ answer
//	                    ▲                            │
//	                    └── next task, without wait ─┘
//
// Invariants:
//
//   - Decisions are serial, so a fence holds from its check to its write.
//   - The log is written in the order of the decisions; when a flight has
//     landed, every earlier one has.
//   - A read registers no interest beforehand. It reads, and then waits for the
//     flights that could have been under it: those that may have its keys for a
//     load, the latest one for a range. So it never shows what a crash could
//     take back.
//
// # Layout
//
// Keys of the database, integers big-endian, 0x00 where a name ends:
//
//	actor/  app||type||id             the row: row.go
//	tomb/   micros app||type||id      a tombstone, by the time it was written
//	module/ app 00 digest             a module's description
//	chunk/  app 00 digest number      1 MiB of its bytes
//	upload/ app 00 digest             chunks are being written
//	deploy/ app 00 type 00 generation a deployment
//	current/app 00 type               the newest generation
//	record/ 16 bytes                  a recorded call: idempotency.go
//	expiry/ micros 16 bytes           recorded calls, by the time when they expire
//	setting/app 00 kind 00 name       what an app was given
//	reminder/app 00 type 00 id 00 name a reminder: reminders.go
//	token/  prefix vector token       the key of the reminder with that ID
//	due/    prefix vector bucket micros token what a bucket has to deliver, by time
//	dead/   prefix vector token micros a dead letter
//	bucket/ prefix vector index       a bucket: buckets.go
//	lap/    app                       its prefix, vector and next bucket
//	meta/   format | clock            the layout's version; the latest time written
//
// An actor's row has its storage key app||type||id||state without the last
// part: the keyspace says that already, and a suffix would put "a!" before "a".
// With the ID at the end, keys of a type sort as the IDs do, and the range of a
// type is exact, since neither an app nor a type can contain a '|'.
//
// # Recorded calls
//
// A commit that records a call must know that its key is not recorded. It is
// almost never, and to search for it would cost as much as to write the record,
// so the writer has filters in memory, of up to 32 MiB, for some 20 million
// records, and searches only where they say that it may be there. They are never
// wrong about a key that is there: every record is added before it is applied,
// and a filter goes when all its records have expired. Records for which there
// was no room are not lost, they only make the writer search: for every key,
// until the last of them has expired. So do those of an earlier process, until
// their IDs have been read from the index of expiries, beside what else goes on.
//
// A record in the place of an expired one is written over it unseen. The index
// then has an entry for each of the two; the sweep goes by the time in the
// record.
//
// # Large states
//
// A commit writes the whole state again, however little of it changed. Writing
// the difference instead (a merge operator, or a log of patches a row) would
// need the patch in the contract, since finding it in two encodings of 1 MiB
// costs about what writing them does; every load, list and fence would have to
// fold patches; and a damaged patch would take all later ones with it, where now
// a row is damaged alone and replaced whole. A state has 1 MiB at most, so that
// was not worth it.
//
// # Damage
//
// A row's header and its state carry their own CRC-32C, the header's covering
// the key as well. A row with a sound header and a damaged state keeps its
// version; one with a damaged header gets a number made of its bytes in place
// of the version. Either way the row fences, and can be deleted or replaced by
// a commit that names that number, and by no other. As long as the writer
// remembers a row's version from writing it, that is its version still, so a
// healthy writer mends what it goes on to write. Damage of a whole block of
// a Pebble file is found by Pebble's checksums: the rows in it can be neither
// read nor addressed (version 0), all others can; ListActors ends with
// actor.ErrUnavailable where it meets such a block.
//
// The log is replayed up to its end; where later records tell that a damaged
// place was whole once, Open refuses the folder instead of taking the place for
// the end. That fails for damage in about the last 64 KiB, or amid writes of
// many blocks: there it looks like a write that a crash cut off.
//
// # Failures
//
//   - The process or machine dies: opening replays the log. What was
//     acknowledged is there; what was not is there whole or not at all.
//   - Little disk space left (Config.MinFreeBytes): writes are refused with
//     actor.ErrUnavailable before anything of them applies, reads go on, and
//     writes are taken again when there is space. Deleting modules and sweeping
//     tombstones stay possible.
//   - A flush fails: writes are refused until one succeeds, since otherwise
//     memory would fill up and writes would hang. Pebble tries again by itself.
//   - Writing or syncing the log fails, or Pebble gives up (its Fatalf, which
//     would end the process): the store is failed for good. Commits under way
//     are actor.ErrAmbiguous, everything later is actor.ErrUnavailable, Close
//     leaves the folder locked, and the remedy is a new process: after a failed
//     sync nobody knows what the kernel still holds, and Pebble may hang in the
//     middle of a write, so nothing is served from memory any more. That includes
//     a log that fails just when Pebble changes to the next one: logfs.go.
//   - A second process or a second Open of the folder is refused.
//   - The clock goes back: times do not. They never pass behind a time already
//     written.
package embedded

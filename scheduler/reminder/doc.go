// Package reminder delivers reminders. It decides when each one is due, hands out the tokens
// that name new ones, keeps those that are due soon in memory, and asks for their turns until
// one of them has committed.
//
// It guarantees that every firing is delivered, never before its time by the database's clock,
// and that no actor, type or app delays another. It does not make a firing take effect once:
// the commit of the turn does that, since it moves the reminder on under the version that was
// read ([actor.ReminderStep]).
//
// [Planner] (schedules), [Wheel] (time), and [Allocate], [Surplus], [Shed] and [Retire]
// (buckets) decide; they read no clock and send nothing. [Service] acts on their decisions.
// [Admin] serves callers who set and manage reminders outside of turns.
//
// A message is a reminder of its receiver that another actor, or a caller from outside, has set
// (host/inbox). It is delivered like one, and in addition without a read of the store, in the
// order of its sender's messages, and with an end of its own if nobody consumes it.
//
// # Parts of a service
//
//	owner        takes buckets over, reads and sweeps them, gives them up (the goroutine that
//	             polls the store); its allocator acts while this instance leads
//	creators     hand out tokens
//	pending      what is in memory, under one lock; what is due and unread is dealt by app
//	outcomes     how a reminder goes on that was read from memory: done, read again, set aside
//	deliveries   read and plan what is due; dispatch deals the places of deliveries by app
//	steps        commit what no turn commits, dealt by app
//	lines        order the messages of each sender to each receiver; wholes has messages in memory
//	subscribers  execute what has no actor; takeovers fetch it from other instances
//	tenure       whether this process may deliver
//
// # Words
//
//	occurrence   a time that a schedule names
//	firing       one delivery of an occurrence, or of one that stands for several
//	ordered      a message that takes effect after all earlier ones of its sender to its receiver
//	step         what the commit of a firing does to the reminder: its next occurrence, or its end
//	token        the number that names a reminder, together with its app's prefix and the vector
//	             of its lap; no two reminders have the same
//	bucket       a range of 100,000 tokens
//	lap          one use of an app's 32-bit range of tokens; each has its own vector
//	creator      the only host that ever creates reminders in a bucket
//	owner        the instance that delivers the reminders of a bucket
//	epoch        counts the owners of a bucket
//	window       how far ahead the owner has read the reminders of its buckets
//	notice       a message from a commit to the bucket's owner: this was set, this is gone
//	leader       the instance that assigns buckets without an owner; any instance can lead
//	rate         deliveries begun per second, recently, of a bucket or of an instance
//	busy, hot    a bucket with a rate of at least 100, of at least 500; an instance is hot with
//	             a rate above 1,000 that is half as much again as the mean
//
// # States of a reminder
//
//	         set                    its time comes             commit of its turn
//	(none) ──────▶ waiting ◀──┐ ────────────────────▶ firing ───────────────────▶ (gone)
//	               │  ▲       │                       │   │       it was the last
//	         pause │  │resume │  commit: next         │   │
//	               ▼  │       ├───────────────────────┘   │
//	              paused      │  failed: attempts left    │ failed: none left
//	                          ├───────────────────────────┤
//	                          └───────────────────────────┘ and the firing becomes a dead letter
//
// # States of a bucket
//
//	           allocated to a creator       spent, hot, or its host is gone     closed for an hour,
//	(next) ───────────────────────────▶ open ────────────────────────────▶ closed ──────────▶ (gone)
//	                                                                       no reminders left
//
//	        assigned, epoch + 1             nothing of it is running, or the owner is lost
//	free ───────────────────────▶ owned ──────────────────────────────────────────────▶ free
//
// protocol.md beside this file has the rest: occurrences, how buckets move, how the store is
// searched, subscribers, the invariants, and the behaviour under each failure.
package reminder

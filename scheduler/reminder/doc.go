// Package reminder delivers reminders: it says when one is due, gives out the tokens
// that new ones are named by, keeps those that are due soon in memory, and has their
// turns run, each of them until one was committed.
//
// Nothing here makes a firing take effect once: the commit of its turn does, which
// steps the reminder on under its version ([actor.ReminderStep]). What rests on this
// package is that every firing is delivered, in time, not before it is due by database
// time, and that no neighbour is held up.
//
// What decides is pure: [Planner] for schedules, [Wheel] for time, [Allocate] and
// [Surplus] for buckets. They neither read a clock nor send. [Service] performs it, and
// [Admin] is for those who set and look after reminders from outside of turns.
//
// # Words
//
//	occurrence   a time that a schedule names; there is a fixed row of them
//	firing       one delivery of an occurrence, or of one that stands for several
//	step         what a firing's commit does to its reminder: on to the next
//	             occurrence, or over
//	token        the number that names a reminder, with its app's prefix and its lap's
//	             vector; never used twice
//	bucket       a range of 100,000 tokens
//	creator      the host that creates from a bucket; the only one that ever does
//	owner        the scheduler instance that delivers a bucket's reminders
//	epoch        counts the owners of a bucket
//	lap          one use of an app's 32-bit range of tokens; each has its own vector
//	window       how far ahead of now an owner has read the due reminders of its buckets
//	notice       word of a commit to the owner of a bucket: this was set, this is gone
//	leader       the instance that gives buckets without an owner to one; any can
//
// # A reminder
//
//	         set                    its time comes             commit of its turn
//	(none) ──────▶ waiting ◀──┐ ────────────────────▶ firing ───────────────────▶ (gone)
//	               │  ▲       │                       │   │       it was the last
//	         pause │  │resume │  commit: next         │   │
//	               ▼  │       ├───────────────────────┘   │
//	              paused      │  failed: attempts left    │ failed: none left
//	                          ├───────────────────────────┤
//	                          └───────────────────────────┘ and the firing a dead letter
//
// All of that is one row: FireAt says when it is to be delivered, Due which occurrence
// that is, Failures how often it failed. So an instance that starts knows everything
// from the rows. A firing that is under way is not marked in the store: it is only in
// the owner's memory.
//
// # Occurrences
//
// A schedule names a fixed row of occurrences, whatever happened to earlier ones: every
// day at nine stays at nine after an outage. When one is delivered late enough that
// others have come due, the missed policy says what that delivery stands for:
//
//   - collapse: for all that are due; the next one is the first after now.
//   - skip: those that are due are passed over, but for the newest one if it is not
//     later than the policy allows.
//   - catch up: each is delivered, at once and in order; of more than the limit the
//     oldest are passed over.
//
// In a time zone, an expression whose hours are restricted names times on the wall: one
// that the zone skips is moved to the end of the gap, and one that the zone repeats
// occurs at the first. An expression for every hour names moments, as they pass: it
// knows neither gaps nor repetitions.
//
// # A bucket
//
//	           allocated to a creator       spent, or its host is gone     closed for an hour,
//	(next) ───────────────────────────▶ open ───────────────────────▶ closed ──────────────▶ (gone)
//	                                                                       no reminders left
//
//	        assigned, epoch + 1             executions are over, or it is lost
//	free ───────────────────────▶ owned ─────────────────────────────────────▶ free
//
// A creator gets its next bucket from the store when 95 % of the present one are used, and
// owns it at first. When it is gone the rest of its bucket stays unused: nobody can say how
// far it came. The leader deals buckets without an owner to the instances in turn, those in
// use apart from those at rest; an instance with more than its share gives some up. A
// bucket that is given up is first delivered no more, then what is under way is awaited,
// then it is free. An owner that is lost is waited for until what it had under way has
// timed out. A bucket that is closed and empty is removed, and its range is used again in
// the next lap, under another vector.
//
// All of that is conditional in the store on the row's epoch. The leader's lease keeps
// instances out of each other's way; nothing rests on it.
//
// # Subscribers
//
// A reminder whose key is [actor.SubscriptionKey] is for no actor: it waits for a
// subscriber of that name, which is a client that holds a stream open at any instance
// ([Service.Subscribe]).
//
//	       its time comes            a subscriber has capacity             done: its step is committed
//	(wheel) ───────────▶ waiting ─────────────────────────▶ executing ─────────────────────────────▶ (gone, or wheel)
//	                        ▲  │                                │ failed: to its next attempt, or a dead letter
//	                        │  │ released to an instance        │
//	                        │  │ that has a subscriber          │
//	                        │  ▼                                │
//	                        │ (stopped for 10 s) ──▶ moved      │
//	                        └───────────────────────────────────┘ no answer in time, or the stream has ended
//
// What waits is an ID in memory, read anew and planned when it is executed: so the missed
// policy is that of the moment. There is no limit to how long it waits, and no attempt is
// counted. Subscribers of one name are asked in turn, each for no more at a time than it
// said.
//
// The subscriber may be at another instance than the bucket. An instance that has
// subscribers with capacity asks every other one to release what waits for them
// ([Service.Release]); each answers as soon as there is something. The old instance stops
// what it releases, and its answer is the acknowledgement. The new one takes the reminder
// over: one commit removes it under its ID and version and sets it with a token of the new
// instance's own bucket. From then on it fires there, with a new ID. If the new instance
// does not own the bucket that it creates from, it borrows: it executes the firing where it
// is, and the reminder stays.
//
// The fence is the version, not the acknowledgement: of a take-over and a firing under way
// that was committed, one finds the other done, and does nothing. If the answer is lost, or
// the new instance, the old one reads the reminder again after 10 s: it is gone, or goes
// on as before. A token is taken by its creator alone, for a take-over as for a creation.
//
// # Invariants
//
//   - No token is handed out twice: a bucket has one creator for ever, which counts
//     upwards and forgets the bucket when it ends.
//   - A bucket has one owner per epoch, and the row decides which.
//   - A process begins a delivery only while it cannot have been taken for gone; so nothing
//     of a lost owner's is under way when its lease has run out for as long as an execution
//     takes, and then its buckets get another.
//   - An owner delivers no firing before its FireAt by database time, and none of one
//     reminder while another of it is under way.
//   - Every reminder of an owned bucket whose FireAt is inside of the window is in the
//     wheel, under way, or found by the next look at recent tokens (2 s) or at what is
//     due (30 s).
//   - Memory is bounded by the window: nothing is read ahead while the wheel is full.
//   - Deliveries under way and waiting are bounded for each actor, type and app. What is
//     above waits in the store and is looked at again: a type that is slow delays itself.
//
// # Failures
//
//   - A turn fails: the reminder is stepped on by a commit of its own to its next
//     attempt, or past the occurrence, which then is a dead letter.
//   - Its type or its method is not deployed: the firing waits, without using up an attempt
//     and however long that is; why it waits is written into its row, once.
//   - A host has no capacity, or no store: likewise, at shorter intervals.
//   - A host does not answer: the firing is delivered again when its time is out. If the
//     first delivery was committed, the second finds the reminder stepped on, before its
//     guest runs.
//   - A notice is lost: a look at recent tokens, every 2 s, finds what was set; what was
//     removed is met when it is to be delivered, and is then dropped.
//   - A commit is held up, and its notice lost: a look at what is due goes back further
//     than a turn takes, and every hour to the beginning of the bucket.
//   - A subscriber does not answer in time, or its stream ends: the firing is executed
//     again, by any subscriber. An answer that comes later is ignored.
//   - A subscriber's answer is there, and the store is not: the step is committed when it
//     is back, and the subscriber is not asked again, unless the instance is lost before.
//   - More wait for subscribers than memory is there for: those above it are left in the
//     store, and read when a subscriber comes.
//   - An instance is lost: its buckets get other owners, which read the rows. One that
//     stood still delivers nothing until it has read whose they are.
//   - A reminder is paused or resumed by another process than its bucket's owner: the owner
//     finds it with the next look at what is due.
//   - The leader is lost: nothing moves until there is another. Creators go on with the
//     buckets that they have.
//   - A creator is lost: its bucket is closed; its reminders stay.
//   - An instance is taken for lost and is not: it is another one from the next look at
//     the store on, which owns nothing and creates from new buckets.
//   - A delivery's time is out: it is no failure of the actor's, and goes again.
//   - The store is down: nothing is delivered. Afterwards what is due is due, and the
//     missed policies say what becomes of it.
//   - An instance's clock is set: nothing. Times are the database's, counted on by the
//     monotonic clock, and measured again every 2 s. The database's clock set forward:
//     reminders are due earlier by as much, and leases end early; set back: later, and
//     who is lost is missed later by as much. How long something has been so (an owner
//     gone, a bucket closed) is counted by the local clock.
//   - The store is slow to give a bucket: only who sets a reminder of that app waits.
//
// # Proof
//
// TestSimulation runs several processes over a database, hosts and a network that fail, on
// a virtual clock, and follows every occurrence of every reminder by a model of its own.
// TestSimulationFindsSabotage shows that it finds what it looks for. On real processes,
// package internal/crash kills servers while reminders fire (TestKillReminders).
package reminder

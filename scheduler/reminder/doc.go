// Package reminder delivers reminders: it says when one is due, gives out the tokens
// that new ones are named by, keeps those that are due soon in memory, and has their
// turns run, each of them until one was committed.
//
// Nothing here makes a firing take effect once: the commit of its turn does, which
// steps the reminder on under its version ([actor.ReminderStep]). What rests on this
// package is that every firing is delivered, in time, not before it is due by database
// time, and that no neighbour is held up.
//
// What decides is pure: [Planner] for schedules, [Wheel] for time, [Allocate], [Surplus],
// [Shed] and [Retire] for buckets. They neither read a clock nor send. [Service] performs
// it, and [Admin] is for those who set and look after reminders from outside of turns.
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
//	rate         of a bucket or an instance: deliveries begun a second, lately
//	busy         of a bucket: has a rate of 100 or more
//	hot          of an instance: has a rate above 1,000 and half as much again as the mean;
//	             of a bucket: has a rate of 500 or more
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
// After the end of its schedule a reminder delivers what is at most a minute late, and what
// failed before, and passes over the rest: nothing fires hours after the time that was named
// as its end.
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
//	                                          or it is hot                 no reminders left
//
//	        assigned, epoch + 1             executions are over, or it is lost
//	free ───────────────────────▶ owned ─────────────────────────────────────▶ free
//
// A creator gets its next bucket from the store when 95 % of the present one are used, and
// owns it at first. When it is gone the rest of its bucket stays unused: nobody can say how
// far it came. The leader deals buckets without an owner to the instances in turn, those in
// use apart from those at rest; an instance with more than its share gives some up. Busy
// buckets are neither dealt nor given up by number, but by rate: see below. A
// bucket that is given up is first delivered no more, then what is under way is awaited,
// then it is free. The buckets of an owner that is lost go to others when its lease has run
// out and a leader has seen that for a look. A bucket that is closed and empty is removed, and
// its range is used again in the next lap, under another vector.
//
// All of that is conditional in the store on the row's epoch. The leader's lease keeps
// instances out of each other's way; nothing rests on it.
//
// # Hot buckets
//
// An owner measures the rate of each bucket and writes it into the row when it has changed
// by a quarter, and by 10. An instance that is hot gives up a busy bucket at a time, which the leader
// deals to the one that delivers the least, as long as that makes the shares more even. A
// bucket that is open stays with its creator: that instance hears of what it sets at once,
// and another would find it with its next look at recent tokens.
//
// A bucket is always one owner's: the row's epoch is what every fence rests on, and the
// order in which the store has what is due is by bucket, so that each of two owners would
// read the other's reminders as well. What is split instead is the app's load, over buckets: a
// creator leaves one that is hot, once it is a minute old, for its next one. The old one is
// closed, and can be given to others as a whole; what is set from then on is in another.
// So a bucket gets as hot as what is set within about a minute makes it, and not much hotter.
//
// One instance alone delivers, as fast as it can: what was set that fast; what is set and
// fires within moments, which is where it was set; and a bucket that gets hot after it was
// closed. The turns run where their actors are, all the same.
//
// # Looks at what is due
//
// A database keeps what was deleted of the index by time for hours, and whoever reads there
// meets it: at a thousand firings a second, millions of entries. So no statement reads more
// of that index than what came due within 15 minutes, or than 6 hours ago, which the
// database has collected by then; and no look begins at the oldest reminder that is left,
// which may wait for a subscriber for ever while others fire. A sweep, every 30 s, begins
// where the last one had settled what is due: all that is older is in memory. What is left
// of it is found from the one that was the oldest before, which is one entry while that
// waits. All that is due is looked at beside that, one statement at each sweep. An owner
// whose bucket's row does not say how far it is delivered, since no owner had it for as
// long as that takes, begins at the beginning, by the same steps.
//
// A sweep alone says how far a bucket is delivered, every 30 s, though progress is saved
// every 2 s. Memory cannot: a commit that no notice came of is in the store only. To say
// it more often would save the next owner half a minute of the five that it reads again,
// in which it finds no more than what was not delivered.
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
// does not own the bucket that it creates from, it borrows: one commit puts the reminder off
// until the time for an execution is out, and it executes the firing and steps the reminder on
// where it is. So nobody else does meanwhile, whoever owns the bucket, and its owner is told how
// it goes on.
//
// Who follows reminders by their IDs ([Follower]) finds the new one: the commit of a take-over
// records it under the old one, for reminders that recur. A follower looks every 2 s whether
// what it follows still waits under its ID, in the index by token, and reads what does not.
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
//   - A process delivers only while it cannot have been taken for gone: its deliveries end
//     within 250 ms of its own count of its lease, which is over before the lease is. So nothing of a
//     lost owner's is under way when its buckets get another, but for the turns of actors that
//     other hosts hold, which the next delivery waits for in their mailboxes, and subscribers.
//   - What a lost owner's subscribers may be at is given to others when the time for an
//     execution is out; what is due later is not held up. Until then its bucket is given up by
//     nobody, and one whose owner stops has lost that one, too.
//   - Neither a step nor a take-over sets a reminder for a time before which its bucket may be
//     said to have nothing left to deliver: the next owner would not look there.
//   - A process that may have been taken for gone gives its buckets new epochs before it
//     delivers again.
//   - An owner delivers no firing before its FireAt by database time, and none of one
//     reminder while another of it is under way.
//   - Every reminder of an owned bucket whose FireAt is inside of the window is in the
//     wheel, under way, or found by the next look at recent tokens (2 s) or at what is
//     due (30 s).
//   - Memory is bounded by the window: nothing is read ahead while the wheel is full.
//   - A firing is delivered as fresh, so that nobody looks whether it was taken before its
//     turn runs, only by the one owner that its bucket ever had, or if it came due under
//     this one, and the first time. Only where the database's clock was set back,
//     or forward, which ends leases before their time, may a second delivery be taken for a
//     first; and one that is under way for long, such as to a
//     host that stands still, may be overtaken there by a second. Then its guest runs for
//     nothing: what it sends to the outside is preceded by a look, and the commit is refused.
//   - Deliveries under way are bounded for each actor, type, app and in all; those that wait,
//     with their payloads, for each actor (16) and type (1,024), whatever the number of types.
//     What is above waits in the store, and is read again once there is room for it: a type
//     that is slow delays itself.
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
//   - A bucket is open and another instance's than its creator's: its owner finds what is set
//     with its next look at recent tokens, 2 s.
//   - A commit is held up, and its notice lost: a look at what is due goes back further
//     than a turn takes, and all that is due is looked at within every hour.
//   - A subscriber does not answer in time, or its stream ends: the firing is executed
//     again, by any subscriber. An answer that comes later is ignored.
//   - A subscriber's answer is there, and the store is not: the step is committed when it
//     is back, and the subscriber is not asked again, unless the instance is lost before.
//   - More wait for subscribers than memory is there for: those above it are left in the
//     store, and read when a subscriber comes.
//   - An instance is lost: its buckets get other owners, which read the rows, within the
//     lease and three looks, 6 s. One that stood still delivers nothing until it has read
//     whose they are.
//   - A leader that stood still, and takes an instance for gone that is back, gives its buckets
//     to nobody: they have other epochs by now.
//   - A reminder is resumed by another process than its bucket's owner: that one is told, or,
//     if it does not hear of it, finds it with the next look at what is due. One that was
//     paused it meets when it is to be delivered.
//   - The leader is lost: nothing moves until there is another. Creators go on with the
//     buckets that they have.
//   - A creator is lost: its bucket is closed; its reminders stay.
//   - A creator is lost when it has left a hot bucket and not closed it: the leader does.
//   - Rates are lost, late or wrong: buckets are where they need not be, and nothing else.
//   - An instance is taken for lost and is not: it is another one from the next look at
//     the store on, which owns nothing and creates from new buckets.
//   - A retry of a dead letter breaks off: its reminder is there and paused, or delivers the
//     firing, or is not there, and the retry that is repeated finds out which ([Admin.Retry]).
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
// package internal/crash kills servers while reminders fire (TestKillReminders), and
// internal/cluster breaks the members of a cluster in every way it knows (TestThreeHosts).
// What guarantee 6 promises of a firing is tested on every store in internal/guarantees.
package reminder

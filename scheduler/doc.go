// Package scheduler decides, in a cluster, which host holds which actor: who is a
// member, who leads, which ranges of a ring type belong to whom, and who owns a sticky
// actor. Every process of a cluster has one; the one that leads allocates, the others
// are ready to.
//
// Nothing here is needed for writes to be right: every commit is fenced by the version
// that it read. What rests on this package is that an actor is in one place, so that
// hosts do not refuse each other's commits, and that what is answered without a commit
// is current.
//
// What decides is pure: [Leader] and [Tables] where it leads, [Member] and [Holdings] at
// each host, and package placement take what happened and the time, and say what
// follows; they neither read a clock nor send. [Service] performs it.
//
// # Words
//
//	host         one incarnation of a process: it has a random ID of its own, and
//	             a process that starts again is another host
//	host row     the store's row of a host: its address, and until when it is leased
//	lease        the time for which a row holds, on the database's clock; its holder
//	             counts it on its own monotonic clock, from before it asked
//	leader       the host that holds the leader's lease
//	term         one holder's time as leader, numbered by its epoch
//	session      one stream of a host to a leader; a host numbers its own, upwards
//	claims       what a host holds and owns, sent as a session begins
//	hold         to be the one host that may run the actors of a range of a type
//	own          the same for one sticky actor
//	reader       of a range: a host that may answer read-only methods of its actors,
//	             which another one holds
//	settled      of what an earlier holder sent to the store: it cannot land any more
//	clean        of a range: all that its earlier holders sent is settled
//	group        types that have one table between them, by a number of the leader's
//	cleared      a host row that a leader removed after its lease had run out
//
// # Times
//
// Durable times are the database's. A process never compares its wall clock with
// another's: it renews a lease by a statement that sets it to the database's now plus
// the length, and counts from the moment before it sent that statement, on its own
// clock, for 98 % of the length ([Usable]): clock rates may differ by 1 % on
// either side. So a holder's count ends before the lease does.
//
// A process's own clock (clock.go) is the monotonic one and what the wall clock and the
// boot clock ran ahead of it, in jumps: the monotonic one stands still while the machine is
// suspended. So a count ends when any of the clocks says so, and a clock that is set
// forward costs a pause until the next renewal. The wall clock is looked at with each
// answer, the boot clock at each renewal.
//
// # A host
//
//	            row inserted                 renewed in time
//	(started) ───────────────▶ current ◀───────────────────────┐
//	                             │  its count ran out           │
//	                             ▼                              │
//	                           paused ──── renewed: row there ──┘
//	                             │ renewed: row gone, or it leaves
//	                             ▼
//	                           ended: a new host is needed
//
// A paused host begins no turn of a sticky actor and answers nothing without a commit.
// When it then renews its row it goes on where it was: a row that is still there was
// never cleared, so that nobody was given its actors. Losing the leader, or the stream
// to it, changes nothing for the actors that a host holds.
//
// # A term
//
//	            lease taken, epoch + 1         every host that was registered then
//	(standby) ─────────────────────────▶ gathering ─ has claimed, or is cleared ─▶ granting
//	    ▲                                    │                                        │
//	    └───────────────── the leader's own count ran out, or it resigned ────────────┘
//
// A new leader starts with an empty table. It reads the host rows after its lease began,
// and grants nothing until each host in them has sent its claims or has been cleared: then
// all that any earlier leader granted is in the table or void. A host that registers
// later cannot have been granted anything before.
//
// # Hosts that do not reach each other
//
// A process may keep its leases and be of no use to the others: its key is another one, it
// advertises an address that nobody reaches, or they speak no protocol in common. It must
// neither lead nor be waited for, and nobody but the database can tell (reach.go):
//
//   - A leader counts, at each reading of the rows, the other hosts with a lease, and their
//     sessions. With others and no session but its own for two leases it resigns, and for
//     ten leases takes only a lease that nobody has wanted for the length of one. Of two
//     hosts that do not reach each other none is the better leader: the one that leads
//     stays, once it can grant.
//   - Until another host has had a session in its term, a leader that sees two others
//     grants nothing. It would give everything to its own host, for which each
//     later leader would have to wait.
//   - A host that has had no session with a leader for two leases, refused or without an
//     answer, though the store says who leads, ends, removes its row and registers as another one, if it holds nothing and may run
//     nothing of any types either: once in a term.
//     The leader does not wait for rows that came after its first reading.
//
// None of it gives an actor a second holder. Resigning is what a leader does that stops: it
// grants and clears nothing any more, and the next one gathers. Granting later is always
// right. The host that gives its row up holds nothing, and ends under the same lock under
// which that is found: what an order or a grant would give it afterwards is of an
// incarnation that has ended and does not take it, and what its leader believes to have
// given it is void, and not clean, once the leader reads that the row is gone.
//
// What cannot be told apart from outside is a host that holds actors and answers its own
// callers, and one that is of no use: neither its row nor its actors are taken from it, and
// a new leader waits for it ([Leader.Missing]).
//
// # Acquisition of a sticky actor
//
//	host                               leader
//	 │ session n of epoch e, claims      │  claims replace what the host was known to own;
//	 ├──────────────────────────────────▶│  earlier sessions of the host count no more
//	 │ acquire                           │
//	 ├──────────────────────────────────▶│  free, or the host's own: its owner now
//	 │                granted | owner is │
//	 │◀──────────────────────────────────┤
//	 │ release, after the last turn      │
//	 ├──────────────────────────────────▶│  free
//
// # A range that moves
//
// Actors of all types but any and stateless ones are run only by the host that holds
// them. The leader computes a type's table from the hosts that can run it, and has what
// is elsewhere handed over: a few ranges at a time ([maxMoving]), so that an actor
// pauses for little more than its own hand-over, and what waits for its turn is served
// where it is. What stays never pauses, and other types are not concerned.
//
//	          LOCK to all hosts           all holders released        the new ones said so
//	(settled) ─────────────────▶ releasing ─────────────────▶ updating ───────────────────▶ settled
//	                             │  or are cleared   UPDATE to the      UNLOCK to all hosts
//	                             │                   new holders
//	     calls wait              ▼
//	     holders stop admitting, finish what has begun, drop the activations, and answer
//
// At most [maxMoving] ranges of a type move at a time, [maxTogether] by one LOCK. Those that
// take long, since turns do, hold up others no more after a quarter of a lease, up to
// [maxSlow] in all.
//
// LOCK, UPDATE and UNLOCK name the group of types, the ranges and a version that identifies
// their answers. A range that nobody holds is given at once. A range may have several
// hosts: each holds the points that rendezvous hashing gives it, and the range moves as
// a whole. Before a type's policy changes everything of it is handed over, sticky actors
// too ([Order.WithSticky]); from ring to static, back, and from one list of static hosts
// to another, only what moves.
//
// # Groups of types
//
// Servers mostly run the same types, so that most tables are the same: what is the same is
// known once, moved by one order, and sent once. The leader has one table for the types of
// which all hosts report the same, by the same policy, and which the same hosts hold. It
// numbers it as a group, and tells all hosts by a FORM which types that is. Then a change of
// the hosts costs the leader and each host as much as with one type. A range of a group moves
// with the actors of all its types; as few of each type's actors pause at a time as if the
// types moved one by one.
//
// A table is divided when its types have to be told apart: by what hosts report, by what a
// host claims, or since a part of one type is to move because of its heat. Each part is then
// as far as the whole was, and an answer to an order that was about the whole is about both.
// An order that is repeated in another session has another version: it is about one of the
// parts alone. Two tables become one once nothing of either moves, and they differ by no more
// than what is clean, by the leader's FORM; what is clean in one alone is then not, for an
// hour at most ([ripeAfter]).
//
// A host does not rely on that: what it knows of types that a group unites, and that differs,
// it keeps in tables of its own, which get the same orders, and unites them when they are
// alike. Its table is a list of chunks that do not change (heldRanges): an order makes those
// chunks anew in which something changes, and a view shares the others.
//
// Orders that follow from one event go to a host in one message, and come into force
// together. A leader divides an order for a host of a version that knows no groups into one
// for each type, and takes the answers together (ungrouped); a host claims type by type from
// a leader of such a version, and takes its orders so.
//
// # Types that nobody holds
//
// Actors of any types are run by every host that the leader has told so, under the lock
// of their rows, as long as its lease lasts; stateless ones keep nothing, and need neither.
// A holder answers from memory, so before such a type gets holders all hosts have to have
// stopped. (A host that knows only the older deployment refuses rows that the newer one
// wrote. But a fence and a record leave a row as it is, and make its holder as sure.) That is a LOCK of the whole type, as with every change of policy: a host gives
// nothing of it a turn any more, nor the row to a turn that waited for its lock, ends what
// runs, and answers; one that does not answer is cleared when its lease is over. What is
// then given is not clean, since a commit may still land whose row was read before.
//
//   - A host that knows another deployment than the leader runs nothing by that: not as
//     held what the table says is anywhere, and the other way round.
//   - A host that no leader has told anything ([Holdings.Told]) runs nothing of any types,
//     whatever it has read: their actors may be held. So nobody has to wait for it, be it
//     that it never reaches the leader. From then on a type without a table is a new one,
//     and is run at once if it is any; all tables stay while nobody leads.
//   - A leader without a table of a type has it LOCKed first if a host has not reported
//     the newest deployment, unless that is the type's first one: it may run an older one.
//     One that has reported it runs no other, nor gives a row to a turn that began so.
//
// The other way would be that new holders begin at once, and ask the store for whatever
// they answer without a commit until the leader says that all hosts know the deployment: no
// call would wait. But that all know it is not enough, since turns that began before may
// get their rows later: hosts would have to end those and to say so, which is what a LOCK
// does; and what is held would be of a third kind, which orders, claims and each commit
// under way have to tell from the others, for a change that is rare and pauses one type
// for as long as its turns take.
//
// The messages are those of every LOCK, so that no protocol version tells them apart. A
// host of the version before ends what runs and answers, but may still give rows to what
// it had admitted, and run what another host passes on to it; a leader of that version
// has nothing LOCKed.
//
// # Readers
//
// In a type ring:N each range of the ring has N hosts. It is divided into parts, and
// rendezvous hashing gives each part to one of them: that one holds it, as a range of any
// ring type is held, and moves, locks and claims know nothing else. So what is held keeps
// to one holder, a host that comes or goes moves only what it gets or had, and heat moves
// parts. The others are the part's readers. An UNLOCK names them beside the host that
// calls go to; where they alone change there is an UNLOCK and nothing else, and a LOCK
// leaves them as they are, so that reads need not wait for a hand-over, nor for the lease
// of a host that crashed.
//
// Readers rest on nothing that is decided here. A reader never writes, and confirms each
// answer in the store after it was asked for: an answer is as new as the holder's, if the
// table that made the host a reader is old, too. So nothing is handed over when readers
// change, they are claimed from nobody, and a new leader computes them. A host that
// drains, or whose count has run out, is none.
//
// In turn a holder must not answer what is older than a reader's answer: as long as a
// commit of its own is under way, which readers may see in the store already, it asks the
// store too (package host). So a leader names readers of a type only once all hosts that
// can run it have reported that policy, and that they know of readers: while one of an
// older version is among them, all calls go to the holders.
//
// # Partitions
//
// A checkout type's partitions are leased from the store (checkout.go). The leader says
// only when that may begin, by an UNLOCK with the policy, and has all partitions checked in,
// by a LOCK, before another policy is in force; a host's claims name the types for whose
// partitions it competes, with or without any, so that a new leader knows the policy. A
// host's count of its lease ends with the first count of a partition's.
//
// The ranges of a static type are the parts that its formula gives its hosts, which are
// known by name. The part of a host that is away, or drains, is held by nobody, and calls
// of it are told so ([placement.Where]). A host that is there under a name gets the part
// once no other holds it.
//
// A process that only leads ([RoleScheduler] alone) is told all of that and gets none of
// it. It reports its types nevertheless: from them the leader knows which deployment is
// the newest.
//
// A new leader gathers what each host holds from its claims, as for sticky actors, before
// it orders anything. A host whose session ends goes on with what it holds, also if it
// was about to hand it over: nobody else can have been given it.
//
// # Heat
//
// Each host counts the calls that it answers, a sample of them, by type and cell: one of
// 16,384 equal parts of the hash space. It reports the cells that stand out every
// [Config.HeatEvery], and the leader smooths that. When nothing moves and all hosts have
// reported lately, [placement.Cooling] may name one step: a range of the hottest host, or
// a side of a cut through it, goes to the one that has least to do; without a hot host,
// what is cold goes back. Parts that were moved lie over the ring's table
// ([placement.Table.WithMoved]) for as long as their host is there, and move like any other
// range. Orders and claims mark what they hold so, and a new leader learns it from them;
// what it does not know is the heat, so that it decides nothing for some reports.
//
// # Weights
//
// A host announces with its hello what it has for actors ([placement.Resources]). The
// weights that follow from that ([placement.Weights]) say how much of the ring of sticky
// types each host gets. Such a range says who acquires new actors: it moves without a
// hand-over, and an actor that has an owner stays. So it can follow the weights, which are
// relative to the mean and may change for all hosts when one comes or goes. A range of a ring
// type takes its actors along, and pauses them; so the rings of these types know no weights,
// and what equal parts make too much for a small host is moved by heat, which counts calls by
// weight.
//
// The leader alone computes rings, and by the same hellos each leader computes the same. All
// hosts have said hello when it begins to grant, so that a change of leaders moves nothing.
// A host has one weight for all types, so that weights never tell types of a table apart. The
// mean is of the hosts that do not drain and that not only lead, connected or not: a
// session that ends changes nothing. A host of an earlier version announces nothing, and is
// a mean one. A leader of an earlier version knows no weights: when the lease goes between
// versions, ranges of sticky types move, and none of their actors.
//
// # Clean or not
//
// A host that was cleared may have sent commits that land later, when it was frozen: the
// row's version still lets them in. So an UPDATE says whether all earlier holders
// released in order what they held clean themselves. If not, the new one holds it as
// [actor.Held]: it answers from memory alone only after a commit of its own. What a host
// has held for an hour ([ripeAfter]) is clean again.
//
// # Invariants
//
//   - One holder: at any moment at most one host that may run anything has turns of an
//     actor under way, what it is handing over included.
//   - A host takes an order only in its newest session, and answers a LOCK after the
//     hand-over.
//   - What is held as clean has no commit of an earlier holder under way.
//   - While an actor is held, no other host begins a turn of it as one that nobody holds.
//   - One owner: at any moment at most one host may begin a turn of a sticky actor, be it
//     frozen, cut off or deposed ([Member.MayRun]).
//   - A host takes a grant only in the session in which it asked, from a leader of the
//     newest epoch that it has met, and while it has not ended.
//   - A host that has sent its claims to a leader owns what they say and what that
//     session grants, nothing that was granted elsewhere.
//   - A leader acts only while its own count lasts, and clears a row only by a statement
//     that finds the row's lease over and its own epoch in force.
//   - What a leader knows of a host's actors is void once the host is cleared, whatever
//     arrives from it later.
//
// The model in model_test.go holds [Leader] and [Member] to one owner over every history
// of two hosts and two leaders within its bounds; random histories in tables_test.go hold
// [Tables] and [Holdings] to one holder, and to settling. docs/scheduler-model.md says
// what they explored. Package internal/sim runs the service itself, with all that uses it,
// in clusters whose network and database fail.
//
// # The service
//
// Each process has a [Service], with these loops:
//
//   - the row's: it renews it each quarter of a lease, sooner after a failure, under no
//     lock that orders take; what follows from a renewal is another loop's. When the
//     row is gone it ends the incarnation: nothing is held from that moment, all
//     activations are dropped ([Actors.DropAll]), and the process registers as another
//     host.
//   - the election's, if the process may lead: it reads the leader's lease and tries to
//     take it when it is over. A leader renews it, under no lock either, reads the hosts' rows each quarter of a
//     lease, when one runs out and when a session begins of a host that it does not know,
//     one reading after the other, and serves the sessions. A new one clears no row for an
//     eighth of a lease: after a time without the database the others are about to renew.
//   - the session's: it asks the store who leads, connects, and reconnects with growing
//     pauses; after a long time in vain it has the row's loop give the row up, if nothing is held. A process that leads has a session with itself, within its memory.
//
// A session is one stream (scheduler.proto). The host sends hello, types and claims, then
// answers to orders, acquisitions, releases, changes of its types and heartbeats; the
// leader sends members, orders, answers and heartbeats. When a host reports a newer
// deployment of a type, or none any more, the leader tells the others that their types are
// outdated, so that they read them ([Config.ReadTypes]) before anybody asks for them. A hand-over that is under way when
// the session ends is given up, and its ranges are held again.
//
// [Service.Ready] says whether calls through this process would wait.
//
// What is asked with each call ([Service.Find], [Service.Holds], [Service.Current]) reads a
// view that is replaced whole, and takes no lock but that of a part of the sticky actors.
//
// Drain: the host tells the leader, which moves its ranges to the others, before any that
// move for another reason; then it hands over its sticky actors and releases them, some at
// a time. It has drained when the leader has said who has all of that, which it waits for
// as long as a lease at most. A host that stops drains, ends its loops, and removes its row
// when nothing runs any more; until the process ends it knows where calls go. One that is
// alone has nobody to drain to. A leader that stops leads while it drains. It then gives its
// lease back, and ends the sessions: whoever may lead looks at once whether anybody does.
//
// # Failures
//
//   - Host crashes: its lease runs out, the leader clears its row, and its actors are
//     free. Until then they are answered by nobody.
//   - Host frozen: the same; when it wakes its count has run out, so that it does nothing
//     before it has renewed, and finds its row gone.
//   - Host cut off from the database alone: it pauses when its count runs out, and is
//     cleared like a crashed one. Once it has tried in vain for a lease to renew its row, it
//     has calls fail that would wait for it, or for a sticky actor to be acquired
//     ([placement.Where.Lost]): what it held may be elsewhere, which nobody can tell it.
//   - Registration whose outcome is unknown: the next try is another host's. The row may
//     be there, and be cleared before that try, and a host that was cleared is never
//     let in again by the leader that cleared it.
//   - Host registers while a leader reads the rows: that reading says nothing about it, and
//     the next one has it.
//   - Host cut off from the leader alone: it keeps what it holds and acquires nothing; what
//     would move to it goes elsewhere, and what it was asked to hand over stays; what it
//     holds is not moved before it can be asked, or its row is gone. A new
//     leader waits for its claims for as long as it renews its row: [Leader.Missing] names
//     it. If it holds nothing it registers anew, and is not waited for.
//   - Leader that no other host reaches: it resigns after two leases. Until then, and until
//     the next one has gathered, nothing is granted; what is held stays.
//   - Leader crashes or is frozen: hosts keep what they own. The next one is elected when
//     the leader's lease has run out. A grant of the old one that is still under way is
//     claimed from the new one, or void.
//   - LOCK lost, or its answer: the stream broke. The host's next claims say what it still
//     holds, and it is asked again.
//   - UPDATE lost: the next claims do not have it, and it is given again.
//   - A partition's lease cannot be renewed, and its host's row can: the host pauses when
//     the count of that lease is over, until it is renewed or the partition is given up.
//   - Host with partitions crashes: once its row is cleared the others release its leases
//     in its name. A host without a row runs nothing, and its ID does not come back.
//   - Host that runs any types is cut off from the leader alone, and one of them is to get
//     holders: they begin when it has reached the leader, or has no row any more.
//   - Hand-over that takes long, since a turn does: its ranges wait, and nothing else.
//   - Grant lost: the leader holds the host for the owner; the host asks again, and the
//     answer is the same. If the stream broke, the next claims free the actor.
//   - Release lost: the same.
//   - Messages of a broken stream that arrive late: they carry an old session and are
//     ignored.
//   - Database down: leases cannot be renewed; hosts and leader pause as their counts
//     run out, and go on when it is back, unless another was quicker.
//   - Wall clock of a process set forward beyond its lease: it pauses until it has renewed
//     its row. Set back: nothing. Machine suspended: as frozen, unless neither clock
//     tells, as that of a virtual machine may not. Database clock set forward: leases run out
//     early for their holders' rivals; by less than a lease, at worst two owners for that
//     long, and the fence holds. Set back: failover takes longer by as much.
package scheduler

// Package host runs turns: it keeps actors in memory, gives each of them one
// turn at a time, runs guests against an overlay of their state, and lets a
// reply go only when what it rests on is durable.
//
// What happens within a turn is package turn's, over the overlay of the state that
// package overlay has; which commit carries it, and what runs again when that fails,
// is decided by package speculation; package instance keeps instances, and package
// pipeline groups what goes to the store. This one is what holds them together:
// admission, mailboxes, activations, and what is answered.
//
// Its parts, from the top down; none calls one that stands above it, but to say what
// became of a batch or a call:
//
//	Host           what others call
//	admission      where a call runs, and what it gets
//	workers        mailboxes, batches, answers: what package speculation decides is done
//	turns          one run of a call of an activation, in any lane with a mailbox
//	reads          read-only methods, and looks at actors
//	runs           a guest on an instance
//	recordings     calls with idempotency keys that were made before
//	reminders      what turns do with reminders, and firings that were taken before
//	timers         what turns do with timers, and the turns that timers ask for
//	deployments    what serves a type
//	table          activations, in shards; ownership has which there are, and what is current
//	storage        what is asked of the store
//
// It declares the interfaces that it needs and knows neither Wasm nor a
// database: [engine.Engine] runs guests, [ModuleSource] says which, [Committer] keeps
// actors.
//
// # Lanes
//
// The method and the type's placement choose the lane of a turn, when it starts:
//
//	lane       for                  holds the actor still by       commits by
//	warm       ring, sticky         its activation's one worker    Commit, under the version
//	locked     any                  the same, and the row's lock   LockedTurn, under the version
//	read-only  read-only methods    nothing: committed state       never
//	stateless  stateless types      nothing: there is no state     never
//
// Every turn of the first two lanes goes through the actor's mailbox, so an
// actor is never in two lanes at once, also while a deployment changes its
// placement: the worker looks at the deployment anew for each turn. The other
// two run on their caller's goroutine, and the caller of an actor of the warm
// lane that has no worker is its worker for that one turn.
//
// [Host.Begin] is for callers with many calls under way: it runs a turn as Invoke
// would, on its caller's goroutine where that is the rule, and never waits for a
// mailbox or a commit. The answer goes to a receiver, from whichever goroutine has
// it: no goroutine is parked for the call, and none is woken.
//
// Commits of the warm lane and loads of every lane go to the store in groups of
// many actors; package pipeline has the rules.
//
// # An activation
//
//	          invoke                       first turn starts
//	(absent) ─────────▶ queued ──────────────────────────────▶ running, cold
//	   ▲                  ▲                                       │ row loaded
//	   │                  │ invoke                                ▼
//	   │                  │       no call, no commit            running, warm ◀─┐
//	   │                 idle ◀────────────────────────────────── │ ──────────┘
//	   │                  │                                       │   next turn
//	   └──────────────────┘                                       │
//	     unused for Limits.IdleTimeout (never sticky types),      │ refused or unknown
//	     room needed (Config.MaxActivations), stop, it moves,     │ commit: state dropped
//	     or nothing kept: locked lane, failed load                ▼
//	                                                           running, cold
//
// A worker goroutine exists while a call can be run; a commit outlives it. The
// mailbox, the state, the batches below and the place in the table are guarded
// by the lock of the actor's shard of the table; the worker alone begins turns.
//
// # A turn
//
//	queued ─▶ started ─▶ load ─▶ instance ─▶ run ─▶ sealed ─▶ committed ─▶ released
//	   │          └──── error, trap, deadline ────┘      │
//	   ▼                       ▼                         ├─ stale: drop state, start again
//	never started       leaves no trace                  └─ ambiguous: settle
//
// Sealing takes the new state out of the overlay and gives the instance back;
// what follows needs neither. Releasing installs the new state and answers. A
// turn that left the state as it was has nothing to commit.
//
// # Speculation
//
// In the warm lane an actor does not wait for its commits:
//
//	committed ──flight──▶ (its commit is under way) ──pending──▶ tip
//	    │                                                         │
//	read-only methods                                       the next turn
//
// A turn runs on the tip, which is the committed state as long as there is no
// batch. A sealed turn goes into the pending batch, whose commit carries the
// state after the last of them. The pending batch becomes the flight as soon as
// there is none: at once in an idle actor. So all turns that end during a commit
// share the next one, and an actor has one commit under way.
//
// Whatever comes of a turn that ran on the tip, a reply, a guest's error or a
// trap, with or without a change, waits for the latest batch it could have
// observed (the output gate). That a turn's time was up tells nothing of the
// state and is answered at once.
//
//	flight's commit     its turns          what only waited for it,      pending turns and
//	                    that changed       and observed it               one that runs now
//	applied             answered           answered                      kept; pending takes off
//	stale               run again          run again                     run again
//	unavailable         ErrUnavailable     run again                     run again
//	unknown             ErrAmbiguous       run again                     run again
//	check, held         –                  answered                      kept; pending takes off
//	check, not held     –                  run again                     run again
//	check, unavailable  –                  ErrUnavailable                run again
//
// What runs again does so in its old order, before newer calls, on the state
// loaded anew. A turn that runs while its state is dropped ends and runs again,
// whatever came of it. While an outcome is being settled no turn begins.
//
// A delete, a turn of another lane and the first one under another deployment
// wait until there is no batch.
//
// # What is current
//
// On a store that others write to as well (Committer.Shared), what is in memory is
// known to be the newest only as of some moment: when a load was asked for, when a
// commit that was applied took off, when a question for the version was asked. What
// no commit proves is answered if that moment is late enough:
//
//	a failure, no actor, a request to the outside     after its turn began
//	a turn that changed nothing, a read               actor.MaxReadAge before that, or later
//
// Otherwise a turn's outcome waits for a check: a flight that commits nothing and
// asks for the row's version. What was held for a commit that took off before it was
// seen goes into the next flight, or a check. Readers share one question.
//
// Where this host holds the actor, its lease answers instead of the store; see below.
//
// What this host has answered, or was told by the store, in whichever way (a strong
// read, a recorded reply, a look at the row), is the least that it answers from then
// on: an activation keeps the newest version that it has heard of beside its state,
// and a load that may be older than what was heard of is not kept. Of actors that are
// not kept in memory the versions that were answered are remembered for as long as a
// read that is allowed to be stale could show an older one; where it does, the newest
// is read, beside the locks of turns.
//
// # Who holds an actor
//
// With Config.Ownership, an actor of a ring or sticky type is run by the host that
// holds it, while that host's lease lasts. Others, and one whose lease is over, refuse
// its calls with actor.ErrNotOwner: nothing has begun. This is found out under the lock
// of the shard, where a call gets its place, so that a hand-over that first changes what
// [Ownership] says and then visits every shard misses nobody.
//
//	             Holds: yes                    HandOver, DropAll           no work left
//	(not held) ────────────▶ held ─────────────────────────────▶ leaving ─────────────▶ (gone)
//	                          │ ▲                                   │
//	           no work, no    │ │ Holds: yes        what waits: ErrNotOwner, at once
//	           room for it    ▼ │                   what has begun: finished, and settled
//	                     held, absent               after DropAll: answered behind a commit alone
//
// What is held is the newest, and answered without a commit or a question if the lease is
// found to last after the guest ran; if it is not, the store is asked as above. Two
// things are needed besides. An earlier owner's commit may still be under way if it did
// not hand the actor over in order (actor.Held): then the store is asked until a commit of
// this activation has been applied, which no earlier one can follow; an actor of a sticky
// type begins with such a commit, a fence, before its first turn. And what the host reads
// after its lease was over is not built on: a row is run on only if the lease is found to
// last when it has been read, or fenced, and when there is an instance. So a host that was
// frozen writes behind nobody's fence.
//
// Actors of any types are held by nobody. Their turns need the lease, and that [Ownership]
// does not say NotHeld of them: under the shard's lock, when they begin, and again when
// they are given their row, for which they may have waited until the actor had an owner.
// That owner asks the store until a commit of its own was applied, so what was read before
// may be written. Reads of any types are the store's, and need nothing.
//
// Moving an actor is the owner's business alone: [Host.HandOver] gives it up in order,
// [Host.DropAll] is for a host that was taken for dead.
//
// # What leaves
//
// An HTTP request of a guest leaves the host while its turn runs. Before it does,
// the turn waits until its activation has no batch: then all that it could have
// observed is durable, as for a reply. If the state was dropped meanwhile, the guest
// is ended and the call goes again: nothing was sent. The other lanes run on
// committed state and have nothing to wait for.
//
// From then on the call has left. It is not run again, whatever becomes of its
// commit: where it would go again, and where an error would tell its caller to
// repeat it, the answer is actor.ErrLeft. Two kinds of calls do run again:
//
//   - One with an idempotency key: its caller has said that it may run twice. It is
//     looked up before its turn sends anything: one that is recorded sends nothing,
//     and gets the recorded reply.
//   - A strong read, when the store has a newer state than the one it ran on. It can
//     have sent GET and HEAD alone, which ask and change nothing, and sends them again.
//
// A turn that waits for an answer keeps its instance, and in the locked lane its
// transaction: the memory of the guest is in use, and there is nothing to give back
// before turns have executor slots.
//
// # Idempotency keys
//
// A call with a key is recorded, with its reply, in its turn's commit, for
// Limits.IdempotencyTTL; a turn that changed nothing commits the record alone.
// Only what is committed is recorded, so a call that failed may run again.
//
//	                              commit
//	first of its key ─▶ run ─────────────────▶ applied: answered, recorded
//	      │                │            └────▶ the key exists: looked up ─▶ recorded reply
//	      │                └─ guest failed: fence ─▶ looked up ─▶ recorded reply, or the failure
//	      ├─ one with its key waits for its commit: answered with that one
//	      ├─ ran before, and was dropped: looked up first
//	      └─ its actor was sent a recorded call again lately: looked up before it is admitted
//
// Nothing is looked up for a call that is new, since the commit finds out: keys
// cost no read. The price is a run for nothing of all turns of the commit when a
// call is repeated: so that a client that goes on repeating costs its neighbours
// nothing, the calls of that actor that have keys are looked up, off its worker, for
// repeatWindow. They may be overtaken meanwhile.
//
// A failure of a guest tells its caller that no attempt of the call was applied and
// none will be. So it goes into the batch like an effect, whose commit moves the
// version on (a fence, if nothing else does): no attempt that ran before can be
// applied after that. Then it is looked up whether one was applied before. An
// attempt whose caller still waits elsewhere is refused by the fence and runs again:
// it counts as a later one. Other errors say what became of this attempt alone.
//
// Another payload under the same key is actor.ErrKeyReused. Read-only
// methods ignore keys. A call with a key of a stateless type goes through a
// mailbox like the others, and is recorded under the version that the row had
// before it ran.
//
// # Reminders
//
// What a turn sets and cancels is part of its commit (actor.ReminderEffects). Turns that
// share a commit fold theirs, in their order; a turn that does either writes its actor's
// row, so that an actor with reminders is there. Config.Reminders gives tokens, and is told
// of what was applied.
//
// An invocation with a Firing is a delivery of a reminder. It goes through a mailbox in
// every lane, and its commit has the firing's step, also of a turn that changes nothing and
// of a read-only method:
//
//	queued ─▶ something not committed touches the reminder: awaited
//	       ─▶ looked up, unless it is fresh: it has changed ─▶ actor.ErrFiringTaken, the
//	          guest does not run
//	       ─▶ run ─▶ to the outside: looked up again
//	       ─▶ commit with the step: refused, it has changed ─▶ the calls of the commit go
//	          again, and the firing is looked up
//
// A firing is fresh if nobody can have delivered it before (actor.Firing.Fresh), and then
// the reminder has just been read by who delivers it: what remains is that it was changed
// since. As for a new call with a key, the commit finds that out, and the look is saved.
//
// A firing that has sent something to the outside is run again, like a call with a key: its
// reminder is delivered until a turn was committed.
//
// # Timers
//
// A timer is kept here alone. An actor's are in its shard, beside its activation, and end
// when that leaves memory because it is idle, others need the room, the actor moves or the
// host stops; an activation that ends because it holds nothing (a failed load, the locked
// lane) leaves them. Types without activations that stay have theirs until the host stops.
// A deleted actor has none any more, on the host that deleted it.
//
// What a turn does to timers goes with its call: it is done when the call is answered
// without an error, in the order of the turns, and dropped when the call fails, or goes
// again. Turns in between see it. A turn whose outcome is not known has done nothing.
//
//	         set                    due                      its turn begins
//	(absent) ───▶ waits, in Go's runtime ───▶ asked for, in the mailbox ───▶ its turn runs ─▶ (gone)
//	                 ▲    │ cancelled, replaced       │ cancelled by a turn        │
//	                 │    └──▶ (gone)                 │ before: (gone), no turn    │ has a period
//	                 └────────────────────────────────┘ no room: a second later    │
//	                 └─────────────────────────────────────────────────────────────┘
//
// A firing begins once: a turn that fails is logged, told to Events, and not repeated. The
// period counts from the end of the turn, as in Orleans and Dapr, so a timer does not
// overlap with itself. As in Orleans, a timer does not keep its actor in memory, and its
// turns are no use of it: an actor that must be woken has reminders.
//
// # Invariants
//
//   - One worker per activation, one activation per actor: turns of the first
//     two lanes are serial in this process. Across processes only the version
//     fence decides, and nothing here relies on being alone.
//   - Readers see committed state, and what is committed is installed before
//     anything that rests on it is answered. What a reader found in the store
//     before the host knew of it, the next one sees too.
//   - A commit is awaited before every answer that could have observed it.
//   - An actor has one commit under way; there is a pending batch only behind a
//     flight, and a flight only in a busy activation.
//   - A call is in exactly one place: a mailbox, the calls to run again, a
//     batch, a shard's list of running calls, under a look-up, or answered. It is
//     answered once.
//   - The calls of an actor that are not answered are at most one more than its
//     mailbox's limit, wherever they are, and take an eighth of
//     Config.CallMemory at most.
//   - Payloads, held replies and states count for Config.CallMemory and
//     Config.StateMemory. What comes above either is refused before it runs; what
//     runs already may pass them, by one reply and one state each, and there are
//     at most as many of those as there are instances.
//   - A worker lets others have the processor every few turns, and an instance
//     goes to who waits longest for it: a busy actor starves nobody.
//   - No instance is used by two goroutines, and an instance that failed in any
//     way but a guest's own error is closed, not reused.
//   - A revision (abi/SPEC.md section 5) is taken from one counter of the host.
//     A failed turn takes a new one for the state that it leaves behind, and a
//     read-only turn has one of its own, so that nothing a guest cached in
//     either is ever taken for current.
//   - After Stop has begun no call is admitted; when it has returned nil no
//     goroutine and no instance of the host is left.
//
// A host may also be reader of an actor that another one holds. It answers read-only
// methods from a copy of the state, which is no activation, and each time from one that was
// the newest after the call came: the store is asked, once for all calls that wait. So
// the holder of an actor of such a type (placement ring:N) must not answer what is older
// than what the store shows: while an activation works, whose commit may be in the store
// before its outcome is known here, reads of it ask the store as well. Its turns need not: they
// run on what it commits. A type that is not shared any more is treated so for a
// minute longer.
//
// # Failures
//
//   - A panic of ours, in the engine, the host or the store: the error of its call
//     where it met a turn, otherwise it goes on to the goroutine's caller. The
//     instance is closed, the worker, the lane and the lock are given back, and what
//     shared its group is answered or settled.
//   - Guest error: reaches the caller as it is; overlay dropped, instance kept.
//   - Trap: an [*actor.TrapError]; overlay dropped, instance closed. The
//     activation keeps its committed state.
//   - Caller gone or its deadline passed while queued: taken out of the mailbox,
//     never started. Callers of Begin say so, with GiveUp; nobody watches for them.
//   - The same while running: the guest is stopped, the instance closed, no
//     trace. Once sealed, the commit proceeds and the caller gets its outcome;
//     if that takes longer than Config.SettleGrace, actor.ErrAmbiguous.
//     Where callers commit themselves (Config.Pipeline.CallersCommit), the one
//     whose turn goes first waits for the store however long it takes.
//   - Turn deadline (Limits.TurnDeadline, or the caller's if sooner): the same.
//     Time in the queue counts against the caller's deadline only.
//   - Stale commit: another writer came first. The state is dropped and its turns
//     run again from the stored row, with growing pauses, until their deadlines;
//     then actor.ErrStale.
//   - Ambiguous commit: settled, with growing pauses, for Config.SettleGrace,
//     while other actors go on. Applied: the replies are released. Never: as
//     stale. Unknown: actor.ErrAmbiguous, the state is dropped and the turns of
//     the commit are never run again.
//   - The idempotency key is recorded already, or the reminder of a firing has changed:
//     the state is dropped, the calls of the commit go again, and those with keys and
//     firings are looked up first.
//   - Store cannot be reached, or is so slow that Config.Pipeline's queue is
//     full: actor.ErrUnavailable, state dropped, nothing applied. Turns that were
//     not part of that commit run again, and find out for themselves.
//   - Store that answers nothing at all: what waits for it, and new calls of
//     actors that do, get actor.ErrUnavailable after Config.Pipeline's StallAfter;
//     calls that came before wait for their commit, up to their deadline.
//   - Damaged row: actor.ErrStateDamaged for every turn but Delete, which
//     removes the row under its version. Nothing is kept in memory, so a
//     repaired row works at once.
//   - Row of a newer deployment: the deployments are read again first; if the
//     generation is still unknown, actor.ErrNoGeneration. Newer state schema
//     than the module's: actor.ErrSchemaNewer.
//   - Older state schema, met by a read-only method: one turn migrates and commits, and all
//     readers wait for it. If its hook fails, that is their error. Where there is no such
//     turn, each read migrates for itself and keeps nothing: of any types, whose rows reads
//     do not wait for; at a reader's copy, which commits nothing; while a turn of the actor
//     runs; and where the migrated state could not be committed.
//   - No memory for a call, or for the state of an actor while all others work:
//     actor.ErrHostFull, at once.
//   - No room for an activation or an instance: actor.ErrOverloaded. All
//     instances of a module busy: the turn waits, up to its deadline.
//   - Lease over, or the actor moved: actor.ErrNotOwner, nothing has begun, or what has
//     left no trace. What runs goes on; its commit is fenced like any other.
//   - A commit whose outcome could not be found out: the activation asks the store again,
//     as after a take-over, and [Host.HandOver] keeps it from landing before it returns.
//   - Stop: new calls get actor.ErrStopping; those admitted are finished. If
//     Stop's context ends first, queued ones get actor.ErrStopping, running ones
//     are stopped like a caller's cancellation stops them, and commits are cut
//     short, which leaves them not applied or ambiguous. An engine or a store
//     that does not heed its context for killGrace is left behind.
package host

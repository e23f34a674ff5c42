// Package sim runs whole clusters in one test, on a virtual clock: the real schedulers,
// routers, servers and hosts of three processes, over a database and a network that are
// simulated, and fail.
//
// # What is real, and what is not
//
//	process    a scheduler.Service, a routing.Router, a server.Server and a host.Host,
//	           wired as package node does. It crashes, alone, with its machine or with
//	           all others, starts again as another incarnation, freezes, and leaves gracefully,
//	           asked by another or not, and may crash or freeze meanwhile
//	network    streams between processes: sessions with the leader and calls between hosts.
//	           In one of eight seeds they are carried by HTTP/2 over connections, but for TLS;
//	           in the others, which cost half as much, each stream goes from the client's
//	           http.RoundTripper to the server's http.Handler (streams_test.go).
//	           Each part of what is sent has a delay. Processes are cut off from each
//	           other, both ways or one; connections break, and what was sent on them is
//	           lost, or arrives later than what is sent on the next one
//	database   the part of package store's contract that hosts and schedulers use, in
//	           memory, behind store/faultstore. It is slow, out of reach of a process or
//	           of all, loses answers, and applies commits after their sender gave up. Its clock
//	           is up to an hour ahead and runs up to 1 % faster or slower than the
//	           processes'
//	guests     native counters (host/hosttest) of three types, whose placement policies are
//	           sticky, ring, with readers or without, static, checkout, any or stateless. Types are deployed
//	           anew, some with another policy, which processes hear of later.
//	           In one of three seeds there are ledgers as well (ledgers_test.go), which two types
//	           of a group share: those of one place transfer money in atomic calls that nest,
//	           come back, and fail; those of two places notify each other, perhaps on another
//	           host; and reminders begin chains again
//	clients    one call at a time each, through any process, or several in one transaction;
//	           calls with idempotency keys go again, and now and then twice at once. Actors of
//	           some types are deleted
//
// Time is testing/synctest's: the ten seconds of a seed take about 40 ms of a processor.
// What goes wrong, and when, and what is called follow from the seed, and so do the names of
// hosts, by which the ring deals out its ranges. Delays and faults of the store follow from it
// as well, for each connection and each kind of statement of a process by itself, so that they
// hold as long as each of those does the same. Chance is what the runtime decides: which
// goroutine of those that can run at one instant comes first, which case of a select, and which
// reader of a range answers. Most of a run is the same each time; a seed that failed is still
// run some dozens of times:
//
//	go test -run TestSimulation ./internal/sim -v -seed 17 -repeat 100 -trace
//
// What seeds found became tests of the packages at fault: TestRegistrationUnknown,
// TestHostsAreReadInOrder and TestTooManyLeave of scheduler, TestLostThenRefused and
// TestAnotherIncarnation of routing, TestFenceAnsweredAfterTheLease and
// TestAllCallsMeetAnEarlierOwner of host.
//
// Not simulated: a change of policy to or from stateless, which a module says and no
// deployment; when reminders are due and who delivers them, which package
// scheduler/reminder simulates; TLS.
//
// A process that is frozen goes on in its memory, and nothing of it gets in or out: no
// call, no answer, no byte, no statement, and no turn begins or ends. Messages within one
// connection are neither lost, nor doubled, nor reordered, as TCP has it: that happens between
// connections, to commits, and to calls.
//
// # What is checked
//
//   - One holder: all the time, at most one process holds an actor and has a lease that
//     lasts; and where a turn begins that may write, no other process does.
//   - One activation: after a second owner of a sticky actor has begun a turn, no commit of
//     the first one's is applied.
//   - Nothing lost or doubled: no two calls are answered the same count, and a call with a
//     key has one answer; in the end the store has all that was acknowledged, and no more
//     than that and what nobody knows of.
//   - Answers are current: an increment and a strong read show what was answered before
//     they began, other reads and unchanged turns what was answered actor.MaxReadAge before.
//   - No caller sees an older state than before, nor one from before a deletion; nor "not
//     found" once it was answered by the actor made anew.
//   - At every commit the balances of all ledgers are zero together, a ledger has exactly the
//     reminder that its state names, a notice is noted once, and none counts as sent that is
//     not noted.
//   - Chains are strictly serializable, by package internal/history/listappend. Those that
//     were acknowledged have happened once, those that were refused have not.
//   - After the last fault every reminder fires, and every actor is answered through every
//     process, within a few leases; the ledgers of one place in one transaction.
//   - Each kind of fault has happened, in all seeds together; and what leaves a precaution
//     out is found out: fences, leases, whole commits of chains (TestSabotage).
package sim

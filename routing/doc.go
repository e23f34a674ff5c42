// Package routing brings each call to the host that holds its actor: it stands
// between the server and the host of a process that shares its store with others,
// looks as the host does to the server, and talks to the other hosts of the cluster.
//
// Who holds what is not decided here: [Placement] says it, which package scheduler
// does. Nothing here is needed for writes to be right, and no answer is given here
// that a host has not given: a call is run by the host that holds its actor, or it is
// told that it was not.
//
// # Words
//
//	local      the host of this process
//	peer       another host, one incarnation of it: it has a new ID after a restart
//	session    the open streams to a peer; it is another one after they broke
//	channel    one of the streams of a session; all calls of an actor use the same
//	sent       a call was written to a channel, so that its peer may have begun it
//	redirect   the answer not_owner: the peer does not hold the actor, and has not
//	           begun the call; it names the owner if it knows it
//
// # A call
//
//	            Find: Here                       not_owner
//	(arrived) ───────────────▶ local ───────────────────────────┐
//	  │  ▲  │                    └── answered                     │
//	  │  │  │   Find: Host                                       │
//	  │  │  └───────────────▶ queued ──▶ sent ── redirect ──────▶│
//	  │  │                      │          └── answered            │
//	  │  │                      └─ no session ──────────────────▶│
//	  │  └─────────── pause over, or the table has changed ──────┤
//	  │   Find: Wait                                             ▼
//	  └─────────────────────────────────────────────────────▶ waiting
//	                                                             │ deadline, cancelled,
//	                                                             ▼ Config.MaxWait, sent twice
//	                                                         unavailable
//
// A call that only reads may be answered by others than the host of its actor, where
// there are readers ([Config.Readers]): here, if the local host is one, and otherwise by
// one of them or the actor's host, at random. It is tried so once. A reader is told that it
// only reads, whatever its caller said: one that refuses it, since it is no reader any more
// or has a newer deployment in which the method may change the actor, sends it to the
// actor's host.
//
// A call that a peer sent never goes on to a third host: what its receiver does not
// hold is redirected, to the host that sent it, which learns from that. So a call is
// sent twice at most, there is no cycle of hosts that wait for each other, and the
// answer comes from who ran the call by way of one host at most. There is one case in
// which it is sent a third time: the second host names the first one, whose knowledge
// of the second was old. The call names who has refused it, and its receiver forgets
// that one, as it forgets an owner that itself sends it a call of the actor. A peer may hold a
// forwarded call back as its own ones, while a table changes or an actor is acquired.
//
// Waiting calls are bounded in number and bytes together ([Config.MaxWaiting],
// [Config.MaxWaitingBytes]); above that a call is refused at once. Calls that wait for
// the same change wait together. Those of one actor go on in the order in which they came,
// each once the one before it has its place: in the actor's mailbox, in a channel, or in
// another wait.
//
// # Messages
//
// InterconnectService.Exchange is a bidirectional stream whose messages are those of
// ActorService.InvokeStream, with what a call between hosts needs besides
// (interconnect.proto). It is opened by the host that has calls for a peer; a session
// has [Config.Channels] of them, on one connection.
//
//	caller                                  peer
//	 │ hello: cluster, own ID, the peer's ID, │
//	 │        lowest and highest protocol     │
//	 ├───────────────────────────────────────▶│ refuses another cluster, another
//	 │                                        │ incarnation, no common protocol
//	 │        hello: its ID, the protocol     │
//	 │        in use, its API's address       │
//	 │◀───────────────────────────────────────┤
//	 │ invocations, cancels                   │
//	 ├───────────────────────────────────────▶│ as api/proto's InvokeStream
//	 │                       replies          │
//	 │◀───────────────────────────────────────┤
//
// An invocation carries what the call's edge admitted: actor, method, payload, the
// time that is left, idempotency key, read-only and consistency, the name of its caller,
// and its ID, by which logs of both hosts and the guest know it. It was admitted once, where it entered the
// cluster; the peer checks that it is well-formed, and that a host of the cluster sent
// it. Protocols are numbered; both sides use the highest that both speak, and a host
// speaks its own and the one before it.
//
// Delete and View, which are rare, are unary calls of the same service. A View that its
// owner cannot answer is answered here: it reads the store. So is Reach, by which people
// learn which host cannot reach which ([Router.Reach]).
//
// # Who may speak
//
// Hosts prove to each other that they belong to the cluster by mutual TLS: with
// certificates from files, or derived from a key that all hosts have ([Credentials]).
// A certificate carries the cluster's name. Only between loopback addresses, or where
// everybody was let in on purpose, do they speak in plain text.
//
// # Invariants
//
//   - A call is run here only while Placement says Here, or that this host is a reader
//     of its actor and the call reads; what the local host then
//     refuses with actor.ErrNotOwner was not begun and is routed anew.
//   - A call is answered once, whatever its sessions do.
//   - A call that may have begun is sent again only if that is harmless: it is
//     read-only, went to a reader, or has an idempotency key.
//   - A peer admits a call only as the incarnation that it was sent to.
//   - Nothing here grows without bound: waiting calls, calls in flight on a channel,
//     the bytes of both; [Begin] blocks for none of them.
//
// # Failures
//
//   - The owner is not known, or its actors are moving: the call waits, for its
//     deadline and Config.MaxWait at most. Nothing was begun: actor.ErrNoOwner,
//     retryable.
//   - The one host that may hold the actor is away (Find: Away): the same error at once,
//     with its name. Nothing waits, since it may be away for days.
//   - This host has lost the database for longer than its lease (Find: Lost): others may
//     hold what it held, and it is not told who. A call of its own callers gets
//     actor.ErrUnavailable, retryable, so that they ask another host; one that waits for a
//     sticky actor that was asked for before does so once it has waited for
//     Config.MaxWait. One that a peer sent goes back, and is routed anew there. Those of
//     what others held go on to them.
//   - The peer cannot be reached: nothing was sent. The call waits with growing pauses
//     and asks Placement each time, until the peer is back or another host holds the
//     actor.
//   - A session breaks: calls that were not sent go again. Of those that were sent the
//     outcome is unknown: read-only ones, those that a reader has, and keyed ones go
//     again, the others get actor.ErrAmbiguous, and so do keyed ones whose later tries
//     come to an error that says nothing of the first. Who asked ([Router.Broken]) is told.
//   - The peer stops: it answers what it took and says so; the rest has not begun, and
//     goes again.
//   - The peer is frozen, or the network swallows what is sent: pings find out, within
//     Config.PeerTimeout; earlier, if Placement does not know the peer any more. Then
//     the session is broken.
//   - The peer has started again: it refuses what is for its earlier incarnation.
//   - The peer is slow: its channel fills up. Calls beyond [Config.MaxInFlight] wait
//     like those without an owner, and are refused beyond the bounds on those.
//   - The caller is gone, or its deadline passed: a waiting call is answered at once,
//     nothing was begun. A sent call is cancelled at the peer, whose answer says what
//     became of it; if that takes longer than Config.SettleGrace, actor.ErrAmbiguous.
//   - A redirect names a host that does not hold the actor either: the call goes where
//     that one sends it, or waits for a change, and after the second redirect gets
//     actor.ErrNoOwner.
//   - Certificates or keys differ, or the clusters' names do, or no protocol is common:
//     the session is not opened; the log names both hosts and what to change, and
//     [Router.Unreachable] lists it. Calls are as for a peer that cannot be reached.
//   - This process stops: once it has handed its actors over ([Router.Drain]), what has an
//     owner is passed on, and what would wait for one gets actor.ErrStopping, retryable.
package routing

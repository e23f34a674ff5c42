// Package routing brings each call to the host that holds its actor. It stands between the server
// and the host of a process that shares its store with other processes. To the server it looks
// like a host; to the other hosts of the cluster it opens sessions.
//
// It guarantees that a call gets exactly one answer: that of a host that had it, or an error that
// says whether it may have run. A call that may have begun is sent again only where that is
// harmless. Correct writes do not depend on this package.
//
// [Placement] says which host holds what; package scheduler implements it. [Router] routes the
// calls of this process, and [Accepted] those that another host sends here. [Credentials] prove
// that a host belongs to the cluster.
//
// # Words
//
//	local      the host of this process
//	peer       one incarnation of another host, which has a new ID after a restart
//	session    the open streams to a peer; after they broke, the next streams are another session
//	channel    one of the streams of a session; all calls of an actor use the same channel
//	sent       (a call) written to a channel, so that the peer may have begun it
//	redirect   the answer not_owner: the peer does not hold the actor and has not begun the call;
//	           the answer names the owner if the peer knows it
//	reader     a host that may answer read-only calls of an actor that another host holds
//
// # States of a call
//
//	            Find: Here                       not_owner
//	(arrived) ───────────────▶ local ────────────────────────────┐
//	  │  ▲  │                    └── answered                    │
//	  │  │  │   Find: Host                                       │
//	  │  │  └───────────────▶ queued ──▶ sent ── redirect ──────▶│
//	  │  │                      │          └── answered          │
//	  │  │                      └─ no session ──────────────────▶│
//	  │  └─────────── pause over, or the table has changed ──────┤
//	  │   Find: Wait                                             ▼
//	  └─────────────────────────────────────────────────────▶ waiting
//	                                                             │ deadline, cancelled,
//	                                                             ▼ Config.MaxWait, sent twice
//	                                                         unavailable
//
// protocol.md beside this file has the rest: readers, redirects, waiting calls, the messages
// between hosts, who may speak, the invariants, and what happens at each failure.
package routing

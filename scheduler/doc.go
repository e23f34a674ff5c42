// Package scheduler decides, in a cluster, which host runs which actor: which hosts are members,
// which process leads, which host holds which range of a type, and which host owns a sticky actor.
//
// It guarantees that an actor has one place at a time, unless its type is any or stateless. Two
// things depend on that: hosts do not refuse each other's commits, and an answer without a commit
// is current. Correct writes do not depend on it: the version that a commit read fences the commit.
//
// Packages ownership (of sticky actors) and assignment (of ranges) decide, with the functions of
// package placement: each has the leader's end and the host's end of its protocol. They take
// events and the time, and return what follows; they read no clock and send nothing. Each process
// has a [Service], which acts on the decisions of the host's end; package leader acts on those of
// the leader's end while the process leads. Package protocol is what hosts and the leader say to
// each other, and package clock counts leases.
//
// # Parts
//
//	member        the state that the parts share, its lock, and the view that callers read
//	directory     finds the host of an actor, for each call
//	registration  keeps the host's row; begins another incarnation when the row is gone
//	follower      keeps a session with the leader, and performs its orders
//	sticky        acquires and releases sticky actors
//	checkouts     leases the partitions of checkout types
//	drainer       hands over everything
//	inspector     answers questions of people
//
// # Words
//
//	host         one incarnation of a process, with a random ID; a process that starts again is
//	             another host
//	host row     the store's row of a host: its address, and how long its lease lasts
//	lease        the time for which a row is valid, on the database's clock
//	count        the holder's own measure of its lease, on its own clock; ends before the lease does
//	leader       the host that holds the leader's lease
//	term         the time of one holder as leader, numbered by its epoch
//	session      one stream of a host to a leader; each host numbers its sessions upwards
//	claims       what a host holds and owns; the host sends them as a session begins
//	hold         to be the one host that may run the actors of a range of a type
//	own          the same for one sticky actor
//	reader       a host that may answer read-only methods of a range that another host holds
//	order        a message of the leader about a table: LOCK (calls wait, hand over), UPDATE (hold
//	             this), UNLOCK (calls go there), REMOVE (no host serves the types), FORM (a group)
//	group        types that share one table, under a number that the leader gives
//	co_locate    (a group that types name) their actors are looked for at the place of their group
//	             key; it has a table as a type has one, and is a type in all messages
//	fenced       (commits of an earlier holder) unable to land any more
//	clean        (a range) everything that its earlier holders sent to the store is fenced
//	cleared      (a host) its row was removed by a leader, after its lease had run out
//
// # States of a host
//
//	            row inserted              its count is over
//	(started) ───────────────▶ current ──────────────────────▶ paused
//	                           │     ▲  renewed: row is there   │   │
//	                           │     └──────────────────────────┘   │
//	                           └──▶ ended ◀─────────────────────────┘ row is gone, or it leaves
//
// protocol.md beside this file has the rest: times, sessions, acquisition, moves, Groups of types,
// readers, partitions, heat, weights, the loops, the invariants, and what happens at each failure.
package scheduler

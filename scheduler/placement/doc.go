// Package placement says which host an actor belongs to. All of it is pure: tables
// and hosts in, tables and hosts out, the same on every machine; when a table comes
// into force, and what happens to the actors that move, is package scheduler's.
//
// # Words
//
//	point   an actor's place in the hash space, 0 to 2^64-1: [PointOf]
//	range   the points from one to the next range's first; the unit that moves
//	table   the ranges of one actor type, with the host or hosts of each
//	owner   the one host that may hold an actor
//	reader  another host that may serve its read-only methods
//	cell    one of the equal parts of the hash space whose calls are counted
//	heat    the calls of a cell, or of a host, per second
//	weight  how much a host is to get beside the others, by what it has: [Weights]
//
// # Policies
//
//	policy      an actor's owner                          kept in
//	any         the host that the call reached            nothing: the row's lock decides
//	stateless   the same                                  nothing: there is no actor to hold
//	ring        its range's host in the type's [Table]    the table, computed from the hosts
//	ring:N      the same, of a part of a range    the same; N - 1 others are its readers
//	sticky      the first host that acquired it           the leader's memory, per actor
//	static      a fixed formula over known hosts          the configuration
//	checkout    the host that leased its partition        the store, a lease per partition
//	together    that of its group key: [Together]         as the policy of the group has it
//
// Each is decided by a pure function, with a table of examples as its test: any and
// stateless by [Anywhere], ring by [Ring.Table], sticky by [Sticky.Next], static by
// [Static], checkout by [Checkout.Next].
//
// Parts of a ring type that are hot lie over its table at other hosts ([Moved]);
// [Cooling] says when and which. Weights are for the tables of sticky types, and for heat.
//
// # Invariants
//
//   - A table's ranges cover the hash space: the first begins at 0, each later one
//     above the one before it, and none is without a host but where the one host of a
//     static type is away.
//   - A point has one owner, also in a range of several hosts.
//   - No host is reader of what it owns.
//   - [Ring] gives no host more than its load factor times its share of the ranges, which
//     is the same for all hosts, or in proportion to their weights.
//   - A host that joins or leaves moves the ranges that it gets or had, and the few
//     that the bound on the load pushes on.
package placement

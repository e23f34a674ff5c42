// Package nested runs the turns that turns call. A called turn of an actor that this host holds joins the
// transaction of its caller; one of an actor that another host holds commits there, on its own, at most once.
//
//	Chains      enlist actors, run called turns on their callers' goroutines, and take back what has failed
//	callbacks   runs, in its chain, what a called turn of another host calls of an actor that the chain has
//	forwarding  calls actors of other hosts, with idempotency keys, and finds what earlier runs have called
//	results     how callers learn of the failures of called turns
//	marks       what the commit of a call at another host records for the calls that it is nested in
//
// A call that waits for an actor is in the graph of package chain, which finds those that wait for each
// other. host/protocol.md has the protocol: Chains, Calls of other hosts, Callbacks.
//
// A chain belongs to the goroutine of its outermost turn. Methods of [Chains] may be called concurrently
// for different chains.
package nested

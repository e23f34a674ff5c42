// Package ownership is the protocol by which a sticky actor has one owner: [Leader] is what the
// leader of a term knows of hosts, their sessions and what they own, [Member] what a host knows of
// its own lease, session and actors. Both are pure: they take events and the time, and return what
// follows. model_test.go explores all their histories together.
package ownership

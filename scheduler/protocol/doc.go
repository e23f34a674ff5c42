// Package protocol is what a host and the leader say to each other in a session: the names of
// types, the leader's orders, their messages, and the stream that carries them. Packages leader
// and member are its two ends; protocol.md in package scheduler describes the exchange.
package protocol

// Package inbox is what turns and callers need to send durable messages: it makes a
// message of what a guest asks for, orders the messages of one sender by name, and refuses
// what an inbox has no room for.
//
// It guarantees that a message takes effect exactly once, and that one sender's messages to
// one receiver take effect in the order in which they were sent. The commit of the sender's
// turn stores a message, and the commit of the receiver's turn removes it. A message is a
// reminder of its receiver, so package scheduler/reminder delivers it.
//
// # States of a message
//
//	        sender's commit             its time comes            commit of the receiver's turn
//	(none) ─────────────────▶ waiting ─────────────────▶ delivered ───────────────────────────▶ (gone)
//	                             ▲                          │
//	                             │ failed, attempts left    │ failed, none left, or too old
//	                             └──────────────────────────┼──▶ forwarded: another message
//	                                                        └──▶ dead letter, and an undelivered
//	                                                             message to the sender, if asked for
//
// protocol.md beside this file has the rest: why a message is a reminder, names and order,
// delivery, bounds, and the behaviour under each failure.
package inbox

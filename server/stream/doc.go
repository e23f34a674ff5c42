// Package stream serves one ActorService.InvokeStream: many invocations and their
// replies over one connection. See actor.proto for what client and server owe each
// other.
//
// It knows neither HTTP nor who may call what. The server hands it a [Conn], which
// receives and sends messages, an [Edge], which admits each invocation and describes
// each error, and a [Config] with the limits and the [Memory] that all streams
// share. A stream between two hosts is the same one with another Edge.
//
// The frames are in package api/invokestream, apart from here: programs of users
// carry them with the client, and must not carry the host with them, whose Begin the
// serving end is written for.
//
// # How an invocation passes
//
//	Conn ── receive ── admit ── pending ── workers ── Host.Begin ── Answer ── replies ── writer ── Conn
//
// The goroutine that called [Serve] receives. Workers take what is pending and begin
// it in the host, which answers from any goroutine: no goroutine waits for a single
// invocation. Begin may block, so a worker that enters it wakes another one while
// something is pending. One goroutine writes all replies that are ready as one
// message, then those that became ready meanwhile; no reply waits for others to
// join it.
//
// An invocation is a task, which is in flight from its admission until its reply is
// written:
//
//	pending ─▶ starting ─▶ begun ─▶ done
//	   └───────────┴──────────────────┘
//
// # Invariants
//
//   - Every invocation gets one reply, unless the connection cannot be written to.
//   - Tasks in flight, and their bytes, are bounded for the stream and for all
//     streams together; what is beyond is refused with a [*FullError], without
//     having begun. A stream with nothing in flight may have one task of any size.
//   - Receiving pauses only for a client that sends what is refused and does not read
//     the refusals.
//
// # Failures
//
//   - A message that cannot be read ends receiving. What was admitted before it is
//     answered, and then Serve returns the error.
//   - The context ends, as it does when the client is gone, or the client does not accept
//     a message within [Config.WriteTimeout]: nothing more is admitted, what is pending is
//     dropped, what has begun is given up to the host, and Serve returns when the host has
//     answered all.
//   - The server stops ([Config.Draining] ends): nothing more is admitted, what was
//     admitted is answered, and Serve returns actor.ErrStopping.
//   - Begin panics, which is a bug: that one invocation is answered with an error.
package stream

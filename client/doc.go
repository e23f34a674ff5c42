// Package client calls actors on a Greenroom server from Go.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8080"})
//	…
//	defer c.Close()
//	count, err := client.Call[int](ctx, c, "Counter", "alice", "Add", Add{Amount: 5})
//
// # Batches
//
// Calls go over one InvokeStream, or a few. Calls that many goroutines make while a
// message is being sent share the next message; no call waits for others to join it. So
// to be fast, call from as many goroutines as there is work. If HTTP/2 is not available,
// or the server does not know InvokeStream, each call is a request of its own, unless
// [Config.StreamOnly] refuses that; after a minute, calls try the stream again.
//
// # Repeating
//
// A call that failed without effect and may succeed later (Retryable in [Error])
// is repeated, with growing pauses, until it succeeds, its context ends or its
// attempts are used up. While no server can be reached, calls wait in the same
// way. Calls that a stopping server left unanswered have not begun, and move to
// the next connection; if the client knows other servers, it leaves a stopping one for them.
//
// When a connection breaks, the outcome of calls that were sent and not answered is
// unknown. Such a call is repeated only if that is harmless:
//
//   - it is a Query, which has no effect;
//   - it has an idempotency key, its own or, with [Config.IdempotencyKeys], one
//     that the client made: the server runs it once, and answers every
//     repetition with the recorded reply.
//
// Any other call ends with an [Error] of the kind [KindConnectionLost], whose
// OutcomeUnknown is set.
//
// Once an attempt is lost, only the recorded reply makes its outcome known: if a
// repetition fails, with whatever error, OutcomeUnknown is set as well. It is also set
// for the answer of a gateway in the server's place, which has no ErrorDetail.
//
// # Several servers
//
// Every server of a cluster takes every call, and forwards it to the server that holds
// the actor. The reply names the holder, and the client calls it directly from then on
// ([Config.MaxOwners]). The client goes back to the other servers if the holder cannot be
// reached, says that another server holds the actor, does not answer in time, finds no
// holder, or has lost its database. Give the client several addresses ([Config.URLs]), or
// one that stands for all, such as that of a load balancer. Direct calls carry the same
// token. Calls of actors without a known holder have a stream of their own: after a
// server was lost, the calls of its actors wait there until another server holds the
// actors, and delay no other calls.
//
// # Order
//
// Calls made one after the other run one after the other. Calls of one actor
// that are under way together run in any order.
//
// # Contexts
//
// The server gets a call's deadline, and ends the turn at that time. When a context is
// cancelled or its deadline passes, the call returns at once, and the client cancels it
// at the server; a call that was sent may still take effect.
//
// A call belongs to the trace of its context's span, as package
// go.opentelemetry.io/otel/trace defines it.
package client

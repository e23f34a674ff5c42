// Package client calls actors on a Greenroom server from Go.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8080"})
//	…
//	defer c.Close()
//	count, err := client.Call[int](ctx, c, "Counter", "alice", "Add", Add{Amount: 5})
//
// # Batches
//
// Calls go over one InvokeStream, or a few: what many goroutines ask for while a
// message is being sent leaves together in the next one, and nothing waits for
// company. So the way to be fast is to call from as many goroutines as there is
// work. Where HTTP/2 is not to be had, or the server does not know InvokeStream,
// each call is a request of its own, unless [Config.StreamOnly] refuses that; the
// next minute's calls try again.
//
// # Repeating
//
// A call that failed without effect and may succeed later (Retryable in [Error])
// is repeated, with growing pauses, until it succeeds, its context ends or its
// attempts are used up. While no server can be reached, calls wait in the same
// way. Calls that a stopping server left unanswered have not begun, and move to
// the next connection; where there are other servers, such a one is left for them.
//
// When a connection breaks, whether a call took effect that was sent and not
// answered is unknown. Such a call is repeated only where that is harmless:
//
//   - it is a Query, which has no effect;
//   - it has an idempotency key, its own or, with [Config.IdempotencyKeys], one
//     that the client made: the server runs it once, and answers every
//     repetition with the recorded reply.
//
// Any other call ends with an [Error] of the kind [KindConnectionLost], whose
// OutcomeUnknown is set.
//
// Once an attempt is lost, only the recorded reply makes its outcome known: an
// error that a repetition is answered with, whatever its kind, has OutcomeUnknown
// set as well. So has what a gateway answers in the server's place, which shows
// in the lack of an ErrorDetail.
//
// # Several servers
//
// Where servers form a cluster, any of them takes every call, and passes it on to the
// one that holds the actor. Its replies name that one, and the client goes there
// directly from then on ([Config.MaxOwners]); when it cannot be reached, or says that
// another one holds the actor, the call goes on from there; and when it does not answer in
// time, finds nobody who holds the actor or has lost its database. Give the client several
// addresses ([Config.URLs]), or one that stands for all, like that of a load balancer.
// Calls that go directly carry the same token. Those of actors that nobody has been
// heard to hold have a stream of their own: after a server was lost, the calls of its
// actors wait on it until another one holds them, and keep no others waiting.
//
// # Order
//
// Calls made one after the other run one after the other. Calls of one actor
// that are under way together run in any order.
//
// # Contexts
//
// The server learns a call's deadline and ends the turn with it. When a context
// is cancelled or its deadline passes, the call returns at once, and the server is
// told; a turn that was asked for already may still take effect.
//
// A call belongs to the trace of its context's span, as package
// go.opentelemetry.io/otel/trace has it.
package client

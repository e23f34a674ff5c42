// Package actor is Greenroom's vocabulary: the nouns that the store, the host,
// the module service and the server share, and nothing that acts on them.
//
// # Glossary
//
//   - app: a namespace; modules, actors and limits belong to exactly one app.
//   - actor: what a [Key] names; it always exists, virtually.
//   - module: an uploaded Wasm binary, named by its SHA-256 ([Digest]).
//   - deployment: the module version that serves one actor type of one app;
//     each change of it has the next generation ([Deployment]).
//   - turn: one method run to its end on one actor; what it was asked is an
//     [Invocation], what it answers is a [Reply].
//   - cause: what a turn runs for: a call, a call with an idempotency key, a reminder, a
//     timer, a message, or a message that comes back undelivered ([Cause]).
//   - chain: a turn and the turns that it calls, of other actors; they commit together.
//   - caller: who asks for a turn by a call: the actor whose turn calls, which the guest
//     knows as From of its Cause, or a client outside, which logs know by the name of its
//     token ([Invocation]).
//   - effects: everything a turn asks for.
//   - commit: effects made durable, all or none ([Commit]): a set of rows to write,
//     rows to fence, and a list for each other kind of effect.
//   - idempotency record: the reply to a call that was given an idempotency key,
//     kept for a window by actor, method and key ([IdempotencyRecord]).
//   - reminder: a durable invocation of an actor in the future ([Reminder]), named
//     by its actor and a name; what it is due at is its [Schedule], a row of
//     occurrences; a [Firing] is one delivery of one of them. It has a token, which
//     is unique with its app's prefix and its lap's vector ([ReminderID]).
//   - message: a reminder that another actor, or a caller from outside, sets for its
//     receiver, and that is delivered once ([Message]). It is ordered if the messages of
//     its sender to its receiver take effect as they were sent.
//   - bucket: a range of tokens that one host creates from, and that one scheduler
//     instance at a time delivers ([Bucket]).
//   - version: the fence. Every commit names the version that it read, and the
//     store refuses any other. A new row starts at a version that is made of the
//     time and of random bits, so that no version is met twice by accident.
//
// # Errors
//
// A condition that callers branch on is a sentinel in errors.go, with the
// [Kind] that reaches users; a typed error exists only where it carries data.
// The server package alone maps them to Connect codes.
package actor

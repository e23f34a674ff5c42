// Package extism runs Extism plug-ins as actors, on extism/go-sdk. It is an [engine.Engine]
// beside engine/wasm, and it judges uploaded plug-ins: [Engine.Inspect]. docs/extism.md is
// the guide for their authors.
//
// An exported function is a method: the payload is its input, its output is the reply. The
// manifest of abi/SPEC.md section 3 names the actor types; a plug-in carries the manifest in
// a custom section or outputs it from an exported function. Our host functions are in
// Extism's user namespace (user.go).
//
//	bytes ── binary.Parse ──▶ outline ── check ──▶ no faults ── rewire, meter,
//	settle, compile, once per digest ──▶ program ── kernel and plug-in,
//	_initialize ──▶ instance ── Run ──▶ ready ── Run …
//
// # What holds
//
//   - Kernel and plug-in together never hold more memory than NewInstance was given, nor
//     than their app has; all memory that they can touch is counted.
//   - A plug-in stops soon after its context ends, wherever it is.
//   - The same turn on the same state uses the same fuel: each call of an export begins
//     without fuel, see [settle].
//   - No byte of one actor reaches another: an instance that is asked for another actor than
//     the last starts anew, kernel and plug-in.
//   - Clock, randomness and sleep are the turn's, for WASI and for our functions. Extism has
//     no others. Its kernel hands out addresses, which depend only on the calls before.
//   - A plug-in has no files, environment variables or sockets. It has the configuration,
//     secrets and HTTP requests that its type declares and its app was granted.
//   - An instance that trapped or was stopped never runs again.
//   - The host does not call a plug-in while it runs: a nested call would overwrite the
//     output of the outer call without an error. A reentrant method runs in another instance.
//
// # Failures
//
//	greenroom_fail                      *actor.GuestError as it was given
//	error_set                           *actor.GuestError, status unknown, with the message
//	a result other than 0               *actor.GuestError, status unknown
//	a host function that is refused     *actor.GuestError that says why (no write in a read-only method, …)
//	unreachable, proc_exit, HTTP, …     *actor.TrapError TrapUnreachable
//	call stack exhausted                *actor.TrapError TrapStack
//	memory above the limit              *actor.TrapError TrapMemory
//	an address outside the memory       *actor.TrapError TrapProtocol
//	fuel above the turn's limit         *actor.FuelError
//	context ended                       actor.ErrDeadline or actor.ErrCanceled
//	start longer than InitTimeout       actor.ErrDeadline, with a text that says so
//	too many instances, no memory       actor.ErrOverloaded
//	engine closed                       actor.ErrStopping
//	a host function panicked: our bug   an error of none of these kinds, logged
//
// protocol.md beside this file has the rest: the functions of Extism's environment that this
// package replaces, and the limits of metering the kernel.
package extism

// Package extism runs Extism plug-ins as actors, on extism/go-sdk. It is a
// [engine.Engine] beside engine/wasm, and it judges uploaded plug-ins:
// [Engine.Inspect]. docs/extism.md is the guide for their authors.
//
// # How a plug-in is an actor
//
// An exported function is a method: the payload is its input, its output is the
// reply. What it is an actor of, the manifest of abi/SPEC.md section 3 says,
// which a plug-in carries in a custom section or outputs from an exported
// function. Our host functions stand in Extism's user namespace (user.go).
//
//	bytes ── binary.Parse ──▶ outline ── check ──▶ no faults ── rewire, meter,
//	settle, compile, once per digest ──▶ program ── kernel and plug-in,
//	_initialize ──▶ instance ── Run ──▶ ready ── Run …
//
// # What of Extism's host is ours
//
// The SDK gives the kernel, which keeps blocks of memory between host and
// plug-in, and the life cycle. Some functions of its environment do what a host
// of many tenants cannot have: they wait without a deadline, log through a switch
// of the whole process, keep variables from one actor to the next, or reach the
// network. [rewire] gives the imports of those another module name, under which
// this package answers (env.go):
//
//	output_set, error_set        kept for the turn; lies about addresses are seen
//	log_*, get_log_level         the actor's log
//	var_get, var_set             the actor's state
//	config_get                   what the app was given and the type declares
//	http_*                       sent by the host's rules, to what the app was granted
//
// WASI is that of package engine/wasi, as for guests of the native ABI, and not the
// SDK's.
//
// # What holds
//
//   - Kernel and plug-in together never hold more memory than NewInstance was
//     given, nor than their app has; all that they can touch is counted.
//   - A plug-in stops soon after its context ends, wherever it is: it is metered
//     like every guest (package engine/meter), and the deadline is looked at
//     when it needs more fuel. The kernel is not metered, and a plug-in can damage
//     its lists so that it walks them without end, so wazero checks for the end
//     of the context in loops as well, at the price of slow loops. The SDK calls
//     the kernel without a context in one place, which hands over the input: the
//     work there is bounded by the size of the kernel's memory.
//   - Fuel has each call of the kernel or the host at a fixed price, and the bytes
//     that the host reads or gives. Not in it is what the kernel does beyond that:
//     alloc walks its list of blocks, and reset writes zeros over all of them, so
//     that a plug-in in a loop of either uses its time and little fuel. The SDK
//     compiles the kernel from bytes of its own and keeps them to itself: a metered
//     one, which would also let the checks in loops go, takes another SDK.
//   - The same turn on the same state uses the same fuel: each call of an export
//     begins with none, see [settle].
//   - No byte of one actor reaches another: an instance that is asked for another
//     actor than the last starts anew, kernel and plug-in.
//   - Clock, randomness and sleep are the turn's, for WASI and for our functions.
//     Extism has no others. What its kernel hands out are addresses, which depend
//     on nothing but the calls before.
//   - There are no files, environment variables or sockets. Configuration, secrets and
//     HTTP requests are what the type declares and the app was granted.
//   - An instance that trapped or was stopped is never run again.
//   - The host does not call a plug-in while it runs: a nested call would
//     overwrite the output of the outer one without an error, so methods declared
//     reentrant are refused at upload.
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
//	too many instances, no memory       actor.ErrOverloaded
//	engine closed                       actor.ErrStopping
//	a host function panicked: our bug   an error of none of these kinds, logged
package extism

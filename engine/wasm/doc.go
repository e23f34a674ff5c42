// Package wasm runs guests of the native ABI (abi/SPEC.md) on wazero. It is the host's
// [engine.Engine], and it judges uploaded modules: [Engine.Inspect].
//
//	bytes ── binary.Parse ──▶ outline ── check ──▶ no faults ── in a child:
//	binary.Prepare, meter.Rewrite, compile, once per digest ──▶ program ── first instance: memory,
//	instantiate, data, start function, _initialize, manifest, greenroom_warm,
//	first frame buffer ──▶ image
//
//	program + image ── memory, instantiate, copy or map the image ──▶ instance
//	── Run ──▶ ready ── Run …  (another actor, a failure, a read-only turn: reset)
//	             └── trap, deadline, no fuel, cancellation ──▶ broken ── Close ──▶ gone
//
// # Words
//
//	outline    the parts of an uploaded module that the engine checks and needs
//	program    the compiled code of a module
//	image      memory and globals of a first, initialized instance: what others start from
//	fuel       the measure of a guest's work (package engine/meter)
//
// # What holds
//
//   - A guest has the memory limit that NewInstance was given. memory.grow beyond it answers
//     -1, as the specification of Wasm requires.
//   - A guest stops soon after its context ends, wherever it is: in a loop, in recursion, in
//     its allocator, in _initialize.
//   - The same instance, the same turn and the same state give the same result and use the
//     same fuel: clock, randomness and sleep come from the turn.
//   - A host function never reads or writes outside the guest's memory: every pointer and
//     length is unsigned and checked, and an access outside traps.
//   - No byte of one actor reaches another actor through an instance.
//   - An instance that trapped or was stopped never runs again.
//   - No guest can end the process. Package binary refuses what Go cannot recover from
//     (memory exhaustion by declared sizes) before the runtime sees it.
//
// # Failures
//
//	guest returns 1 after fail          *actor.GuestError, instance usable
//	unreachable, division by zero, …    *actor.TrapError TrapUnreachable
//	proc_exit (a panic of standard Go)  *actor.TrapError TrapUnreachable, with the panic's text
//	calls too deep                      *actor.TrapError TrapStack
//	trap after a refused memory.grow    *actor.TrapError TrapMemory, actor.ErrOverloaded if its app had no more
//	ABI broken (result 2, alloc lies)   *actor.TrapError TrapProtocol
//	fuel limit of the turn passed       *actor.FuelError
//	context ended                       actor.ErrDeadline or actor.ErrCanceled
//	start longer than InitTimeout       actor.ErrDeadline, with a text that says so
//	too many instances, no memory       actor.ErrOverloaded
//	engine closed                       actor.ErrStopping
//	a host function panicked: our bug   an error of none of these kinds, logged with its stack
//
// protocol.md beside this file has the rest: programs, fuel, images, and memory.
package wasm

// Package wasm runs guests of the native ABI (abi/SPEC.md) on wazero. It is the
// host's [host.Engine], and it judges uploaded modules: [Engine.Inspect].
//
// # From bytes to an instance
//
//	bytes ── binary.Parse ──▶ outline ── check ──▶ no faults ── binary.Instrument,
//	compile, once per digest ──▶ program ── memory, instantiate, _initialize ──▶
//	instance ── Run ──▶ ready ── Run …
//	                      └── trap, deadline, cancellation ──▶ broken ── Close ──▶ gone
//
// A program is compiled once whoever asks, and stays in memory while the cache
// or anybody holds it; compiled code is also kept on disk ([Config.CacheDir]).
// The disk cache is only for speed: damaged or unwritable, it is emptied or
// left alone, and the host goes on.
//
// # What holds
//
//   - A guest has the memory limit that NewInstance was given; memory.grow
//     beyond it answers -1, as the specification of Wasm has it.
//   - A guest stops soon after its context ends, wherever it is: in a loop, in
//     recursion, in its allocator, in _initialize.
//   - The same instance, the same turn and the same state give the same result:
//     clock, randomness and sleep come from the turn.
//   - A host function never reads or writes outside the guest's memory: every
//     pointer and length is unsigned and checked, and what reaches outside
//     traps.
//   - An instance that trapped or was stopped is never run again.
//   - No guest can end the process. What Go cannot recover from (memory
//     exhaustion by declared sizes) is refused before the runtime sees it:
//     package binary.
//
// # Failures
//
//	guest returns 1 after fail          *actor.GuestError, instance usable
//	unreachable, division by zero, …    *actor.TrapError TrapUnreachable
//	proc_exit (a panic of standard Go)  *actor.TrapError TrapUnreachable, with the panic's text
//	call stack exhausted                *actor.TrapError TrapStack
//	trap after a refused memory.grow    *actor.TrapError TrapMemory
//	ABI broken (result 2, alloc lies)   *actor.TrapError TrapProtocol
//	context ended                       actor.ErrDeadline or actor.ErrCanceled
//	too many instances, no memory       actor.ErrOverloaded
//	engine closed                       actor.ErrStopping
//	a host function panicked: our bug   an error of none of these kinds, logged with its stack
package wasm

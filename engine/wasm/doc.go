// Package wasm runs guests of the native ABI (abi/SPEC.md) on wazero. It is the
// host's [engine.Engine], and it judges uploaded modules: [Engine.Inspect].
//
// # From bytes to an instance
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
// What is stored and downloaded is the module as it was uploaded; what is
// compiled is its metered form. A program is compiled once whoever asks, and
// stays in memory while anybody has it, or as one of those used last. Package compile
// has a process of its own meter and compile it, and keeps both by the hash of the
// module and the version of the meter; this package only loads them.
//
// # Fuel
//
// A guest runs on fuel (package engine/meter) of which it gets less than a
// millisecond's worth at a time. Whenever that is spent, it comes to Go for more:
// there Go's scheduler and garbage collector have their chance, the turns that
// wait get the processor, and a guest whose time, fuel or caller is gone is
// stopped. Host functions charge by what they do, so that calling them without
// end is no way out. The same turn uses the same fuel on every machine.
//
// # Images, and no byte from one actor to another
//
// Memory and mutable globals are all that can change in an instance (WASI has no
// state: engine/wasi), unless the module changes its tables or drops its segments as it runs. They are copied
// once, when the first instance is initialized, has been asked for its manifest
// and has run greenroom_warm if it exports that, so that its allocator and codecs
// have their first steps behind them; every other instance begins as a copy: small images are written, large ones are mapped from a file in
// memory, copy-on-write. The same image undoes what an actor left in an instance:
// the kernel tells which pages it has, and those are written over; if they are
// many, it is told to forget them; where it does not tell (before Linux 6.7),
// small memories are written over as a whole.
// An instance whose memory grew, or whose module has state that cannot be set
// from outside, is made anew instead. An instance is reset before a turn if the
// last one was another actor's, failed, or was read-only.
//
// # Memory
//
// Guest memories are slots of a few large reservations of address space, or
// mappings of an image; they are no part of Go's heap, and do not move its
// garbage collector's target. While a guest may run, all that it could touch is
// counted, before it can: at the beginning of a turn, and when it grows. If its app
// has no more ([engine.Memory]), memory.grow is -1, and a turn does not begin. After
// the turn, and while it waits for an answer from outside, the rest can be taken from
// it: [engine.Settler] counts the pages that it has of its own, which the kernel tells
// (Linux 6.7). So a turn that follows another one on its instance counts nothing, and
// a guest that declares much and touches little costs little while it does not run.
//
// # What holds
//
//   - A guest has the memory limit that NewInstance was given; memory.grow
//     beyond it answers -1, as the specification of Wasm has it.
//   - A guest stops soon after its context ends, wherever it is: in a loop, in
//     recursion, in its allocator, in _initialize.
//   - The same instance, the same turn and the same state give the same result
//     and use the same fuel: clock, randomness and sleep come from the turn.
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
//	calls too deep                      *actor.TrapError TrapStack
//	trap after a refused memory.grow    *actor.TrapError TrapMemory, actor.ErrOverloaded if its app had no more
//	ABI broken (result 2, alloc lies)   *actor.TrapError TrapProtocol
//	fuel limit of the turn passed       *actor.FuelError
//	context ended                       actor.ErrDeadline or actor.ErrCanceled
//	too many instances, no memory       actor.ErrOverloaded
//	engine closed                       actor.ErrStopping
//	a host function panicked: our bug   an error of none of these kinds, logged with its stack
package wasm

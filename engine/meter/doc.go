// Package meter rewrites WebAssembly modules so that they account for what they
// do: a metered module charges fuel as it runs and asks its host for more when
// it has none, bounds the depth of its calls, and never asks for more memory
// than it may have. It depends on nothing but the standard library, and runs no
// code: bytes in, bytes out, the same on every machine.
//
// # What is accepted
//
// Any valid core module of WebAssembly 2.0: the MVP with sign extension,
// saturating conversions, multiple values, bulk memory, reference types and
// SIMD. Anything else is refused with an error that names it; no input makes the
// package panic. Validity is not fully checked, since every engine does that
// with the result. Checked is everything that could let a module reach what the
// rewriting added (indices of globals, locals, functions and labels), and
// everything that an engine could read differently than this package, which
// could hide loops from it: types, reserved bytes and prefixed instructions of
// later versions are refused even where an engine accepts them.
//
// The package reads the binary format itself, although package binary has read a
// module before: it has to know each instruction, and it is the guard of what every
// other promise rests on, that no guest runs without end. Nothing that package binary
// takes for granted, and no module that it would let pass by a mistake, is trusted
// here. TestReadersAgree compares the two over WebAssembly's official test suite.
//
// # What a metered module has in addition
//
//   - It imports the function "greenroom_meter" "refill", (i64) -> i64. It is
//     called with the fuel left, below zero, whenever a charge could not be paid,
//     and returns the new fuel, at most [MaxFuel]; a host that will not give any
//     panics, which ends the guest. Called with [DepthExceeded], the calls are
//     too deep, and the host must not return.
//   - It exports the mutable globals "greenroom_fuel", i64, initially 0, and
//     "greenroom_depth", i32, initially Config.MaxDepth. A host sets both before
//     it calls an export, the fuel to at most [MaxFuel]. One that calls an
//     export while another runs leaves them alone, and puts the depth back to
//     what it was if that call fails.
//
// It may have many times the bytes of the module, if that has little but loops and
// bulk instructions: Config.MaxBytes bounds its code.
//
// Its data segments may be fewer: those that lie close to each other are merged
// (see data.go). Everything else is kept, custom sections too; the names of
// functions move with them.
//
// # What is charged, and where
//
// Each instruction has a weight (see weights.go). Fuel is charged in advance at
// two kinds of places: a function's entry pays for everything in the function
// outside its loops, a loop's header for one round of the loop outside the loops
// within. What an if does not run is not charged (the dearer arm is), what a
// branch skips is: the charge is a static upper bound of the region up to the
// next header, so that it costs little, and it is the same on every host. As
// every unbounded execution passes function entries or loop headers without end,
// nothing escapes.
//
// Small functions without loops pay nothing themselves if what they call does not
// either: their callers pay for them, and an indirect call pays for the dearest
// that it can reach. Callers also pay for what is outside the loops of a function
// that calls others within its loops only, if that is little. Where a function
// begins with a loop, as every one does that Go compiles, the loop's header checks
// what the entry charged.
//
// Instructions whose work depends on an operand (memory.copy, memory.fill,
// memory.init, memory.grow and their siblings for tables) charge by it before
// they run. A memory.copy or memory.fill of more than 64 KiB is done in pieces,
// each charged before it, by a function that is added behind the module's own: no
// engine can be interrupted within one instruction (see pieces.go).
//
// # Depth
//
// Depth is counted so that no cycle of calls escapes and few calls pay for it:
// at indirect calls, if one can lead to another, and in the busiest functions of
// each cycle of direct calls, there around the part that calls others, so that a
// call that returns early counts nothing (see region.go). Each place takes one,
// and one more for each 64 local variables and calls of the heaviest path of calls
// up to the next such place. What is taken is given back behind it. Recursion
// through a host that calls back into the module is for the host to bound.
//
// # Where the fuel is kept
//
// A function with loops that call little keeps the fuel in a local variable, and
// writes it back around calls and at its end: that is what makes tight loops
// cheap. It is an i32, since wazero does not align what it spills: an i64 on the
// boundary of two cache lines made tight loops half as slow again, and more. A function that traps therefore may have charged up to one such stretch
// less than it used; where it does is again the same on every host. Functions
// whose loops mostly call charge the global itself.
package meter

// Package meter rewrites WebAssembly modules so that they account for their work: a metered
// module charges fuel as it runs and asks its host for more when it has none, bounds the
// depth of its calls, and never asks for more memory than it may have. The package depends
// on nothing but the standard library, and runs no code: bytes in, bytes out, the same on
// every machine.
//
// # What is accepted
//
// Any valid core module of WebAssembly 2.0: the MVP with sign extension, saturating
// conversions, multiple values, bulk memory, reference types and SIMD. Any other module is
// refused with an error that names the reason; no input makes the package panic.
//
// # What a metered module has in addition
//
//   - It imports the function "greenroom_meter" "refill", (i64) -> i64. The module calls it
//     with the fuel left, below zero, whenever it could not pay a charge. The function
//     returns the new fuel, at most [MaxFuel]; a host that gives no more panics, which ends
//     the guest. A call with [DepthExceeded] means that the calls are too deep, and the host
//     must not return.
//   - It exports the mutable globals "greenroom_fuel", i64, initially 0, and
//     "greenroom_depth", i32, initially Config.MaxDepth. A host sets both before it calls an
//     export, the fuel to at most [MaxFuel]. A host that calls an export while another one
//     runs leaves both alone, and restores the depth if that call fails.
//
// A metered module may have many times the bytes of the original, if that has little but
// loops and bulk instructions: Config.MaxBytes bounds its code. It may have fewer data
// segments: segments that lie close to each other are merged (data.go). Everything else is
// kept, custom sections too; the names of functions move with them.
//
// # What holds
//
//   - Every unbounded execution passes places that charge without end: no loop and no
//     recursion is free.
//   - The charge is the same on every host.
//   - No cycle of calls passes without counting depth, except one through a host that calls
//     back into the module, which that host bounds.
//   - A memory.copy or memory.fill of more than 64 KiB is done in pieces, since no engine
//     can be interrupted within one instruction.
//
// protocol.md beside this file has the rest: what is checked and why, what each place
// charges, how depth is counted, and where the fuel is kept.
package meter

// Package binary reads the structure of a WebAssembly module from unchecked
// bytes: sections, types, imports, exports, tables, memories,
// globals and the outline of function bodies, but not their instructions.
//
// It stands between uploaded bytes and the Wasm runtime for two reasons. A
// runtime's decoder allocates by the counts that a module declares, so that
// twenty hostile bytes could ask for more memory than the machine has, and Go
// cannot recover from that: [Parse] refuses every count that the bytes cannot
// back, and everything beyond the limits of this package. And a runtime answers
// with the first fault, where an author wants them all: the parts of a [Module]
// can be judged one by one.
//
// [Prepare] writes the module anew: bounded where the runtime itself would let a
// guest take the host's memory, and so that the host can put an instance back to
// where it began. Package engine/meter meters what Prepare wrote; only that package
// reads the instructions.
//
// Everything here is pure: no I/O, no clock, no state. A Module shares the
// bytes that it was parsed from.
package binary

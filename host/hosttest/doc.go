// Package hosttest is an engine whose guests are plain Go functions, so that the
// host can be tested without Wasm: same frames, same host calls, same outcomes.
//
// A [World] is both the engine and the module source of a host. Deploying an
// [Actor] gives its type the next generation. Two hosts may share a World, as
// two processes share a database of modules.
//
// The engine checks what the host owes it, and panics otherwise: one goroutine
// at a time in an instance, no run after a broken one or after Close, no
// instance left open at the end ([World.CheckClosed]).
package hosttest

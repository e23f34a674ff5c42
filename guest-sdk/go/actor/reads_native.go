//go:build !wasm

package actor

// checksReads: in the test kit, a read-only method that returns with a changed struct fails.
const checksReads = true

// Package manifest reads what a guest module says of itself, abi/SPEC.md section
// 3, and finds every fault in it rather than the first, so that an author mends
// them in one go. It is for hosts and tools: guests only write manifests.
package manifest

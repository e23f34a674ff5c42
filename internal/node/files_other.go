//go:build !unix

package node

// fileLimit is how many files the process may have open; 0 if that is not known.
func fileLimit() uint64 { return 0 }

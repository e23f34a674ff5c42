//go:build !linux

package fair

// lowerPriority has the process yield to those of a server.
func lowerPriority() {}

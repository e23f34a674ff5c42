//go:build unix

package node

import "golang.org/x/sys/unix"

// fileLimit is how many files the process may have open; 0 if that is not known. Go has
// raised it to the hard limit.
func fileLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // signed on some systems
}

//go:build unix

package main

import "golang.org/x/sys/unix"

// freeSpace returns the bytes that an ordinary user may still write under dir.
func freeSpace(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true //nolint:unconvert // the fields' types differ between systems
}

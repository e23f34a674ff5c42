//go:build linux || darwin

package extism

import "golang.org/x/sys/unix"

// mapMemory reserves size bytes that read as zero. They are readable and
// writable at once rather than page by page, since a change of protection would
// split the mapping in two, and mappings are what runs out first; NORESERVE
// keeps what is not touched from counting.
func mapMemory(size uint64) ([]byte, error) {
	if size == 0 {
		return []byte{}, nil
	}
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

func unmapMemory(data []byte) {
	if len(data) > 0 {
		_ = unix.Munmap(data) // fails only for a slice that Mmap did not give
	}
}

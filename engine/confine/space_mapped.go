//go:build linux || darwin

package confine

import "golang.org/x/sys/unix"

// Map reserves size bytes that read as zero. They are readable and writable at
// once rather than page by page, since a change of protection would split the
// mapping in two, and mappings are what runs out first; NORESERVE keeps what is
// not touched from counting.
func Map(size uint64) ([]byte, error) {
	if size == 0 {
		return []byte{}, nil
	}
	data, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		keepSmallPages(data)
	}
	return data, err
}

// Unmap gives back what Map returned. It fails only for another slice.
func Unmap(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return unix.Munmap(data)
}

package wasm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/greenroom-run/greenroom/engine/confine"
)

// dropMemory makes pages what they were mapped as: zeros, or the file's content.
func dropMemory(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return unix.Madvise(data, unix.MADV_DONTNEED)
}

// imageFile is an image in a file that exists in memory only.
type imageFile struct {
	fd   int
	view []byte // the whole file, read-only
}

// newImageFile writes the runs into a file of size bytes. It returns nil where
// the system will not have it.
func newImageFile(runs []extent, size uint64) *imageFile {
	fd, err := unix.MemfdCreate("greenroom-guest", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	f := &imageFile{fd: fd}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		f.view, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		f.close()
		return nil
	}
	for _, r := range runs {
		copy(f.view[r.at:], r.data)
	}
	if unix.Mprotect(f.view, unix.PROT_READ) != nil {
		f.close()
		return nil
	}
	return f
}

// content is the file's content, read-only.
func (f *imageFile) content() []byte { return f.view }

// mapPrivate maps the file at the beginning of limit bytes of address space.
// What is written stays with the mapping.
func (f *imageFile) mapPrivate(limit uint64) ([]byte, error) {
	data, err := confine.Map(limit)
	if err != nil {
		return nil, err
	}
	at := unsafe.Pointer(&data[0])
	if _, err := unix.MmapPtr(f.fd, 0, at, uintptr(len(f.view)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE); err != nil {
		_ = confine.Unmap(data)
		return nil, fmt.Errorf("map the guest's image: %w", err)
	}
	return data, nil
}

func (f *imageFile) close() {
	_ = confine.Unmap(f.view)
	_ = unix.Close(f.fd)
}

package wasm

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageRegion is a range of addresses: the kernel's struct page_region.
type pageRegion struct{ start, end, categories uint64 }

// scanRequest is the kernel's struct pm_scan_arg (linux/fs.h).
type scanRequest struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages   uint64
	categoryInverted, categoryMask, categoryAnyOf, returnMask uint64
}

const (
	pagemapScan   = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)
	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
)

// maxWritten bounds the ranges of written pages that are copied back one by one.
const maxWritten = 128

// pagemap asks the kernel which pages of a copy-on-write mapping were written.
// That takes Linux 6.7; before it, nothing is known.
type pagemap struct {
	open func() *os.File // once; nil where there is none
	room sync.Pool       // of *scanRoom
}

type scanRoom struct {
	request scanRequest
	regions [maxWritten]pageRegion
}

func newPagemap() *pagemap {
	return &pagemap{
		open: sync.OnceValue(func() *os.File {
			f, err := os.Open("/proc/self/pagemap")
			if err != nil {
				return nil
			}
			return f
		}),
		room: sync.Pool{New: func() any { return new(scanRoom) }},
	}
}

// undo copies the pages of a mapping that were written back from the original,
// as long as the mapping. It reports false, having changed nothing, if it cannot
// tell or if they are so many that dropping them is cheaper.
func (p *pagemap) undo(mapping, original []byte) bool {
	f := p.open()
	if f == nil || len(mapping) == 0 {
		return false
	}
	room := p.room.Get().(*scanRoom) // on the heap, where the kernel finds it
	defer p.room.Put(room)
	base := uint64(uintptr(unsafe.Pointer(&mapping[0])))
	room.request = scanRequest{
		size: uint64(unsafe.Sizeof(room.request)), start: base, end: base + uint64(len(mapping)),
		vec: uint64(uintptr(unsafe.Pointer(&room.regions[0]))), vecLen: maxWritten,
		// Not of the file any more, and somewhere.
		categoryInverted: pageIsFile, categoryMask: pageIsFile, categoryAnyOf: pageIsPresent | pageIsSwapped,
		returnMask: pageIsPresent,
	}
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), pagemapScan, uintptr(unsafe.Pointer(&room.request)))
	runtime.KeepAlive(room)
	if errno != 0 || n == maxWritten || room.request.walkEnd < room.request.end {
		return false
	}
	for _, r := range room.regions[:n] {
		copy(mapping[r.start-base:r.end-base], original[r.start-base:r.end-base])
	}
	return true
}

func (p *pagemap) close() {
	if f := p.open(); f != nil {
		_ = f.Close() // nothing was written
	}
}

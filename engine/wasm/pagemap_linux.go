package wasm

import (
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
	pageIsZero    = 1 << 5
)

// maxWritten bounds the ranges of written pages that are copied back one by one.
const maxWritten = 128

// briefBytes is how much memory is scanned at a time: as short as a page fault, so
// that Go's scheduler need not be told of it. Telling it costs the processor, which
// another goroutine takes meanwhile.
const briefBytes = 2 << 20

// maxUndone bounds the bytes that are written back: what a guest has beyond it is
// better dropped, also for the memory that it takes.
const maxUndone = 1 << 20

// pagemap asks the kernel which pages of a guest's memory are its own. That takes
// Linux 6.7; before it, nothing is known.
type pagemap struct {
	open    func() int // once: a descriptor; below zero where there is none
	buffers sync.Pool  // of *scanBuffer
}

type scanBuffer struct {
	request scanRequest
	regions [maxWritten]pageRegion
}

func newPagemap() *pagemap {
	return &pagemap{
		open: sync.OnceValue(func() int {
			fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return -1
			}
			return fd
		}),
		buffers: sync.Pool{New: func() any { return new(scanBuffer) }},
	}
}

// scan walks the ranges of pages that a mapping has of its own: written, and not
// the page of zeros that all share. It goes on from where the buffer was full as
// long as each wants it to, and reports whether it came to the end.
func (p *pagemap) scan(mapping []byte, each func(base uint64, regions []pageRegion, last bool) bool) bool {
	fd := p.open()
	if fd < 0 || len(mapping) == 0 {
		return false
	}
	buf := p.buffers.Get().(*scanBuffer) // on the heap, where the kernel finds it
	defer p.buffers.Put(buf)
	base := uint64(uintptr(unsafe.Pointer(&mapping[0])))
	const others = pageIsFile | pageIsZero
	buf.request = scanRequest{
		size:             uint64(unsafe.Sizeof(buf.request)),
		categoryInverted: others, categoryMask: others, categoryAnyOf: pageIsPresent | pageIsSwapped,
		returnMask: pageIsPresent,
	}
	for at, end := base, base+uint64(len(mapping)); at < end; {
		n := 0
		for at < end && n < maxWritten {
			buf.request.start, buf.request.end = at, min(end, at+briefBytes)
			buf.request.vec, buf.request.vecLen = uint64(uintptr(unsafe.Pointer(&buf.regions[n]))), uint64(maxWritten-n)
			found, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), pagemapScan, uintptr(unsafe.Pointer(&buf.request)))
			runtime.KeepAlive(buf)
			if errno != 0 || found > uintptr(maxWritten-n) || buf.request.walkEnd <= at {
				return false
			}
			n += int(found)
			at = buf.request.walkEnd
		}
		if !each(base, buf.regions[:n], at >= end) {
			return false
		}
	}
	return true
}

// undo gives the pages that a memory has of its own the content of the image.
// It reports false, having changed nothing, if it cannot tell or if they are so
// many that dropping them is cheaper. A page that is not there reads as what it
// was mapped as.
func (p *pagemap) undo(memory []byte, img *image) bool {
	return p.scan(memory, func(base uint64, regions []pageRegion, last bool) bool {
		bytes := uint64(0)
		for _, r := range regions {
			bytes += r.end - r.start
		}
		if !last || bytes > maxUndone {
			return false
		}
		for _, r := range regions {
			img.overwrite(memory, r.start-base, r.end-base)
		}
		return true
	})
}

// private returns the bytes that a mapping has of its own, and false if it cannot
// tell.
func (p *pagemap) private(mapping []byte) (bytes uint64, ok bool) {
	ok = p.scan(mapping, func(_ uint64, regions []pageRegion, _ bool) bool {
		for _, r := range regions {
			bytes += r.end - r.start
		}
		return true
	})
	return bytes, ok
}

func (p *pagemap) close() {
	if fd := p.open(); fd >= 0 {
		_ = unix.Close(fd) // nothing was written
	}
}

package wasm

import (
	"bytes"
	"runtime"
	"sort"

	"github.com/tetratelabs/wazero/api"
)

// image is an instance as it was when it was initialized and had run nothing:
// its memory, its mutable globals, and a first frame buffer. Instances are made
// from it and put back to it. It is immutable.
type image struct {
	size               uint64   // of the memory, in bytes
	runs               []extent // what of it is not zero, in order
	file               *imageFile
	globals            []uint64
	framePtr, frameCap uint32
}

// extent is a piece of memory.
type extent struct {
	at   uint64
	data []byte
}

const (
	// systemPage is the grain in which memory is looked at. Larger pages of the
	// system do no harm.
	systemPage = 4 << 10
	// fileBytes is above which an image is mapped rather than copied. What is copied
	// is the instance's own, and every reset finds and writes over all of it; what is
	// mapped becomes the instance's own page by page as turns write to it. A mapping
	// costs some 20 µs when an instance is made.
	fileBytes = 8 << 10
)

// takeImage copies the state of an instance that is detached and at rest.
func takeImage(i *instance) *image {
	memory, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
	img := &image{size: i.mem.size, framePtr: i.entry.framePtr, frameCap: i.entry.frameCap}
	for _, g := range i.globals {
		img.globals = append(img.globals, g.Get())
	}
	total := uint64(0)
	for at := uint64(0); at < img.size; {
		end := at
		for end < img.size && !zero(memory[end:end+systemPage]) {
			end += systemPage
		}
		if end > at {
			img.runs = append(img.runs, extent{at, memory[at:end]})
			total += end - at
		}
		at = end + systemPage
	}
	if total > fileBytes {
		img.file = newImageFile(img.runs, img.size)
	}
	if img.file != nil {
		view := img.file.content()
		for n, r := range img.runs {
			img.runs[n].data = view[r.at : r.at+uint64(len(r.data))]
		}
		runtime.AddCleanup(img, func(f *imageFile) { f.close() }, img.file)
		return img
	}
	for n, r := range img.runs {
		img.runs[n].data = bytes.Clone(r.data)
	}
	return img
}

var zeros [systemPage]byte

func zero(page []byte) bool { return bytes.Equal(page, zeros[:]) }

// bytes is what the image takes.
func (img *image) bytes() (n int64) {
	for _, r := range img.runs {
		n += int64(len(r.data))
	}
	return n
}

// write copies the image into a memory of zeros.
func (img *image) write(memory []byte) {
	for _, r := range img.runs {
		copy(memory[r.at:], r.data)
	}
}

// overwrite gives a part of a memory the image's content, whatever it has now.
func (img *image) overwrite(memory []byte, from, to uint64) {
	first := sort.Search(len(img.runs), func(n int) bool {
		return img.runs[n].at+uint64(len(img.runs[n].data)) > from
	})
	for _, r := range img.runs[first:] {
		if r.at >= to {
			break
		}
		start := max(from, r.at)
		clear(memory[from:start])
		from = start + uint64(copy(memory[start:to], r.data[start-r.at:]))
	}
	clear(memory[from:to])
}

// setGlobals gives the mutable globals their first values.
func (img *image) setGlobals(globals []api.MutableGlobal) {
	for n, v := range img.globals {
		globals[n].Set(v)
	}
}

package actor

import "unsafe"

// frames is the memory that greenroom_alloc gave to the host. The host writes
// the frames of later turns into it until the instance ends, so the garbage
// collector must never have it.
var frames [][]uint64

// manifestBytes outlives the call that returned its address.
var manifestBytes []byte

// current is the instance that this module's memory is.
var current = newInstance(wasmHost{}, &registered)

//go:wasmexport greenroom_alloc
func greenroomAlloc(size uint32) unsafe.Pointer {
	// Words, for the alignment to 8; one more, so that no size is an empty slice.
	buf := make([]uint64, size/8+1)
	frames = append(frames, buf)
	return unsafe.Pointer(unsafe.SliceData(buf))
}

//go:wasmexport greenroom_manifest
func greenroomManifest() int64 {
	manifestBytes = registered.manifest()
	address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(manifestBytes))))
	return int64(address<<32 | uint64(len(manifestBytes)))
}

//go:wasmexport greenroom_turn
func greenroomTurn(frame unsafe.Pointer, size uint32) int32 {
	return current.Turn(unsafe.Slice((*byte)(frame), size))
}

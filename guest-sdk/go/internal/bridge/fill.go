package bridge

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
)

// BytesAt is where a slice begins.
func BytesAt(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// TextAt is where a string begins.
func TextAt(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// Fill calls a host function that fills a buffer, again with a larger one if need
// be, and returns what was filled with the bits above the length. An imported
// function goes in a literal: TinyGo takes none as a value.
func Fill(buf []byte, call func(buf unsafe.Pointer, capacity uint32) int64) ([]byte, uint8, abi.Code) {
	buf = buf[:cap(buf)]
	for {
		r := call(BytesAt(buf), uint32(len(buf)))
		if r < 0 {
			return nil, 0, abi.Code(r)
		}
		n := int(uint32(r))
		if n <= len(buf) {
			return buf[:n], uint8(r >> 32), 0
		}
		buf = make([]byte, n+n/4) // states grow by little
	}
}

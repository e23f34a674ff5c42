package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that calls nobody must not ask an older host for this.

//go:wasmimport greenroom call
func hostCall(frame unsafe.Pointer, frameLen uint32) int64

//go:wasmimport greenroom call_result
func hostCallResult(buf unsafe.Pointer, capacity uint32) int64

// callActor sends a message frame and returns the result frame.
func callActor(ctx *Context, frame []byte) ([]byte, abi.Code) {
	ctx.live()
	n := hostCall(bridge.BytesAt(frame), uint32(len(frame)))
	if n < 0 {
		return nil, abi.Code(n)
	}
	result, _, code := bridge.Fill(make([]byte, 0, n), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostCallResult(buf, capacity)
	})
	return result, code
}

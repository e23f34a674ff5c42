package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that sends nothing must not ask an older host for this.

//go:wasmimport greenroom send
func hostSend(frame unsafe.Pointer, frameLen uint32) int32

// sendMessage sends a message frame.
func sendMessage(ctx *Context, frame []byte) abi.Code {
	ctx.live()
	return abi.Code(hostSend(bridge.BytesAt(frame), uint32(len(frame))))
}

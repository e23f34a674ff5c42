package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that publishes nothing must not ask an older host for this.

//go:wasmimport greenroom event_publish
func hostEventPublish(name unsafe.Pointer, nameLen uint32, contentType unsafe.Pointer, contentTypeLen uint32, data unsafe.Pointer, dataLen uint32) int32

func publish(ctx *Context, name, contentType string, data []byte) abi.Code {
	ctx.live()
	return abi.Code(hostEventPublish(bridge.TextAt(name), uint32(len(name)), bridge.TextAt(contentType), uint32(len(contentType)), bridge.BytesAt(data), uint32(len(data))))
}

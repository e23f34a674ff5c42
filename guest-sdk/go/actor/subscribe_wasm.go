package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that subscribes to nothing must not ask an older host for these.

//go:wasmimport greenroom event_subscribe
func hostEventSubscribe(typ unsafe.Pointer, typLen uint32, id unsafe.Pointer, idLen uint32, method unsafe.Pointer, methodLen uint32) int32

//go:wasmimport greenroom event_unsubscribe
func hostEventUnsubscribe(typ unsafe.Pointer, typLen uint32, id unsafe.Pointer, idLen uint32) int32

func eventSubscribe(ctx *Context, to Ref, method string) int32 {
	ctx.live()
	return hostEventSubscribe(bridge.TextAt(to.Type), uint32(len(to.Type)), bridge.TextAt(to.ID), uint32(len(to.ID)), bridge.TextAt(method), uint32(len(method)))
}

func eventUnsubscribe(ctx *Context, to Ref) int32 {
	ctx.live()
	return hostEventUnsubscribe(bridge.TextAt(to.Type), uint32(len(to.Type)), bridge.TextAt(to.ID), uint32(len(to.ID)))
}

package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that watches nothing must not ask an older host for this.

//go:wasmimport greenroom host_watch
func importHostWatch(typ unsafe.Pointer, typLen uint32, id unsafe.Pointer, idLen uint32, method unsafe.Pointer, methodLen uint32) int32

func hostWatch(ctx *Context, of Ref, method string) int32 {
	ctx.live()
	return importHostWatch(bridge.TextAt(of.Type), uint32(len(of.Type)), bridge.TextAt(of.ID), uint32(len(of.ID)), bridge.TextAt(method), uint32(len(method)))
}

//go:wasmimport greenroom service_watch
func importServiceWatch(name unsafe.Pointer, nameLen uint32, method unsafe.Pointer, methodLen uint32) int32

func serviceWatch(ctx *Context, name, method string) int32 {
	ctx.live()
	return importServiceWatch(bridge.TextAt(name), uint32(len(name)), bridge.TextAt(method), uint32(len(method)))
}

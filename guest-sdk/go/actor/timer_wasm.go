package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that sets no timers must not ask an older host for them.

//go:wasmimport greenroom timer_set
func hostTimerSet(frame unsafe.Pointer, frameLen uint32) int32

//go:wasmimport greenroom timer_cancel
func hostTimerCancel(name unsafe.Pointer, nameLen uint32) int32

func timerSet(ctx *Context, frame []byte) int32 {
	ctx.live()
	return hostTimerSet(bridge.BytesAt(frame), uint32(len(frame)))
}

func timerCancel(ctx *Context, name string) int32 {
	ctx.live()
	return hostTimerCancel(bridge.TextAt(name), uint32(len(name)))
}

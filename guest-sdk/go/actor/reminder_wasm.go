package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// The host functions of reminders are called by functions and are no methods of
// wasmHost: a module that sets no reminders must not ask an older host for them.

//go:wasmimport greenroom reminder_set
func hostReminderSet(frame unsafe.Pointer, frameLen uint32) int32

//go:wasmimport greenroom reminder_cancel
func hostReminderCancel(name unsafe.Pointer, nameLen uint32) int32

//go:wasmimport greenroom reminder_get
func hostReminderGet(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom reminder_names
func hostReminderNames(prefix unsafe.Pointer, prefixLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom problem
func hostProblem(buf unsafe.Pointer, capacity uint32) int64

func reminderSet(ctx *Context, frame []byte) abi.Code {
	ctx.live()
	return abi.Code(hostReminderSet(bridge.BytesAt(frame), uint32(len(frame))))
}

func reminderCancel(ctx *Context, name string) abi.Code {
	ctx.live()
	return abi.Code(hostReminderCancel(bridge.TextAt(name), uint32(len(name))))
}

func reminderGet(ctx *Context, name string) ([]byte, abi.Code) {
	ctx.live()
	frame, _, code := bridge.Fill(make([]byte, 0, 512), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostReminderGet(bridge.TextAt(name), uint32(len(name)), buf, capacity)
	})
	return frame, code
}

func reminderNames(ctx *Context, prefix string) ([]byte, abi.Code) {
	ctx.live()
	list, _, code := bridge.Fill(make([]byte, 0, 512), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostReminderNames(bridge.TextAt(prefix), uint32(len(prefix)), buf, capacity)
	})
	return list, code
}

func problem(ctx *Context) string {
	ctx.live()
	text, _, code := bridge.Fill(make([]byte, 0, 256), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostProblem(buf, capacity)
	})
	if code < 0 {
		return ""
	}
	return string(text)
}

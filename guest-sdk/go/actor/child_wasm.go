package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that makes no children must not ask an older host for it.
//
//go:wasmimport greenroom spawn_child
func hostSpawnChild(typ unsafe.Pointer, typLen uint32, flags uint32, buf unsafe.Pointer, capacity uint32) int64

func spawnChild(ctx *Context, typ string, flags uint32) (string, abi.Code) {
	ctx.live()
	buf := make([]byte, abi.MaxSpawnedIDLen)
	n := hostSpawnChild(bridge.TextAt(typ), uint32(len(typ)), flags, bridge.BytesAt(buf), uint32(len(buf)))
	if n < 0 {
		return "", abi.Code(n)
	}
	return string(buf[:n]), 0
}

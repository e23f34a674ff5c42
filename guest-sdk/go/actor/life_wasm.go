package actor

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// As with reminders, a module that does none of this must not ask an older host for it.

//go:wasmimport greenroom spawn
func hostSpawn(typ unsafe.Pointer, typLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom become
func hostBecome(set unsafe.Pointer, setLen uint32) int32

//go:wasmimport greenroom pass_away
func hostPassAway() int32

//go:wasmimport greenroom service_claim
func hostServiceClaim(name unsafe.Pointer, nameLen uint32) int32

//go:wasmimport greenroom service_release
func hostServiceRelease(name unsafe.Pointer, nameLen uint32) int32

func spawn(ctx *Context, typ string) (string, abi.Code) {
	ctx.live()
	buf := make([]byte, abi.MaxSpawnedIDLen)
	n := hostSpawn(bridge.TextAt(typ), uint32(len(typ)), bridge.BytesAt(buf), uint32(len(buf)))
	if n < 0 {
		return "", abi.Code(n)
	}
	return string(buf[:n]), 0
}

func become(ctx *Context, set string) abi.Code {
	ctx.live()
	return abi.Code(hostBecome(bridge.TextAt(set), uint32(len(set))))
}

func passAway(ctx *Context) abi.Code {
	ctx.live()
	return abi.Code(hostPassAway())
}

func serviceClaim(ctx *Context, name string) abi.Code {
	ctx.live()
	return abi.Code(hostServiceClaim(bridge.TextAt(name), uint32(len(name))))
}

func serviceRelease(ctx *Context, name string) int32 {
	ctx.live()
	return hostServiceRelease(bridge.TextAt(name), uint32(len(name)))
}

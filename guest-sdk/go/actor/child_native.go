//go:build !wasm

package actor

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

func spawnChild(ctx *Context, typ string, flags uint32) (string, abi.Code) {
	return ctx.live().host.(bridge.Children).SpawnChild(typ, flags)
}

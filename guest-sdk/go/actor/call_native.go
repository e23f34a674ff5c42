//go:build !wasm

package actor

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// callActor sends a message frame and returns the result frame.
func callActor(ctx *Context, frame []byte) ([]byte, abi.Code) {
	return ctx.live().host.(bridge.Calls).Call(frame)
}

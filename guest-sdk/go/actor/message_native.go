//go:build !wasm

package actor

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// sendMessage sends a message frame.
func sendMessage(ctx *Context, frame []byte) abi.Code {
	return ctx.live().host.(bridge.Messages).Send(frame)
}

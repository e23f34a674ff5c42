//go:build !wasm

package actor

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

func publish(ctx *Context, name, contentType string, data []byte) abi.Code {
	return ctx.live().host.(bridge.Events).Publish(name, contentType, data)
}

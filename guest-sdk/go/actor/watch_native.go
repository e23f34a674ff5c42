//go:build !wasm

package actor

import "github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"

func hostWatch(ctx *Context, of Ref, method string) int32 {
	return ctx.live().host.(bridge.Watches).HostWatch(of.Type, of.ID, method)
}

func serviceWatch(ctx *Context, name, method string) int32 {
	return ctx.live().host.(bridge.Watches).ServiceWatch(name, method)
}

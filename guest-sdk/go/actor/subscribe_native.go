//go:build !wasm

package actor

import "github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"

func eventSubscribe(ctx *Context, to Ref, method string) int32 {
	return ctx.live().host.(bridge.Subscriptions).EventSubscribe(to.Type, to.ID, method)
}

func eventUnsubscribe(ctx *Context, to Ref) int32 {
	return ctx.live().host.(bridge.Subscriptions).EventUnsubscribe(to.Type, to.ID)
}

//go:build !wasm

package actor

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

func life(ctx *Context) bridge.Life { return ctx.live().host.(bridge.Life) }

func spawn(ctx *Context, typ string) (string, abi.Code) { return life(ctx).Spawn(typ) }

func become(ctx *Context, set string) abi.Code { return life(ctx).Become(set) }

func passAway(ctx *Context) abi.Code { return life(ctx).PassAway() }

func serviceClaim(ctx *Context, name string) abi.Code { return life(ctx).ServiceClaim(name) }

func serviceRelease(ctx *Context, name string) int32 { return life(ctx).ServiceRelease(name) }

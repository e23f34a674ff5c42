//go:build !wasm

package actor

import "github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"

func timers(ctx *Context) bridge.Timers { return ctx.live().host.(bridge.Timers) }

func timerSet(ctx *Context, frame []byte) int32 { return timers(ctx).TimerSet(frame) }

func timerCancel(ctx *Context, name string) int32 { return timers(ctx).TimerCancel(name) }

//go:build !wasm

package config

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

func configGet(ctx *actor.Context, name string) ([]byte, abi.Code) {
	return bridge.HostOf(ctx).(bridge.Outside).ConfigGet(name)
}

func secretGet(ctx *actor.Context, name string) ([]byte, abi.Code) {
	return bridge.HostOf(ctx).(bridge.Outside).SecretGet(name)
}

package config

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

//go:wasmimport greenroom config_get
func hostConfigGet(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport greenroom secret_get
func hostSecretGet(name unsafe.Pointer, nameLen uint32, buf unsafe.Pointer, capacity uint32) int64

func configGet(ctx *actor.Context, name string) ([]byte, abi.Code) {
	bridge.HostOf(ctx)
	value, _, code := bridge.Fill(make([]byte, 0, 256), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostConfigGet(bridge.TextAt(name), uint32(len(name)), buf, capacity)
	})
	return value, code
}

func secretGet(ctx *actor.Context, name string) ([]byte, abi.Code) {
	bridge.HostOf(ctx)
	value, _, code := bridge.Fill(make([]byte, 0, 256), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostSecretGet(bridge.TextAt(name), uint32(len(name)), buf, capacity)
	})
	return value, code
}

//go:build !wasm

package http

import (
	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

// roundTrip sends a request frame and returns the response frame.
func roundTrip(ctx *actor.Context, frame []byte) ([]byte, abi.Code) {
	return bridge.HostOf(ctx).(bridge.Outside).HTTPRequest(frame)
}

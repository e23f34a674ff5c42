package http

import (
	"unsafe"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/guest-sdk/go/actor"
	"github.com/greenroom-run/greenroom/guest-sdk/go/internal/bridge"
)

//go:wasmimport greenroom http_request
func hostHTTPRequest(frame unsafe.Pointer, frameLen uint32) int64

//go:wasmimport greenroom http_response
func hostHTTPResponse(buf unsafe.Pointer, capacity uint32) int64

// roundTrip sends a request frame and returns the response frame.
func roundTrip(ctx *actor.Context, frame []byte) ([]byte, abi.Code) {
	bridge.HostOf(ctx)
	n := hostHTTPRequest(bridge.BytesAt(frame), uint32(len(frame)))
	if n < 0 {
		return nil, abi.Code(n)
	}
	response, _, code := bridge.Fill(make([]byte, 0, n), func(buf unsafe.Pointer, capacity uint32) int64 {
		return hostHTTPResponse(buf, capacity)
	})
	return response, code
}

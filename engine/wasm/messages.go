package wasm

import (
	"bytes"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/confine"
)

func send(i *instance, g guestBytes, s []uint64) (uint64, abi.Code) {
	frame := bytes.Clone(g.at(s[0], s[1])) // what the host keeps must not alias the guest's memory
	if i.calls == nil {
		return 0, abi.CodeNoTurn
	}
	var m abi.Message
	i.malformed = ""
	if err := abi.DecodeMessage(frame, &m); err != nil {
		i.malformed = err.Error()
		return 0, abi.CodeInvalid
	}
	var code abi.Code
	var err error
	i.wait(func() { code, err = i.calls.Send(&m) })
	if err != nil {
		panic(&confine.Stop{Err: err})
	}
	return 0, code
}

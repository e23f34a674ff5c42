package turn

import "github.com/greenroom-run/greenroom/abi"

// Send implements [engine.Calls].
func (t *Turn) Send(*abi.Message) (abi.Code, error) {
	return t.refuse(abi.CodeNotReady, "this host has no messages"), nil
}

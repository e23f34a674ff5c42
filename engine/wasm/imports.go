package wasm

import (
	"slices"

	"github.com/greenroom-run/greenroom/abi"
	"github.com/greenroom-run/greenroom/engine/binary"
)

// HostFunctions returns the names of the host functions that a module imports, in order.
func HostFunctions(wasm []byte) ([]string, error) {
	m, err := binary.Parse(wasm)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, imp := range m.Imports {
		if imp.Module == abi.HostModule {
			names = append(names, imp.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

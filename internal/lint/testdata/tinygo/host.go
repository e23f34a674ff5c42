package main

import "unsafe"

//go:wasmimport greenroom state_json
func hostStateJSON(buf unsafe.Pointer, capacity uint32) int64

//go:wasmexport answer
func answer() int32 { return 42 }

func fill(call func(unsafe.Pointer, uint32) int64) int64 { return call(nil, 0) }

func uses() (int64, func() int32) {
	_ = hostStateJSON(nil, 0)
	_ = (hostStateJSON)(nil, 0)
	_ = fill(func(buf unsafe.Pointer, capacity uint32) int64 { return hostStateJSON(buf, capacity) })
	value := hostStateJSON       // want hostStateJSON is used as a value
	_ = fill(hostStateJSON)      // want hostStateJSON is used as a value
	return value(nil, 0), answer // want answer is used as a value
}

func main() {}

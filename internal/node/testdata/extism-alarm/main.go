// Command extism-alarm is an Extism plug-in whose actors set reminders and timers and call
// others as they are told to, and keep what fires. It uses no PDK: its imports are what PDKs import.
package main

import "encoding/hex"

// Of Extism. A block is an offset of the kernel's memory.

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u8
func inputByte(at uint64) uint32

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env length
func length(block uint64) uint64

//go:wasmimport extism:host/env load_u8
func loadByte(at uint64) uint32

//go:wasmimport extism:host/env store_u8
func storeByte(at uint64, b uint32)

//go:wasmimport extism:host/env output_set
func outputSet(block, size uint64)

// Of Greenroom.

//go:wasmimport extism:host/user greenroom_self
func self() uint64

//go:wasmimport extism:host/user greenroom_state_get
func stateGet(key uint64) uint64

//go:wasmimport extism:host/user greenroom_state_set_bytes
func stateSetBytes(key, value uint64)

//go:wasmimport extism:host/user greenroom_reminder_set
func reminderSet(reminder uint64)

//go:wasmimport extism:host/user greenroom_reminder_cancel
func reminderCancel(name uint64)

//go:wasmimport extism:host/user greenroom_reminder_get
func reminderGet(name uint64) uint64

//go:wasmimport extism:host/user greenroom_timer_set
func timerSet(timer uint64) uint64

//go:wasmimport extism:host/user greenroom_call
func call(message uint64) uint64

func input() []byte {
	b := make([]byte, inputLength())
	for i := range b {
		b[i] = byte(inputByte(uint64(i)))
	}
	return b
}

func block(b []byte) uint64 {
	at := alloc(uint64(len(b)))
	for i, v := range b {
		storeByte(at+uint64(i), uint32(v))
	}
	return at
}

func content(block uint64) []byte {
	if block == 0 {
		return nil
	}
	b := make([]byte, length(block))
	for i := range b {
		b[i] = byte(loadByte(block + uint64(i)))
	}
	return b
}

func output(b []byte) int32 {
	if len(b) > 0 {
		outputSet(block(b), uint64(len(b)))
	}
	return 0
}

// remind sets the reminder that its input is.
//
//go:wasmexport remind
func remind() int32 {
	reminderSet(block(input()))
	return 0
}

// time sets the timer that its input is.
//
//go:wasmexport time
func timer() int32 {
	timerSet(block(input()))
	return 0
}

// cancel cancels the reminder of the name that its input is.
//
//go:wasmexport cancel
func cancel() int32 {
	reminderCancel(block(input()))
	return 0
}

// show outputs the reminder of the name that its input is.
//
//go:wasmexport show
func show() int32 { return output(content(reminderGet(block(input())))) }

// ring keeps what it is told of the turn, and its input in hex, under the input's key: who
// fires it is told apart by what it is given.
//
//go:wasmexport ring
func ring() int32 {
	in := hex.EncodeToString(input())
	stateSetBytes(block([]byte("in "+in)), self())
	return 0
}

// rung outputs what the firing was told whose input was this, in hex.
//
//go:wasmexport rung
func rung() int32 { return output(content(stateGet(block(append([]byte("in "), input()...))))) }

// ask outputs the result of the call that its input is.
//
//go:wasmexport ask
func ask() int32 { return output(content(call(block(input())))) }

// who outputs what it is told of the turn.
//
//go:wasmexport who
func who() int32 { return output(content(self())) }

func main() {}

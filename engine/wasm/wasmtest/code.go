package wasmtest

import "slices"

// Instructions without operands.
const (
	Unreachable = 0x00
	Return      = 0x0f
	Drop        = 0x1a
	I32Eqz      = 0x45
	I32LtU      = 0x49
	I32Add      = 0x6a
	I32Sub      = 0x6b
	I32DivU     = 0x6e
	I64Add      = 0x7c
)

// Code joins pieces of code: bytes, slices of bytes, and constants.
func Code(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case []byte:
			out = append(out, p...)
		case int:
			out = append(out, byte(p))
		case byte:
			out = append(out, p)
		default:
			panic("wasmtest: code is made of bytes")
		}
	}
	return out
}

// I32Const pushes v.
func I32Const(v int32) []byte { return append([]byte{0x41}, signed(int64(v))...) }

// I64Const pushes v.
func I64Const(v int64) []byte { return append([]byte{0x42}, signed(v)...) }

// Call calls a function.
func Call(index uint32) []byte { return append([]byte{0x10}, U32(index)...) }

// LocalGet pushes a local or parameter.
func LocalGet(index uint32) []byte { return append([]byte{0x20}, U32(index)...) }

// LocalSet pops into a local.
func LocalSet(index uint32) []byte { return append([]byte{0x21}, U32(index)...) }

// GlobalGet pushes a global.
func GlobalGet(index uint32) []byte { return append([]byte{0x23}, U32(index)...) }

// GlobalSet pops into a global.
func GlobalSet(index uint32) []byte { return append([]byte{0x24}, U32(index)...) }

// MemoryGrow grows by the pages on the stack and pushes the old size or -1.
func MemoryGrow() []byte { return []byte{0x40, 0} }

// Store pops a value and an address and stores an i32.
func Store() []byte { return []byte{0x36, 2, 0} }

// Load8 replaces an address by the byte there.
func Load8() []byte { return []byte{0x2d, 0, 0} }

// Loop runs body until it does not branch (Again) any more.
func Loop(body ...byte) []byte { return slices.Concat([]byte{0x03, 0x40}, body, []byte{0x0b}) }

// Again goes back to the head of the loop.
func Again() []byte { return []byte{0x0c, 0} }

// If runs body if the i32 on the stack is not zero.
func If(body ...byte) []byte { return slices.Concat([]byte{0x04, 0x40}, body, []byte{0x0b}) }

// Forever is a loop without an end.
func Forever() []byte { return Loop(Again()...) }

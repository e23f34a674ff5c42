package meter

import (
	"errors"
	"strings"
	"testing"
)

// build makes a module of sections, given as ID and content.
func build(sections ...string) []byte {
	wasm := append([]byte{}, magic...)
	for _, s := range sections {
		wasm = append(appendU32(append(wasm, s[0]), uint32(len(s)-1)), s[1:]...)
	}
	return wasm
}

// Sections that tests put together: a type without parameters and results, one
// function of it, its code.
const (
	oneType = "\x01\x01\x60\x00\x00"
	oneFunc = "\x03\x01\x00"
)

// body is a code section with one function.
func body(locals, code string) string {
	b := locals + code + "\x0b"
	return "\x0a\x01" + string(appendU32(nil, uint32(len(b)))) + b
}

func TestRefused(t *testing.T) {
	code := func(c string) []byte { return build(oneType, oneFunc, body("\x00", c)) }
	tests := []struct {
		name string
		wasm []byte
		err  string
	}{
		{"empty", nil, "not a WebAssembly core module of version 1"},
		{"a component", []byte("\x00asm\x0d\x00\x01\x00"), "not a WebAssembly core module of version 1"},
		{"a section that is cut off", []byte("\x00asm\x01\x00\x00\x00\x01\x05\x01"), "ends early"},
		{"an unknown section", build("\x0d\x00"), "section 13 is not of WebAssembly 2.0"},
		{"sections out of order", build(oneFunc, oneType), "type 0 does not exist"},
		{"a section twice", build(oneType, oneType), "section 1 is out of order or twice there"},
		{"bytes after a section's end", build(oneType + "\x00"), "has bytes after its end"},
		{"a list that cannot be so long", build("\x01\xff\xff\xff\xff\x0f\x60\x00\x00"), "a list of 4294967295 elements in 3 bytes"},
		{"a number of too many bits", build("\x01\xff\xff\xff\xff\x1f"), "a number does not fit 32 bits"},
		{"a type that is no function", build("\x01\x01\x5f\x00"), "type form 0x5f is not a function"},
		{"an unknown value type", build("\x01\x01\x60\x01\x6e\x00"), "the type 0x6e is not of WebAssembly 2.0"},
		{"data that is counted wrongly", build("\x05\x01\x00\x01", "\x0c\x02", "\x0b\x01\x00\x41\x00\x0b\x00"), "counts 2 data segments; there are 1"},
		{"a function without body", build(oneType, oneFunc), "1 functions are declared, 0 have a body"},
		{"a 64-bit memory", build("\x05\x01\x04\x01"), "limits of kind 4 are not of WebAssembly 2.0"},
		{"a shared memory", build("\x05\x01\x03\x01\x01"), "limits of kind 3 are not of WebAssembly 2.0"},
		{"too much memory", build("\x05\x01\x00\x11"), "the module starts with 17 pages of memory (1088 KiB); at most 16 (1024 KiB) are allowed"},
		{"too great a table", build("\x04\x01\x70\x00\xe9\x07"), "the module starts with a table of 1001 elements; at most 1000 are allowed"},
		{"an export that does not exist", build("\x07\x01\x01f\x00\x00"), "function 0 does not exist"},
		{"an export of the fuel", build("\x06\x01\x7f\x00\x41\x00\x0b", "\x07\x01\x0egreenroom_fuel\x03\x00"), "exports greenroom_fuel: the module is metered already"},
		{"an import of the meter's module", build(oneType, "\x02\x01\x0fgreenroom_meter\x01x\x00\x00"), "imports greenroom_meter.x: the module is metered already"},
		{"too many local variables", build(oneType, oneFunc, body("\x01\x80\x80\x80\x01\x7f", "")), "has 2097152 local variables; at most 1048576 are allowed"},
		{"the added global", code("\x23\x00\x1a"), "function 0: at byte 3: global 0 does not exist"},
		{"the added local variable", code("\x20\x00\x1a"), "function 0: local variable 0 does not exist"},
		{"the added label", code("\x0c\x01"), "function 0: label 1 does not exist"},
		{"an added label of a loop", code("\x03\x40\x0c\x02\x0b"), "function 0: label 2 does not exist"},
		{"the added function", code("\x42\x00\x10\x01\x1a"), "function 0: at byte 5: function 1 does not exist"},
		{"a type that does not exist", code("\x02\x01\x0b"), "function 0: at byte 3: type 1 does not exist"},
		{"a tail call", code("\x12\x00"), "the instruction 0x12 is not of WebAssembly 2.0"},
		{"an exception", code("\x08\x00"), "the instruction 0x08 is not of WebAssembly 2.0"},
		{"an atomic", code("\xfe\x03\x00"), "the instruction 0xfe is not of WebAssembly 2.0"},
		{"a relaxed SIMD instruction", code("\xfd\x80\x02"), "the instruction 0xfd 0x80 0x02 is not of WebAssembly 2.0"},
		{"an unknown bulk instruction", code("\xfc\x12"), "the instruction 0xfc 18 is not of WebAssembly 2.0"},
		{"code after the end", code("\x0b\x01"), "function 0: goes on after its end"},
		{"code without end", build(oneType, oneFunc, "\x0a\x01\x02\x00\x01"), "function 0: at byte 2: ends early"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, _, err := Rewrite(test.wasm, Config{MaxMemoryPages: 16, MaxTableElements: 1000})
			if err == nil || !strings.Contains(err.Error(), test.err) || !strings.HasPrefix(err.Error(), "meter: ") {
				t.Errorf("got %v, want …%s", err, test.err)
			}
			if out != nil {
				t.Error("got a module, too")
			}
			if claims := strings.Contains(test.err, "metered already"); claims != errors.Is(err, ErrMetered) {
				t.Errorf("%v is ErrMetered: %t", err, !claims)
			}
		})
	}
}

func TestClampsLimits(t *testing.T) {
	module := build("\x04\x02\x70\x00\x01\x6f\x01\x02\x03", "\x05\x01\x01\x01\x80\x80\x04")
	out, _, err := Rewrite(module, Config{MaxMemoryPages: 16, MaxTableElements: 1000})
	if err != nil {
		t.Fatal(err)
	}
	m, err := parseSections(out)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(m[secTable]), "\x02\x70\x01\x01\xe8\x07\x6f\x01\x02\x03"; got != want {
		t.Errorf("tables %x, want %x", got, want)
	}
	if got, want := string(m[secMemory]), "\x01\x01\x01\x10"; got != want {
		t.Errorf("memory %x, want %x", got, want)
	}
}

// parseSections returns the content of each section but the custom ones.
func parseSections(wasm []byte) (map[byte][]byte, error) {
	out := map[byte][]byte{}
	r := &reader{b: wasm, off: len(magic)}
	for !r.done() {
		id := r.byte()
		out[id] = r.bytes(r.u32())
	}
	return out, r.err
}

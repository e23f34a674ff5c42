package meter

import (
	"strings"
	"testing"
)

// TestHardModules are made to take long: their size is that of an upload, and a
// way of rewriting whose time is the square of it does not come to an end here.
func TestHardModules(t *testing.T) {
	const many = 200_000
	number := func(n int) string { return string(appendU32(nil, uint32(n))) }
	functions := func(count int, each func(i int) string) []byte {
		var bodies strings.Builder
		for i := range count {
			code := "\x00" + each(i) + "\x0b"
			bodies.WriteString(number(len(code)) + code)
		}
		return build(oneType, "\x03"+number(count)+strings.Repeat("\x00", count), "\x0a"+number(count)+bodies.String())
	}
	one := func(code string) []byte { return functions(1, func(int) string { return code }) }
	tests := map[string][]byte{
		"deep loops with branches to the outermost": one(strings.Repeat("\x03\x40", many) + strings.Repeat("\x0c"+number(many), many) + strings.Repeat("\x0b", many)),
		"deep loops around a call":                  one(strings.Repeat("\x03\x40", many) + "\x10\x00" + strings.Repeat("\x0b", many)),
		"calls in deep blocks, each with a way out": one(strings.Repeat("\x02\x40", many) + strings.Repeat("\x10\x00\x0c\x00\x10\x00\x0b", many)),
		"deep ifs":                one(strings.Repeat("\x41\x00\x04\x40", many) + strings.Repeat("\x0b", many)),
		"a great table of labels": one("\x03\x40\x41\x00\x0e" + number(many) + strings.Repeat("\x00", many+1) + "\x0b"),
		"a long chain of calls":   functions(many, func(i int) string { return "\x10" + number(min(i+1, many-1)) }),
		"a great cycle of calls":  functions(many, func(i int) string { return "\x10" + number((i+1)%many) }),
		"everything calls everything": functions(600, func(int) string {
			var calls strings.Builder
			for to := range 600 {
				calls.WriteString("\x10" + number(to))
			}
			return calls.String()
		}),
		"many functions in pairs that call each other": functions(many, func(i int) string { return "\x10" + number(i^1) }),
		"scattered data": build("\x05\x01\x00\x10", dataSection(func() (out []string) {
			for i := range 100_000 {
				out = append(out, segment((i*7919)%1_000_000, "x"))
			}
			return out
		}()...)),
	}
	for name, wasm := range tests {
		t.Run(name, func(t *testing.T) {
			out, _, err := Rewrite(wasm, Config{})
			if err != nil {
				t.Fatal(err)
			}
			if len(out) > 20*len(wasm) {
				t.Errorf("%d bytes have become %d", len(wasm), len(out))
			}
		})
	}
}
